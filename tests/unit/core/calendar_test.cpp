#include "core/calendar.hpp"
#include "refusal.hpp"
#include "zones.hpp"

#include <string>

using namespace oncerun::core;
using namespace oncerun::test;

namespace {

std::string label_at(const char* period, const Zone& zone, std::chrono::sys_seconds instant) {
  return slot_at(Period::parse(period), zone, instant).label.label();
}

void check_slot(const char* period, const Zone& zone, const char* label,
                std::chrono::sys_seconds start, std::chrono::sys_seconds end) {
  CAPTURE(zone.name(), period, label);
  const Slot slot = slot_labelled(Period::parse(period), zone, label);
  CHECK(slot.label.label() == label);
  CHECK(slot.start == start);
  CHECK(slot.end == end);
}

Refusal refused(const char* period, const Zone& zone, const std::string& label) {
  return refusal_of([&] { (void)slot_labelled(Period::parse(period), zone, label); });
}

} // namespace

TEST_CASE("labels in UTC") {
  const auto at = utc(2026, 10, 26, 18, 7, 9);
  CHECK(label_at("day", utc_zone(), at) == "2026-10-26");
  CHECK(label_at("week", utc_zone(), at) == "2026-W44");
  CHECK(label_at("month", utc_zone(), at) == "2026-10");
  CHECK(label_at("hour", utc_zone(), at) == "2026-10-26T18:00Z");
  CHECK(label_at("5m", utc_zone(), at) == "2026-10-26T18:05Z");
  CHECK(label_at("6h", utc_zone(), at) == "2026-10-26T18:00Z");
  CHECK(label_at("90m", utc_zone(), at) == "2026-10-26T18:00Z");
  CHECK(label_at("1m", utc_zone(), at) == "2026-10-26T18:07Z");
}

TEST_CASE("a slot has its start and not its end") {
  const auto midnight = utc(2026, 10, 26);
  CHECK(label_at("day", utc_zone(), midnight) == "2026-10-26");
  CHECK(label_at("day", utc_zone(), midnight - 1s) == "2026-10-25");
  CHECK(label_at("hour", utc_zone(), midnight - 1s) == "2026-10-25T23:00Z");
  CHECK(label_at("week", utc_zone(), midnight - 1s) == "2026-W43");
  CHECK(label_at("month", utc_zone(), utc(2026, 11, 1) - 1s) == "2026-10");
}

TEST_CASE("months end where they end, leap years included") {
  check_slot("month", utc_zone(), "2024-02", utc(2024, 2, 1), utc(2024, 3, 1));
  check_slot("month", utc_zone(), "2023-02", utc(2023, 2, 1), utc(2023, 3, 1));
  check_slot("month", utc_zone(), "2023-12", utc(2023, 12, 1), utc(2024, 1, 1));
  check_slot("day", utc_zone(), "2024-02-29", utc(2024, 2, 29), utc(2024, 3, 1));
  check_slot("day", utc_zone(), "2000-02-29", utc(2000, 2, 29), utc(2000, 3, 1));
}

TEST_CASE("weeks are those of ISO 8601") {
  check_slot("week", utc_zone(), "2026-W44", utc(2026, 10, 26), utc(2026, 11, 2));
  check_slot("week", utc_zone(), "2020-W53", utc(2020, 12, 28), utc(2021, 1, 4));
  check_slot("week", utc_zone(), "2026-W53", utc(2026, 12, 28), utc(2027, 1, 4));
  check_slot("week", utc_zone(), "2026-W01", utc(2025, 12, 29), utc(2026, 1, 5));
  check_slot("week", utc_zone(), "1970-W01", utc(1969, 12, 29), utc(1970, 1, 5));
  CHECK(label_at("week", utc_zone(), utc(2021, 1, 3)) == "2020-W53");
  CHECK(label_at("week", utc_zone(), utc(2024, 12, 30)) == "2025-W01");
  CHECK(label_at("week", utc_zone(), utc(2023, 1, 1)) == "2022-W52");
  CHECK(refused("week", utc_zone(), "2025-W53").says("does not exist"));
  CHECK(refused("week", utc_zone(), "2026-W00").says("does not exist"));
  CHECK(refused("week", utc_zone(), "2026-W54").says("does not exist"));
}

