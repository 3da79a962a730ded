#include "core/text.hpp"

#include "core/names.hpp"

namespace oncerun::core {

namespace {

constexpr std::size_t k_max_quoted = 80;
constexpr std::string_view k_hex = "0123456789abcdef";

void append_escaped(std::string& text, char c) {
  const auto byte = static_cast<unsigned char>(c);
  text += "\\x";
  text += k_hex[byte >> 4U];
  text += k_hex[byte & 0xFU];
}

/// The first `limit` bytes, less a character that the cut would break.
std::string_view head(std::string_view text, std::size_t limit) {
  std::size_t size = text.size() < limit ? text.size() : limit;
  while (size < text.size() && size > 0 &&
         (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80) {
    --size;
  }
  return text.substr(0, size);
}

} // namespace

std::string quote(std::string_view text) {
  const std::string_view shown = head(text, k_max_quoted);
  const bool plain = is_utf8(shown) && !has_control_character(shown);
  std::string result = "\"";
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    const bool printable = plain || (byte >= 0x20 && byte < 0x7F);
    if (printable) {
      result += c;
    } else {
      append_escaped(result, c);
    }
  }
  result += shown.size() < text.size() ? "…\"" : "\"";
  return result;
}

} // namespace oncerun::core
