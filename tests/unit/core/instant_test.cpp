#include "core/instant.hpp"
#include "support/catch.hpp"
#include "zones.hpp"

#include <string>

using namespace oncerun::core;
using namespace oncerun::test;

using Milliseconds = std::chrono::sys_time<std::chrono::milliseconds>;

TEST_CASE("instants are printed as RFC 3339") {
  CHECK(print_rfc3339(utc(2026, 10, 26, 18, 0, 5)) == "2026-10-26T18:00:05Z");
  CHECK(print_rfc3339(utc(1970, 1, 1)) == "1970-01-01T00:00:00Z");
  CHECK(print_rfc3339(utc(1969, 12, 31, 23, 59, 59)) == "1969-12-31T23:59:59Z");
  CHECK(print_rfc3339(Milliseconds(utc(2026, 10, 26, 18) + 123ms)) == "2026-10-26T18:00:00.123Z");
  CHECK(print_rfc3339(Milliseconds(utc(2026, 10, 26, 18))) == "2026-10-26T18:00:00.000Z");
  CHECK(print_rfc3339(Milliseconds(utc(2026, 10, 26, 18) + 7ms)) == "2026-10-26T18:00:00.007Z");
}

TEST_CASE("local time is printed with its offset") {
  CHECK(print_local_rfc3339(london(), utc(2024, 7, 1, 12)) == "2024-07-01T13:00:00+01:00");
  CHECK(print_local_rfc3339(new_york(), utc(2024, 7, 1, 12)) == "2024-07-01T08:00:00-04:00");
  CHECK(print_local_rfc3339(lord_howe(), utc(2024, 7, 1, 12)) == "2024-07-01T22:30:00+10:30");
  CHECK(print_local_rfc3339(st_johns(), utc(2010, 12, 1, 12)) == "2010-12-01T08:30:00-03:30");
  CHECK(print_local_rfc3339(utc_zone(), utc(2024, 7, 1, 12)) == "2024-07-01T12:00:00+00:00");
  // 44 minutes and 30 seconds behind: the text still means the same instant.
  CHECK(print_local_rfc3339(monrovia(), utc(1971, 1, 1, 12)) == "1971-01-01T11:16:00-00:44");
}

TEST_CASE("instants are read") {
  const auto at = utc(2026, 10, 26, 18, 0, 5);
  for (const char* text :
       {"2026-10-26T18:00:05Z", "2026-10-26t18:00:05z", "2026-10-26 18:00:05Z",
        "2026-10-26T18:00:05+00:00", "2026-10-26T18:00:05-00:00", "2026-10-26T20:00:05+02:00",
        "2026-10-26T14:00:05-04:00", "2026-10-27T04:30:05+10:30", "2026-10-26T18:00:05.0Z"}) {
    CAPTURE(text);
    CHECK(parse_rfc3339(text) == Milliseconds(at));
  }
  CHECK(parse_rfc3339("2026-10-26T18:00:05.5Z") == Milliseconds(at + 500ms));
  CHECK(parse_rfc3339("2026-10-26T18:00:05.123456789Z") == Milliseconds(at + 123ms));
  CHECK(parse_rfc3339("2026-10-26T18:00:05.999999+00:00") == Milliseconds(at + 999ms));
  CHECK(parse_rfc3339("2016-12-31T23:59:60Z") == Milliseconds(utc(2017, 1, 1)));
  CHECK(parse_rfc3339("2024-02-29T00:00:00Z") == Milliseconds(utc(2024, 2, 29)));
}

TEST_CASE("what is no date-time of RFC 3339 is not read") {
  for (const char* text : {"",
                           "2026-10-26",
                           "2026-10-26T18:00Z",
                           "2026-10-26T18:00:05",
                           "2026-10-26T18:00:05+0200",
                           "2026-10-26T18:00:05+02",
                           "2026-10-26T18:00:05.Z",
                           "2026-10-26T18:00:05,5Z",
                           "2026-10-26T24:00:00Z",
                           "2026-10-26T18:60:00Z",
                           "2026-10-26T18:00:61Z",
                           "2026-10-26T18:00:05+24:00",
                           "2026-10-26T18:00:05+02:60",
                           "2026-02-29T00:00:00Z",
                           "2026-13-01T00:00:00Z",
                           "2026-00-01T00:00:00Z",
                           "2026-1-01T00:00:00Z",
                           "2026-10-26T18:00:05Zx",
                           " 2026-10-26T18:00:05Z",
                           "2026-10-26T18:00:05ZZ",
                           "2026-10-26_18:00:05Z",
                           "1969-12-31T23:59:59Z",
                           "+026-10-26T18:00:05Z"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_rfc3339(text));
  }
}

TEST_CASE("a printed instant is read back") {
  for (std::int64_t value = 1; value < 253'402'300'799'000; value = value * 5 / 2 + 1) {
    const Milliseconds instant{std::chrono::milliseconds(value)};
    CAPTURE(value);
    CHECK(parse_rfc3339(print_rfc3339(instant)) == instant);
  }
  for (const TableZone& zone : all_zones()) {
    for (const auto& change : zone.changes()) {
      for (const auto& at : {change.at - 1s, change.at}) {
        CAPTURE(zone.name());
        CHECK(parse_rfc3339(print_local_rfc3339(zone, at)) == Milliseconds(at));
      }
    }
  }
}
