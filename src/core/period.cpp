#include "core/period.hpp"

#include "core/error.hpp"
#include "core/text.hpp"

namespace oncerun::core {

namespace {

constexpr int k_minutes_of_hour = 60;
constexpr int k_minutes_of_day = 1440;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UsageError("--every: " + quote(text) + " " + why,
                   "a period is day, hour, week, month, key, or minutes or hours that divide the "
                   "day: 5m, 15m, 6h");
}

} // namespace

Period Period::of_minutes(int minutes) noexcept {
  return minutes == k_minutes_of_day ? Period() : Period(Kind::minutes, minutes);
}

Period Period::parse(std::string_view text) {
  if (text == "day") {
    return Period();
  }
  if (text == "hour") {
    return of_minutes(k_minutes_of_hour);
  }
  if (text == "week") {
    return Period(Kind::week);
  }
  if (text == "month") {
    return Period(Kind::month);
  }
  if (text == "key") {
    return Period(Kind::key);
  }
  const char unit = text.empty() ? '\0' : text.back();
  if (unit != 'm' && unit != 'h') {
    refuse(text, "is not a period");
  }
  const std::string_view digits = text.substr(0, text.size() - 1);
  const auto count = parse_number(digits, k_minutes_of_day);
  if (!count || digits.front() == '0') {
    refuse(text, "is not a period");
  }
  const int minutes = static_cast<int>(*count) * (unit == 'h' ? k_minutes_of_hour : 1);
  if (minutes > k_minutes_of_day || k_minutes_of_day % minutes != 0) {
    refuse(text, "does not divide the day");
  }
  return of_minutes(minutes);
}

std::string Period::text() const {
  switch (m_kind) {
  case Kind::day:
    return "day";
  case Kind::week:
    return "week";
  case Kind::month:
    return "month";
  case Kind::key:
    return "key";
  case Kind::minutes:
    break;
  }
  if (m_minutes == k_minutes_of_hour) {
    return "hour";
  }
  if (m_minutes % k_minutes_of_hour == 0) {
    return std::to_string(m_minutes / k_minutes_of_hour) + "h";
  }
  return std::to_string(m_minutes) + "m";
}

} // namespace oncerun::core
