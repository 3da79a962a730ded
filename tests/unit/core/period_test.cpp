#include "core/period.hpp"
#include "refusal.hpp"

using oncerun::core::Period;
using oncerun::test::refusal_of;

namespace {

struct Row {
  const char* text;
  const char* canonical;
  int minutes;
};

} // namespace

TEST_CASE("periods are read, and two spellings of one are equal") {
  for (const Row& row :
       {Row{"day", "day", 0}, Row{"24h", "day", 0}, Row{"1440m", "day", 0}, Row{"week", "week", 0},
        Row{"month", "month", 0}, Row{"key", "key", 0}, Row{"hour", "hour", 60},
        Row{"1h", "hour", 60}, Row{"60m", "hour", 60}, Row{"5m", "5m", 5}, Row{"15m", "15m", 15},
        Row{"6h", "6h", 360}, Row{"360m", "6h", 360}, Row{"90m", "90m", 90}, Row{"1m", "1m", 1},
        Row{"12h", "12h", 720}, Row{"120m", "2h", 120}}) {
    CAPTURE(row.text);
    const Period period = Period::parse(row.text);
    CHECK(period.text() == row.canonical);
    CHECK(period.minutes() == row.minutes);
    CHECK(period.below_day() == (row.minutes > 0));
    CHECK(period == Period::parse(row.canonical));
  }
}

TEST_CASE("every kind knows what it is") {
  CHECK(Period() == Period::parse("day"));
  CHECK(Period().is_day());
  CHECK(Period::parse("week").is_week());
  CHECK(Period::parse("month").is_month());
  CHECK(Period::parse("key").is_key());
  CHECK_FALSE(Period::parse("hour").is_day());
  CHECK(Period::parse("6h") != Period::parse("5m"));
  CHECK(Period::parse("week") != Period::parse("month"));
}

TEST_CASE("every divisor of the day is a period, and no other number") {
  int count = 0;
  for (int minutes = 1; minutes <= 1500; ++minutes) {
    const std::string text = std::to_string(minutes) + "m";
    CAPTURE(text);
    if (minutes <= 1440 && 1440 % minutes == 0) {
      ++count;
      CHECK_NOTHROW(Period::parse(text));
    } else {
      (void)refusal_of([&text] { (void)Period::parse(text); });
    }
  }
  CHECK(count == 36); // 1440 = 2^5 * 3^2 * 5
}

TEST_CASE("what is no period is refused") {
  for (const char* text : {"", "m", "h", "0m", "0h", "-5m", "05m", "5", "5 m", "5s", "1d", "Day",
                           "days", "daily", "year", "5m ", "1.5h", "99999999999999999999m"}) {
    CAPTURE(text);
    const auto refusal = refusal_of([text] { (void)Period::parse(text); });
    CHECK(refusal.says("--every: "));
    CHECK(refusal.hints("day, hour, week, month, key"));
  }
  CHECK(refusal_of([] { (void)Period::parse("7m"); }).says("does not divide the day"));
  CHECK(refusal_of([] { (void)Period::parse("48h"); }).says("does not divide the day"));
}
