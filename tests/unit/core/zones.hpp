#pragma once

#include "core/zone.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace oncerun::test {

using namespace std::chrono_literals;

/// Seconds since 1970 of a UTC date and time.
constexpr std::chrono::sys_seconds utc(int year, unsigned month, unsigned day, int hour = 0,
                                       int minute = 0, int second = 0) {
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

/// A zone from a table: the offset before the first change, and each change with the new offset.
/// The tables below were written by hand from what the governments announced;
/// component/os/zone_test compares them with the system's tz database.
class TableZone final : public core::Zone {
 public:
  struct Change {
    std::chrono::sys_seconds at;
    std::chrono::seconds offset;
  };

  TableZone(std::string name, std::chrono::seconds first, std::vector<Change> changes)
      : m_name(std::move(name)), m_first(first), m_changes(std::move(changes)) {}

  [[nodiscard]] std::chrono::seconds offset_at(std::chrono::sys_seconds instant) const override {
    std::chrono::seconds offset = m_first;
    for (const Change& change : m_changes) {
      if (instant >= change.at) {
        offset = change.offset;
      }
    }
    return offset;
  }
  [[nodiscard]] const std::string& name() const override { return m_name; }
  [[nodiscard]] const std::vector<Change>& changes() const { return m_changes; }

 private:
  std::string m_name;
  std::chrono::seconds m_first;
  std::vector<Change> m_changes;
};

inline TableZone utc_zone() {
  return {"UTC", 0s, {}};
}

/// Summer time from 02:00 to 03:00 on 2024-03-10, back from 02:00 to 01:00 on 2024-11-03.
inline TableZone new_york() {
  return {"America/New_York",
          -5h,
          {{utc(2024, 3, 10, 7), -4h}, {utc(2024, 11, 3, 6), -5h}, {utc(2025, 3, 9, 7), -4h}}};
}

/// Both changes at 01:00 UTC.
inline TableZone london() {
  return {"Europe/London", 0h, {{utc(2024, 3, 31, 1), 1h}, {utc(2024, 10, 27, 1), 0h}}};
}

/// Half an hour of summer time: back from 02:00 to 01:30 on 2024-04-07, on from 02:00 to 02:30 on
/// 2024-10-06.
inline TableZone lord_howe() {
  return {"Australia/Lord_Howe",
          11h,
          {{utc(2024, 4, 6, 15), 10h + 30min}, {utc(2024, 10, 5, 15, 30), 11h}}};
}

/// Samoa went over the date line: 2011-12-29 24:00 was 2011-12-31 00:00.
inline TableZone apia() {
  return {"Pacific/Apia", -10h, {{utc(2011, 12, 30, 10), 14h}, {utc(2012, 3, 31, 14), 13h}}};
}

inline TableZone los_angeles() {
  return {"America/Los_Angeles", -7h, {{utc(2023, 11, 5, 9), -8h}, {utc(2024, 3, 10, 10), -7h}}};
}

/// Changes at midnight: 2024-03-10 has no hour of 00:00, 2024-11-03 has two.
inline TableZone havana() {
  return {"America/Havana", -5h, {{utc(2024, 3, 10, 5), -4h}, {utc(2024, 11, 3, 5), -5h}}};
}

/// Newfoundland put its clocks back at 00:01 until 2011: the date itself went back for an hour.
inline TableZone st_johns() {
  return {"America/St_Johns", -150min, {{utc(2010, 11, 7, 2, 31), -210min}}};
}

/// Liberia kept 44 minutes and 30 seconds behind until 1972-01-07.
inline TableZone monrovia() {
  return {"Africa/Monrovia", -2670s, {{utc(1972, 1, 7, 0, 44, 30), 0s}}};
}

inline std::vector<TableZone> all_zones() {
  return {utc_zone(), new_york(),    london(),   lord_howe(), apia(),
          havana(),   los_angeles(), st_johns(), monrovia()};
}

} // namespace oncerun::test
