#include "core/instant.hpp"

#include "core/text.hpp"

#include <cstdint>

namespace oncerun::core {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::sys_seconds;

/// "2026-10-26T18:00:00", of the clock that reads `local` as if it were UTC.
std::string print_clock(sys_seconds local) {
  const auto day = std::chrono::floor<std::chrono::days>(local);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss<seconds> time(local - day);
  std::string text;
  append_padded(text, static_cast<int>(date.year()), 4);
  text += '-';
  append_padded(text, static_cast<unsigned>(date.month()), 2);
  text += '-';
  append_padded(text, static_cast<unsigned>(date.day()), 2);
  text += 'T';
  append_padded(text, time.hours().count(), 2);
  text += ':';
  append_padded(text, time.minutes().count(), 2);
  text += ':';
  append_padded(text, time.seconds().count(), 2);
  return text;
}

/// Takes fixed parts off the front of a text; after the first that does not fit all fail.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : m_rest(text) {}

  /// Exactly `width` digits, a number from `low` to `high`.
  int number(std::size_t width, int low, int high) {
    const auto value = m_rest.size() < width
                           ? std::nullopt
                           : parse_number(m_rest.substr(0, width), std::int64_t{high});
    if (!value || *value < low) {
      m_good = false;
      return low;
    }
    m_rest.remove_prefix(width);
    return static_cast<int>(*value);
  }

  /// One character of `allowed`.
  char one_of(std::string_view allowed) {
    if (m_rest.empty() || allowed.find(m_rest.front()) == std::string_view::npos) {
      m_good = false;
      return '\0';
    }
    const char found = m_rest.front();
    m_rest.remove_prefix(1);
    return found;
  }

  [[nodiscard]] bool next_is(char c) const { return !m_rest.empty() && m_rest.front() == c; }
  [[nodiscard]] bool next_is_digit() const { return !m_rest.empty() && is_digit(m_rest.front()); }
  [[nodiscard]] bool good() const { return m_good; }
  [[nodiscard]] bool finished() const { return m_good && m_rest.empty(); }

 private:
  std::string_view m_rest;
  bool m_good = true;
};

/// The optional fraction of a second, cut to milliseconds.
milliseconds scan_fraction(Scanner& scanner) {
  if (!scanner.next_is('.')) {
    return milliseconds(0);
  }
  scanner.one_of(".");
  int value = scanner.number(1, 0, 9) * 100;
  for (int place = 10; scanner.next_is_digit(); place /= 10) {
    value += scanner.number(1, 0, 9) * place;
  }
  return milliseconds(value);
}

seconds scan_offset(Scanner& scanner) {
  const char sign = scanner.one_of("Zz+-");
  if (sign != '+' && sign != '-') {
    return seconds(0);
  }
  const std::chrono::hours hours(scanner.number(2, 0, 23));
  scanner.one_of(":");
  const std::chrono::minutes minutes(scanner.number(2, 0, 59));
  return sign == '-' ? -(hours + minutes) : hours + minutes;
}

} // namespace

std::string print_rfc3339(sys_seconds instant) {
  return print_clock(instant) + "Z";
}

std::string print_rfc3339(std::chrono::sys_time<milliseconds> instant) {
  const auto whole = std::chrono::floor<seconds>(instant);
  std::string text = print_clock(whole);
  text += '.';
  append_padded(text, (instant - whole).count(), 3);
  text += 'Z';
  return text;
}

std::string print_local_rfc3339(const Zone& zone, sys_seconds instant) {
  const auto offset =
      std::chrono::duration_cast<std::chrono::minutes>(zone.offset_at(instant)); // towards UTC
  std::string text = print_clock(instant + offset);
  const auto distance = std::chrono::abs(offset);
  text += offset.count() < 0 ? '-' : '+';
  append_padded(text, distance.count() / 60, 2);
  text += ':';
  append_padded(text, distance.count() % 60, 2);
  return text;
}

std::optional<std::chrono::sys_time<milliseconds>> parse_rfc3339(std::string_view text) {
  Scanner scanner(text);
  const int year = scanner.number(4, 1970, 9999);
  scanner.one_of("-");
  const int month = scanner.number(2, 1, 12);
  scanner.one_of("-");
  const int day = scanner.number(2, 1, 31);
  scanner.one_of("Tt ");
  const std::chrono::hours hour(scanner.number(2, 0, 23));
  scanner.one_of(":");
  const std::chrono::minutes minute(scanner.number(2, 0, 59));
  scanner.one_of(":");
  const seconds second(scanner.number(2, 0, 60));
  const milliseconds fraction = scan_fraction(scanner);
  const seconds offset = scan_offset(scanner);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!scanner.finished() || !date.ok()) {
    return std::nullopt;
  }
  return std::chrono::sys_days(date) + hour + minute + second + fraction - offset;
}

} // namespace oncerun::core
