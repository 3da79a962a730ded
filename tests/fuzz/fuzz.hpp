#pragma once

// What the fuzz targets share. A target is one LLVMFuzzerTestOneInput: libFuzzer calls it where
// there is clang, replay_main.cpp elsewhere. It states properties; input that is refused with an
// error of ours is fine, input that breaks a property ends the process.

#include "core/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace oncerun::fuzz {

/// Ends the process, saying what did not hold of what.
inline void require(bool holds, std::string_view property, std::string_view about = {}) {
  if (!holds) {
    std::fprintf(stderr, "broken property: %.*s\n  %.*s\n", static_cast<int>(property.size()),
                 property.data(), static_cast<int>(about.size()), about.data());
    std::abort();
  }
}

/// The pieces of `text` between separators; one empty piece for the empty text.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return pieces;
    }
    text.remove_prefix(end + 1);
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Whether `call` went through; false if it was refused as a wrong command line. Whatever else is
/// thrown ends the process.
template<typename Call>
bool accepts(Call&& call) {
  try {
    std::forward<Call>(call)();
    return true;
  } catch (const core::UsageError& error) {
    require(error.what()[0] != '\0', "a refusal says why");
    return false;
  }
}

} // namespace oncerun::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
