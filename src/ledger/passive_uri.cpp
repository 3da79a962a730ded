#include "ledger/passive_uri.hpp"

#include <string_view>

namespace oncerun::ledger {

std::string passive_uri(const std::string& path) {
  constexpr std::string_view k_digits = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      uri.push_back('%');
      uri.push_back(k_digits[byte >> 4]);
      uri.push_back(k_digits[byte & 0xF]);
    } else {
      uri.push_back(c);
    }
  }
  return uri + "?mode=ro&readonly_shm=1";
}

} // namespace oncerun::ledger