TEST_CASE("a day of a clock change is 23 or 25 hours long") {
  check_slot("day", new_york(), "2024-03-10", utc(2024, 3, 10, 5), utc(2024, 3, 11, 4));
  check_slot("day", new_york(), "2024-11-03", utc(2024, 11, 3, 4), utc(2024, 11, 4, 5));
  check_slot("day", london(), "2024-03-31", utc(2024, 3, 31, 0), utc(2024, 3, 31, 23));
  check_slot("day", london(), "2024-10-27", utc(2024, 10, 26, 23), utc(2024, 10, 28, 0));
  check_slot("day", lord_howe(), "2024-04-07", utc(2024, 4, 6, 13), utc(2024, 4, 7, 13, 30));
  check_slot("month", new_york(), "2024-03", utc(2024, 3, 1, 5), utc(2024, 4, 1, 4));
  check_slot("week", new_york(), "2024-W44", utc(2024, 10, 28, 4), utc(2024, 11, 4, 5));
}

TEST_CASE("the two starts around a change belong to one day") {
  CHECK(label_at("day", new_york(), utc(2024, 11, 3, 5, 30)) == "2024-11-03");
  CHECK(label_at("day", new_york(), utc(2024, 11, 3, 6, 30)) == "2024-11-03");
  CHECK(label_at("day", lord_howe(), utc(2024, 4, 6, 14, 45)) == "2024-04-07");
  CHECK(label_at("day", lord_howe(), utc(2024, 4, 6, 15, 15)) == "2024-04-07");
}

TEST_CASE("a midnight that is skipped or comes twice begins its day once") {
  // 2024-03-10 begins at 01:00, 2024-11-03 at the first of its two midnights.
  check_slot("day", havana(), "2024-03-10", utc(2024, 3, 10, 5), utc(2024, 3, 11, 4));
  check_slot("day", havana(), "2024-11-03", utc(2024, 11, 3, 4), utc(2024, 11, 4, 5));
}

TEST_CASE("a date that goes back for an hour does not end") {
  // At 00:01 the clock went back to 23:01 of the day before.
  check_slot("day", st_johns(), "2010-11-07", utc(2010, 11, 7, 2, 30), utc(2010, 11, 8, 3, 30));
  CHECK(label_at("day", st_johns(), utc(2010, 11, 7, 2, 29)) == "2010-11-06");
  CHECK(label_at("day", st_johns(), utc(2010, 11, 7, 2, 45)) == "2010-11-07");
}

TEST_CASE("Samoa had no 2011-12-30") {
  check_slot("day", apia(), "2011-12-29", utc(2011, 12, 29, 10), utc(2011, 12, 30, 10));
  check_slot("day", apia(), "2011-12-31", utc(2011, 12, 30, 10), utc(2011, 12, 31, 10));
  const auto refusal = refused("day", apia(), "2011-12-30");
  CHECK(refusal.says("never existed in Pacific/Apia"));
  CHECK(refusal.hints("date line"));
  const Slot last = slot_labelled(Period(), apia(), "2011-12-31");
  CHECK(previous_slot(Period(), apia(), last).label.label() == "2011-12-29");
  CHECK(step(Period(), apia(), last, -2).label.label() == "2011-12-28");
  const Slot before = slot_labelled(Period(), apia(), "2011-12-29");
  CHECK(next_slot(Period(), apia(), before).label.label() == "2011-12-31");
  // Six days of that week are left.
  check_slot("week", apia(), "2011-W52", utc(2011, 12, 26, 10), utc(2012, 1, 1, 10));
}

