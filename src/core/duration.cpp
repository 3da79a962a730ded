#include "core/duration.hpp"

#include "core/error.hpp"
#include "core/text.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace oncerun::core {

namespace {

struct Unit {
  char letter;
  std::int64_t milliseconds;
};

/// In the order in which they may follow each other.
constexpr std::array<Unit, 4> k_units{
    {{'d', 86'400'000}, {'h', 3'600'000}, {'m', 60'000}, {'s', 1'000}}};

constexpr std::size_t k_max_fraction_digits = 3;

std::size_t count_digits(std::string_view text, std::size_t from) {
  std::size_t at = from;
  while (at < text.size() && is_digit(text[at])) {
    ++at;
  }
  return at - from;
}

/// Reads one text front to back; every step says whether the grammar still holds.
class Reader {
 public:
  explicit Reader(std::string_view text) : m_rest(text) {}

  /// The next number with its unit. The fraction makes it the last one.
  [[nodiscard]] bool component() {
    const std::size_t whole_digits = count_digits(m_rest, 0);
    const auto whole = parse_number(m_rest.substr(0, whole_digits), k_max_duration.count());
    if (!whole) {
      return false;
    }
    m_rest.remove_prefix(whole_digits);
    std::int64_t thousandths = 0;
    if (!fraction(thousandths)) {
      return false;
    }
    const std::optional<std::int64_t> unit = unit_length();
    if (!unit || *whole > (k_max_duration.count() - m_total) / *unit) {
      return false;
    }
    m_total += *whole * *unit + thousandths * (*unit / 1000);
    return m_total <= k_max_duration.count();
  }

  [[nodiscard]] bool at_end() const { return m_rest.empty(); }
  [[nodiscard]] std::int64_t total() const { return m_total; }

 private:
  [[nodiscard]] bool fraction(std::int64_t& thousandths) {
    if (m_rest.empty() || m_rest.front() != '.') {
      return true;
    }
    const std::size_t digits = count_digits(m_rest, 1);
    if (digits == 0 || digits > k_max_fraction_digits) {
      return false;
    }
    thousandths = *parse_number(m_rest.substr(1, digits), 999);
    for (std::size_t i = digits; i < k_max_fraction_digits; ++i) {
      thousandths *= 10;
    }
    m_rest.remove_prefix(1 + digits);
    m_had_fraction = true;
    return true;
  }

  /// A number without a unit is seconds if it is all there is.
  [[nodiscard]] std::optional<std::int64_t> unit_length() {
    if (m_rest.empty()) {
      return m_next_unit == 0 ? std::optional<std::int64_t>(1000) : std::nullopt;
    }
    for (std::size_t i = m_next_unit; i < k_units.size(); ++i) {
      if (k_units.at(i).letter == m_rest.front()) {
        m_rest.remove_prefix(1);
        m_next_unit = m_had_fraction ? k_units.size() : i + 1;
        return k_units.at(i).milliseconds;
      }
    }
    return std::nullopt;
  }

  std::string_view m_rest;
  std::size_t m_next_unit = 0;
  bool m_had_fraction = false;
  std::int64_t m_total = 0;
};

} // namespace

std::chrono::milliseconds parse_duration(std::string_view text, std::string_view option) {
  Reader reader(text);
  bool good = !text.empty();
  while (good && !reader.at_end()) {
    good = reader.component();
  }
  if (!good) {
    throw UsageError(std::string(option) + ": " + quote(text) + " is not a duration",
                     "write 90 (seconds), 30s, 5m, 2h, 1d, 1h30m or 0.3s; at most 36500d");
  }
  return std::chrono::milliseconds(reader.total());
}

std::string print_duration(std::chrono::milliseconds duration) {
  std::string text;
  std::int64_t rest = duration.count();
  if (rest < 0) {
    text = "-";
    rest = -rest;
  }
  const std::size_t sign = text.size();
  for (const Unit& unit : k_units) {
    const std::int64_t whole = rest / unit.milliseconds;
    rest %= unit.milliseconds;
    const bool has_fraction = unit.letter == 's' && rest != 0;
    if (whole == 0 && !has_fraction) {
      continue;
    }
    text += std::to_string(whole);
    if (has_fraction) {
      text += '.';
      append_padded(text, rest, k_max_fraction_digits);
      while (text.back() == '0') {
        text.pop_back();
      }
    }
    text += unit.letter;
  }
  return text.size() > sign ? text : "0s";
}

} // namespace oncerun::core
