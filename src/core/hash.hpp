#pragma once

#include <cstdint>
#include <string_view>

namespace oncerun::core {

/// FNV-1a, 64 bits (draft-eastlake-fnv). Against accidents, never against anyone's intent.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view bytes) noexcept {
  std::uint64_t sum = 0xCBF29CE484222325U;
  for (const char c : bytes) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return sum;
}

} // namespace oncerun::core