TEST_CASE("the repeated hour is two slots of an hour") {
  check_slot("hour", new_york(), "2024-11-03T05:00Z", utc(2024, 11, 3, 5), utc(2024, 11, 3, 6));
  check_slot("hour", new_york(), "2024-11-03T06:00Z", utc(2024, 11, 3, 6), utc(2024, 11, 3, 7));
  CHECK(label_at("hour", new_york(), utc(2024, 11, 3, 5, 30)) == "2024-11-03T05:00Z");
  CHECK(label_at("hour", new_york(), utc(2024, 11, 3, 6, 30)) == "2024-11-03T06:00Z");
}

TEST_CASE("the hour before a skipped one is the one before it") {
  const Slot slot = slot_at(Period::parse("hour"), new_york(), utc(2024, 3, 10, 7, 10));
  CHECK(slot.label.label() == "2024-03-10T07:00Z");
  CHECK(previous_slot(Period::parse("hour"), new_york(), slot).label.label() ==
        "2024-03-10T06:00Z");
}

TEST_CASE("six hours that contain a change stay one slot") {
  // 00:00 to 06:00 on the local clock: seven hours, then five.
  check_slot("6h", new_york(), "2024-11-03T04:00Z", utc(2024, 11, 3, 4), utc(2024, 11, 3, 11));
  check_slot("6h", new_york(), "2024-03-10T05:00Z", utc(2024, 3, 10, 5), utc(2024, 3, 10, 10));
  check_slot("2h", new_york(), "2024-11-03T04:00Z", utc(2024, 11, 3, 4), utc(2024, 11, 3, 7));
}

TEST_CASE("half an hour put back inside an hour leaves one slot, of 90 minutes") {
  check_slot("hour", lord_howe(), "2024-04-06T14:00Z", utc(2024, 4, 6, 14),
             utc(2024, 4, 6, 15, 30));
  // 30 minutes long slots: the repeated half hour is two.
  check_slot("30m", lord_howe(), "2024-04-06T14:30Z", utc(2024, 4, 6, 14, 30), utc(2024, 4, 6, 15));
  check_slot("30m", lord_howe(), "2024-04-06T15:00Z", utc(2024, 4, 6, 15), utc(2024, 4, 6, 15, 30));
  // On from 02:00 to 02:30: half of the hour of 02:00 is left.
  check_slot("hour", lord_howe(), "2024-10-05T15:30Z", utc(2024, 10, 5, 15, 30),
             utc(2024, 10, 5, 16));
}

TEST_CASE("parts of the day begin with the local day, not with UTC's") {
  check_slot("6h", new_york(), "2024-07-01T04:00Z", utc(2024, 7, 1, 4), utc(2024, 7, 1, 10));
  check_slot("hour", lord_howe(), "2024-07-01T00:30Z", utc(2024, 7, 1, 0, 30),
             utc(2024, 7, 1, 1, 30));
}

TEST_CASE("an offset with seconds shows in the label") {
  check_slot("hour", monrovia(), "1971-06-01T00:44:30Z", utc(1971, 6, 1, 0, 44, 30),
             utc(1971, 6, 1, 1, 44, 30));
  check_slot("hour", monrovia(), "1972-02-01T00:00Z", utc(1972, 2, 1), utc(1972, 2, 1, 1));
  CHECK(refused("hour", monrovia(), "1972-02-01T00:00:00Z").says("not the start"));
}

TEST_CASE("steps add up") {
  const Slot slot = slot_labelled(Period(), new_york(), "2024-03-09");
  CHECK(step(Period(), new_york(), slot, 0) == slot);
  CHECK(step(Period(), new_york(), slot, 3).label.label() == "2024-03-12");
  CHECK(step(Period(), new_york(), slot, -9).label.label() == "2024-02-29");
  const Period month = Period::parse("month");
  const Slot october = slot_labelled(month, utc_zone(), "2024-10");
  CHECK(step(month, utc_zone(), october, -10).label.label() == "2023-12");
  const Period hour = Period::parse("hour");
  const Slot first = slot_labelled(hour, new_york(), "2024-11-03T05:00Z");
  CHECK(step(hour, new_york(), first, -24).label.label() == "2024-11-02T05:00Z");
  CHECK(step(hour, new_york(), first, 24).label.label() == "2024-11-04T05:00Z");
}

