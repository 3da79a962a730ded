#include "ops/human.hpp"

#include "core/instant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace oncerun::ops {

namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t length = 1; ///< bytes
  bool valid = false;
};

/// The code point at the begin of a text that is not empty.
CodePoint first_of(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length > text.size() || !core::is_utf8(text.substr(0, length))) {
    return {lead, 1, false};
  }
  char32_t value = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    value = (value << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  return {value, length, true};
}

struct Range {
  char32_t first;
  char32_t last;
};

template<std::size_t size>
bool contains(const std::array<Range, size>& ranges, char32_t value) noexcept {
  return std::any_of(ranges.begin(), ranges.end(), [value](const Range& range) {
    return value >= range.first && value <= range.last;
  });
}

constexpr std::array<Range, 9> k_no_columns{{
    {0x0300, 0x036F}, // combining diacritical marks
    {0x0483, 0x0489},
    {0x0591, 0x05BD},
    {0x064B, 0x065F},
    {0x200B, 0x200D}, // zero width space and joiners
    {0x20D0, 0x20F0},
    {0xFE00, 0xFE0F}, // variation selectors
    {0xFE20, 0xFE2F},
    {0xFEFF, 0xFEFF},
}};

constexpr std::array<Range, 10> k_two_columns{{
    {0x1100, 0x115F}, // Hangul Jamo
    {0x2E80, 0x303E}, // CJK radicals, punctuation
    {0x3041, 0xA4CF}, // kana, CJK ideographs, Yi
    {0xA960, 0xA97F},
    {0xAC00, 0xD7A3}, // Hangul syllables
    {0xF900, 0xFAFF},
    {0xFE30, 0xFE6F},
    {0xFF00, 0xFF60},   // full width forms
    {0x1F300, 0x1FAFF}, // emoji
    {0x20000, 0x3FFFD},
}};

/// Embeddings, overrides and isolates (UAX 9): they can make a line read as another one.
constexpr std::array<Range, 4> k_direction_marks{{
    {0x200E, 0x200F},
    {0x2028, 0x202E}, // with the line and paragraph separators
    {0x2066, 0x2069},
    {0x061C, 0x061C},
}};

int columns_of(char32_t value) noexcept {
  if (contains(k_no_columns, value)) {
    return 0;
  }
  return contains(k_two_columns, value) ? 2 : 1;
}

void append_printable(std::string& result, const CodePoint& point, std::string_view bytes) {
  if (point.value == '\n' || point.value == '\t') {
    result += point.value == '\n' ? "\\n" : "\\t";
  } else if (!point.valid || core::has_control_character(bytes)) {
    for (const char byte : bytes) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  } else if (contains(k_direction_marks, point.value)) {
    result += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(point.value));
  } else {
    result += bytes;
  }
}

} // namespace

std::string human_duration(std::chrono::milliseconds duration) {
  using std::chrono::days;
  using std::chrono::hours;
  using std::chrono::milliseconds;
  using std::chrono::minutes;
  using std::chrono::seconds;
  const milliseconds left = std::max(duration, milliseconds::zero());
  const auto whole = std::chrono::floor<seconds>(left);
  if (left == milliseconds::zero()) {
    return "0s";
  }
  if (left < milliseconds(100)) {
    return fmt::format("{}ms", left.count());
  }
  if (left < seconds(10)) {
    return fmt::format("{}.{}s", whole.count(), (left - whole).count() / 100);
  }
  if (whole < minutes(1)) {
    return fmt::format("{}s", whole.count());
  }
  const auto as_minutes = std::chrono::floor<minutes>(whole);
  if (whole < hours(1)) {
    return fmt::format("{}m {}s", as_minutes.count(), (whole - as_minutes).count());
  }
  const auto as_hours = std::chrono::floor<hours>(whole);
  if (whole < days(1)) {
    return fmt::format("{}h {}m", as_hours.count(), (as_minutes - as_hours).count());
  }
  const auto as_days = std::chrono::floor<days>(whole);
  return fmt::format("{}d {}h", as_days.count(), (as_hours - as_days).count());
}

std::string human_instant(std::string_view utc) {
  if (utc.empty()) {
    return "-";
  }
  const std::optional<Instant> instant = core::parse_rfc3339(utc);
  if (!instant) {
    return printable(utc);
  }
  std::string text = core::print_rfc3339(std::chrono::floor<std::chrono::seconds>(*instant));
  std::replace(text.begin(), text.end(), 'T', ' ');
  return text;
}

std::optional<std::chrono::milliseconds> between(std::string_view from, std::string_view to) {
  const std::optional<Instant> end = core::parse_rfc3339(to);
  return end ? since(from, *end) : std::nullopt;
}

std::optional<std::chrono::milliseconds> since(std::string_view from, Instant now) {
  const std::optional<Instant> begin = core::parse_rfc3339(from);
  if (!begin) {
    return std::nullopt;
  }
  return now - *begin;
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    append_printable(result, point, text.substr(0, point.length));
    text.remove_prefix(point.length);
  }
  return result;
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-+.,/:@%=").find(c) != std::string_view::npos ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) {
    return std::string(text);
  }
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::string run_arguments(const core::RunKey& run) {
  return "-j " + printable(shell_word(run.job.text())) + " -d " +
         printable(shell_word(run.date.label()));
}

std::string run_name(const core::RunKey& run) {
  return printable(run.job.text()) + " " + printable(run.date.label());
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

int display_width(std::string_view text) noexcept {
  int width = 0;
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    width += columns_of(point.value);
    text.remove_prefix(point.length);
  }
  return width;
}

std::string cut_to_width(std::string_view text, int width) {
  if (display_width(text) <= width) {
    return std::string(text);
  }
  if (width <= 0) {
    return {};
  }
  std::string result;
  int used = 0;
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    const int columns = columns_of(point.value);
    if (used + columns > width - 1) { // one column is the ellipsis's
      break;
    }
    used += columns;
    result += text.substr(0, point.length);
    text.remove_prefix(point.length);
  }
  return result + "…";
}

} // namespace oncerun::ops
