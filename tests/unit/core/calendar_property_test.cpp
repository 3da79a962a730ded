#include "core/calendar.hpp"
#include "support/catch.hpp"
#include "zones.hpp"

#include <set>
#include <vector>

using namespace oncerun::core;
using namespace oncerun::test;

namespace {

constexpr const char* k_all_periods[] = {"1m", "15m", "30m", "hour", "90m",  "2h",
                                         "6h", "12h", "day", "week", "month"};

struct Window {
  std::chrono::sys_seconds from;
  std::chrono::sys_seconds to;
};

/// Around every change of a zone, where anything can go wrong, and some plain time: a few days, or
/// for parts of the day a few hours.
std::vector<Window> windows_of(const TableZone& zone, const Period& period) {
  const auto around = period.below_day() ? 14h : 50h;
  std::vector<Window> windows{{utc(2026, 10, 31), utc(2026, 10, 31) + around}};
  for (const auto& change : zone.changes()) {
    windows.push_back({change.at - around, change.at + around});
  }
  return windows;
}

/// The rule for parts of the day as the header words it, looked up second by second.
bool part_begins(const Zone& zone, int length_minutes, std::chrono::sys_seconds instant) {
  const auto shown = [&zone](std::chrono::sys_seconds at) {
    return (at + zone.offset_at(at)).time_since_epoch().count();
  };
  const std::int64_t length = length_minutes * 60;
  const std::int64_t now = shown(instant);
  // Parts divide the day, so that date and index together are one running number.
  return now % length == 0 || now / length != shown(instant - 1s) / length;
}

} // namespace

namespace {

/// The first property that does not hold of a slot and the next one; nullptr if all hold.
const char* fault_of(const Period& period, const Zone& zone, const Slot& slot, const Slot& next) {
  if (slot.start >= slot.end) {
    return "it is empty";
  }
  if (slot_at(period, zone, slot.start) != slot || slot_at(period, zone, slot.end - 1s) != slot ||
      slot_at(period, zone, slot.start + (slot.end - slot.start) / 2) != slot) {
    return "an instant of it lies in another slot";
  }
  if (slot_labelled(period, zone, slot.label.label()) != slot) {
    return "its label does not lead back to it";
  }
  if (next.start != slot.end) {
    return "the next does not start at its end";
  }
  if (next.label <= slot.label) {
    return "the next one's label does not sort behind its own";
  }
  if (previous_slot(period, zone, next) != slot) {
    return "it is not the one before the next";
  }
  return nullptr;
}

} // namespace

TEST_CASE("slots tile time, and their labels sort and lead back to them") {
  std::size_t looked_at = 0;
  for (const TableZone& zone : all_zones()) {
    for (const char* text : k_all_periods) {
      const Period period = Period::parse(text);
      for (const Window& window : windows_of(zone, period)) {
        Slot slot = slot_at(period, zone, window.from);
        CHECK(slot.start <= window.from);
        while (slot.start < window.to) {
          const Slot next = next_slot(period, zone, slot);
          if (const char* fault = fault_of(period, zone, slot, next)) {
            CAPTURE(zone.name(), text, slot.label.label());
            FAIL(fault);
          }
          slot = next;
          ++looked_at;
        }
      }
    }
  }
  CHECK(looked_at > 10'000);
}

TEST_CASE("parts of the day start where the rule says, and nowhere else") {
  for (const TableZone& zone : all_zones()) {
    for (const char* text : {"1m", "30m", "hour", "90m", "2h", "6h", "12h"}) {
      const Period period = Period::parse(text);
      for (const Window& window : windows_of(zone, period)) {
        std::set<std::chrono::sys_seconds> expected;
        // Nothing but an offset with seconds makes a start off the half minute.
        for (auto at = window.from; at < window.to; at += 30s) {
          if (part_begins(zone, period.minutes(), at)) {
            expected.insert(at);
          }
        }
        std::set<std::chrono::sys_seconds> found;
        Slot slot = slot_at(period, zone, window.from);
        while (slot.start < window.to) {
          if (slot.start >= window.from) {
            found.insert(slot.start);
          }
          slot = next_slot(period, zone, slot);
        }
        CAPTURE(zone.name(), text);
        REQUIRE(found == expected);
      }
    }
  }
}

TEST_CASE("a day starts at the first instant of its date") {
  for (const TableZone& zone : all_zones()) {
    for (const Window& window : windows_of(zone, Period())) {
      Slot slot = next_slot(Period(), zone, slot_at(Period(), zone, window.from));
      // Dates seen so far, as days since 1970: the next day starts when a greater one shows.
      auto greatest =
          std::chrono::floor<std::chrono::days>(window.from + zone.offset_at(window.from));
      for (auto at = window.from; at < window.to; at += 30s) {
        const auto date = std::chrono::floor<std::chrono::days>(at + zone.offset_at(at));
        if (date > greatest) {
          CAPTURE(zone.name(), slot.label.label());
          REQUIRE(slot.start == at);
          greatest = date;
          slot = next_slot(Period(), zone, slot);
        }
      }
    }
  }
}

TEST_CASE("a step of many is many steps") {
  for (const TableZone& zone : {new_york(), apia(), st_johns()}) {
    for (const char* text : {"hour", "6h", "day", "week", "month"}) {
      const Period period = Period::parse(text);
      const Slot start = slot_at(period, zone, utc(2012, 1, 10, 3));
      Slot slot = start;
      for (int i = 1; i <= 40; ++i) {
        slot = previous_slot(period, zone, slot);
        CAPTURE(zone.name(), text, i);
        REQUIRE(step(period, zone, start, -i) == slot);
        REQUIRE(step(period, zone, slot, i) == start);
      }
    }
  }
}
