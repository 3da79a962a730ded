#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace oncerun::core {

// Small pieces of the grammars and messages of this folder. Digits are decimal, without sign, space
// or locale.

[[nodiscard]] constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// The number that all of `text` is; none if it is empty, has anything but digits, or is above
/// `max`, which must be below 2^59.
[[nodiscard]] constexpr std::optional<std::int64_t> parse_number(std::string_view text,
                                                                 std::int64_t max) noexcept {
  if (text.empty()) {
    return std::nullopt;
  }
  std::int64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
    if (value > max) {
      return std::nullopt;
    }
  }
  return value;
}

/// Appends `value`, which is not negative, with leading zeros up to `width`.
inline void append_padded(std::string& text, std::int64_t value, std::size_t width) {
  const std::string digits = std::to_string(value);
  if (digits.size() < width) {
    text.append(width - digits.size(), '0');
  }
  text += digits;
}

/// `text` in double quotes for a one-line message: control characters and broken UTF-8 as \xNN, and
/// cut after some 80 bytes.
[[nodiscard]] std::string quote(std::string_view text);

} // namespace oncerun::core