TEST_CASE("a label is taken exactly or not at all") {
  for (const char* label :
       {"", "2024-5-1", "2024-05-01x", "x2024-05-01", " 2024-05-01", "2024-05-01 ", "2024/05/01",
        "20240501", "2024-05", "2024-W18", "24-05-01", "2024-05-01T00:00Z", "+024-05-01",
        "2024-05-0a", "tomorrow", "12024-05-01",
        "2024\xE2\x80\x93"
        "05-01"}) {
    CAPTURE(label);
    const auto refusal = refused("day", utc_zone(), label);
    CHECK(refusal.says("is no label of --every day"));
    CHECK(refusal.hints("2026-10-26"));
  }
  for (const char* label : {"2023-02-29", "2024-13-01", "2024-00-10", "2024-04-31", "2024-01-00",
                            "2024-01-32", "1900-02-29"}) {
    CAPTURE(label);
    CHECK(refused("day", utc_zone(), label).says("does not exist in the calendar"));
  }
  for (const char* label : {"2024-1", "2024-10-01", "2024-1x", "", "2024"}) {
    CAPTURE(label);
    CHECK(refused("month", utc_zone(), label).hints("2026-10"));
  }
  CHECK(refused("month", utc_zone(), "2024-13").says("does not exist"));
  for (const char* label : {"2026-w44", "2026W44", "2026-44", "2026-W4", "2026-W044", ""}) {
    CAPTURE(label);
    CHECK(refused("week", utc_zone(), label).hints("2026-W44"));
  }
  for (const char* label :
       {"2026-10-26T18:00", "2026-10-26 18:00Z", "2026-10-26t18:00Z", "2026-10-26T18Z",
        "2026-10-26T18:00+00:00", "2026-10-26", "2026-10-26T18:00z", ""}) {
    CAPTURE(label);
    CHECK(refused("hour", utc_zone(), label).hints("2026-10-26T18:00Z"));
  }
  CHECK(refused("hour", utc_zone(), "2026-10-26T24:00Z").says("does not exist"));
  CHECK(refused("hour", utc_zone(), "2026-02-29T18:00Z").says("does not exist"));
}

TEST_CASE("below a day a label must be the start of a slot of this zone") {
  const auto refusal = refused("hour", new_york(), "2024-11-03T05:30Z");
  CHECK(refusal.says("is not the start of a slot of hour in America/New_York"));
  CHECK(refusal.hints("2024-11-03T05:00Z"));
  CHECK(refused("6h", new_york(), "2024-07-01T00:00Z").hints("2024-06-30T22:00Z"));
}

TEST_CASE("years are 1970 to 9999") {
  check_slot("day", utc_zone(), "1970-01-01", utc(1970, 1, 1), utc(1970, 1, 2));
  check_slot("day", utc_zone(), "9999-12-31", utc(9999, 12, 31), utc(10000, 1, 1));
  check_slot("day", london(), "1970-01-01", utc(1970, 1, 1), utc(1970, 1, 2));
  for (const char* label : {"1969-12-31", "0000-01-01"}) {
    CHECK(refused("day", utc_zone(), label).says("1970 to 9999"));
  }
  const Slot first = slot_labelled(Period(), utc_zone(), "1970-01-01");
  CHECK(refusal_of([&] { (void)previous_slot(Period(), utc_zone(), first); }).says("1970"));
  const Slot last = slot_labelled(Period(), utc_zone(), "9999-12-31");
  CHECK(refusal_of([&] { (void)next_slot(Period(), utc_zone(), last); }).says("9999"));
  CHECK(refusal_of([] {
          (void)slot_at(Period::parse("hour"), utc_zone(), utc(1969, 12, 31, 23));
        }).says("1970"));
}
