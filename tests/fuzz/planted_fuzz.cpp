// Has a fault on purpose: the suite proves by it that a broken property is found and reported.

#include "fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  oncerun::fuzz::require(!oncerun::fuzz::text_of(data, size).starts_with("bad"),
                         "the planted fault is found");
  return 0;
}
