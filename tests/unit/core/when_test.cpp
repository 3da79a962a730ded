#include "core/when.hpp"
#include "refusal.hpp"
#include "zones.hpp"

#include <set>
#include <string>

using namespace oncerun::core;
using namespace oncerun::test;

namespace {

struct Found {
  std::string label;
  bool was_label;
};

Found resolve(const std::string& text, const char* period, const Zone& zone,
              std::chrono::sys_seconds at) {
  bool was_label = false;
  const Slot slot = resolve_when(text, Period::parse(period), zone, at, at, was_label);
  return {slot.label.label(), was_label};
}

std::string label_of(const std::string& text, const char* period, const Zone& zone,
                     std::chrono::sys_seconds at) {
  return resolve(text, period, zone, at).label;
}

Refusal refused(const std::string& text, const char* period,
                std::chrono::sys_seconds at = utc(2026, 10, 26, 12)) {
  return refusal_of([&] { (void)resolve(text, period, utc_zone(), at); });
}

} // namespace

TEST_CASE("yesterday is the day before, whatever the clock did that night") {
  CHECK(label_of("yesterday", "day", new_york(), utc(2024, 3, 11, 4, 30)) == "2024-03-10");
  CHECK(label_of("yesterday", "day", new_york(), utc(2024, 11, 4, 4, 30)) == "2024-11-02");
  CHECK(label_of("yesterday", "day", london(), utc(2024, 3, 31, 23, 30)) == "2024-03-31");
  CHECK(label_of("previous", "day", apia(), utc(2011, 12, 30, 11)) == "2011-12-29");
}

TEST_CASE("25 days back are 25 different days") {
  // 2023-11-28 23:16 in Los Angeles; summer time ended on 2023-11-05.
  const auto now = utc(2023, 11, 29, 7, 16);
  std::set<std::string> labels;
  for (int back = 1; back <= 25; ++back) {
    labels.insert(label_of("today-" + std::to_string(back), "day", los_angeles(), now));
  }
  CHECK(labels.size() == 25);
  CHECK(*labels.begin() == "2023-11-03");
  CHECK(*labels.rbegin() == "2023-11-27");
}

TEST_CASE("the month before the 31st is the month before") {
  CHECK(label_of("previous", "month", utc_zone(), utc(2012, 10, 31)) == "2012-09");
  CHECK(label_of("previous", "month", utc_zone(), utc(2024, 3, 31)) == "2024-02");
  CHECK(label_of("previous", "month", utc_zone(), utc(2023, 3, 29)) == "2023-02");
  CHECK(label_of("previous", "month", utc_zone(), utc(2024, 1, 1)) == "2023-12");
}

TEST_CASE("words, with and without steps back") {
  const auto now = utc(2026, 10, 26, 18, 7);
  CHECK(label_of("this", "day", utc_zone(), now) == "2026-10-26");
  CHECK(label_of("today", "day", utc_zone(), now) == "2026-10-26");
  CHECK(label_of("previous", "day", utc_zone(), now) == "2026-10-25");
  CHECK(label_of("yesterday", "day", utc_zone(), now) == "2026-10-25");
  CHECK(label_of("this-0", "day", utc_zone(), now) == "2026-10-26");
  CHECK(label_of("this-2", "day", utc_zone(), now) == "2026-10-24");
  CHECK(label_of("yesterday-2", "day", utc_zone(), now) == "2026-10-23");
  CHECK(label_of("previous-3", "hour", utc_zone(), now) == "2026-10-26T14:00Z");
  CHECK(label_of("previous", "15m", utc_zone(), now) == "2026-10-26T17:45Z");
  CHECK(label_of("this-43", "week", utc_zone(), now) == "2026-W01");
  CHECK_FALSE(resolve("this", "day", utc_zone(), now).was_label);
  CHECK_FALSE(resolve("previous-1", "day", utc_zone(), now).was_label);
  CHECK(resolve("2026-10-26", "day", utc_zone(), now).was_label);
}

TEST_CASE("a hundred thousand steps back are allowed, and no more") {
  // 100,000 minutes are 69 days, 10 hours and 40 minutes.
  CHECK(label_of("this-100000", "1m", utc_zone(), utc(2026, 10, 26, 12)) == "2026-08-18T01:20Z");
  CHECK(refused("this-100001", "1m").hints("100000"));
  CHECK(refused("this-100000", "day").says("1970 to 9999"));
}

TEST_CASE("what follows the hyphen must be a number") {
  for (const char* text : {"this-", "this--1", "this-1x", "this-+1", "this- 1", "previous-1d",
                           "yesterday-99999999999999999999"}) {
    CAPTURE(text);
    CHECK(refused(text, "day").says("how many periods"));
  }
  for (const char* text : {"This", "thisx", "this+1", "tomorrow", " today", "now", ""}) {
    CAPTURE(text);
    CHECK(refused(text, "day").says("is no label"));
  }
}

TEST_CASE("today and yesterday are for days") {
  CHECK(refused("today", "hour").hints("write this"));
  CHECK(refused("yesterday", "hour").hints("write previous"));
  CHECK(refused("yesterday-1", "month").says("the period is month"));
}

TEST_CASE("a period that has not begun is refused") {
  const auto now = utc(2026, 10, 26, 12);
  CHECK(label_of("2026-10-26", "day", utc_zone(), now) == "2026-10-26");
  const auto refusal = refused("2026-10-27", "day");
  CHECK(refusal.says("2026-10-27 has not begun"));
  CHECK(refusal.hints("2026-10-26"));
  CHECK(refused("2026-10-26T13:00Z", "hour").says("has not begun"));
  CHECK(refused("2999-01-01", "day").says("has not begun"));
  // 2026-10-26 12:00 UTC is already the 27th in Samoa.
  CHECK(label_of("2026-10-27", "day", apia(), now) == "2026-10-27");
}

TEST_CASE("a scheduled instant ahead of now counts as begun") {
  bool was_label = false;
  const auto now = utc(2026, 10, 26, 23, 59, 58);
  const auto scheduled = utc(2026, 10, 27);
  CHECK(resolve_when("this", Period(), utc_zone(), scheduled, now, was_label).label.label() ==
        "2026-10-27");
  CHECK(resolve_when("2026-10-27", Period(), utc_zone(), scheduled, now, was_label).label.label() ==
        "2026-10-27");
  // And one behind now does not hide what has begun since.
  CHECK(resolve_when("2026-10-27", Period(), utc_zone(), now, scheduled, was_label).label.label() ==
        "2026-10-27");
}

TEST_CASE("a key is taken as it stands") {
  for (const char* text : {"order-4711", "this", "yesterday-1", "2023-02-29", " ",
                           "s\xC3\xBC"
                           "d",
                           "/srv/in/a b.csv"}) {
    CAPTURE(text);
    bool was_label = false;
    const Slot slot = resolve_when(text, Period::parse("key"), utc_zone(), utc(2026, 10, 26),
                                   utc(2026, 10, 26), was_label);
    CHECK(slot.label.label() == text);
    CHECK(was_label);
    CHECK(slot.start == std::chrono::sys_seconds{});
    CHECK(slot.end == std::chrono::sys_seconds{});
  }
  CHECK(label_of(std::string(512, 'k'), "key", utc_zone(), utc(2026, 1, 1)).size() == 512);
  CHECK(refused("", "key").says("empty"));
  CHECK(refused(std::string(513, 'k'), "key").says("513 bytes"));
  CHECK(refused("a\nb", "key").says("control character"));
  CHECK(refused("\xFF", "key").says("UTF-8"));
}
