#include "core/calendar.hpp"
#include "core/error.hpp"
#include "os/zone.hpp"
#include "support/catch.hpp"
#include "unit/core/zones.hpp"

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

using namespace oncerun;
using namespace oncerun::test;
using oncerun::os::load_zone;
using oncerun::os::system_zone_name;

namespace {

namespace fs = std::filesystem;

/// Gives the process its own TZ and TZDIR back at the end.
class KeptEnvironment {
 public:
  KeptEnvironment() : m_tz(value_of("TZ")), m_tzdir(value_of("TZDIR")) {}
  KeptEnvironment(const KeptEnvironment&) = delete;
  KeptEnvironment& operator=(const KeptEnvironment&) = delete;
  ~KeptEnvironment() {
    restore("TZ", m_tz);
    restore("TZDIR", m_tzdir);
    ::tzset();
  }

 private:
  static std::optional<std::string> value_of(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  }
  static void restore(const char* name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name, value->c_str(), 1);
    } else {
      ::unsetenv(name);
    }
  }

  std::optional<std::string> m_tz;
  std::optional<std::string> m_tzdir;
};

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "oncerun-zone-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    m_path = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(m_path, ignored);
  }
  [[nodiscard]] std::string at(const std::string& name) const { return (m_path / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::ofstream(at(name)) << text;
  }

 private:
  fs::path m_path;
};

bool has_tz_database() {
  if (fs::exists("/usr/share/zoneinfo/America/New_York")) {
    return true;
  }
  WARN("skipped: the package tzdata is not installed");
  return false;
}

std::vector<std::string> names_of_all_zones() {
  std::vector<std::string> names;
  for (const char* region : {"Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia",
                             "Europe", "Indian", "Pacific"}) {
    for (const auto& entry : fs::directory_iterator(std::string("/usr/share/zoneinfo/") + region)) {
      // Symbolic links are other names of the same zones.
      if (entry.is_regular_file() && !entry.is_symlink()) {
        names.push_back(region + ("/" + entry.path().filename().string()));
      }
    }
  }
  return names;
}

/// That days from one instant to the other tile time and their labels sort.
void check_days(const core::Zone& zone, std::chrono::sys_seconds from,
                std::chrono::sys_seconds to) {
  const core::Period day;
  core::Slot slot = core::slot_at(day, zone, from);
  while (slot.start < to) {
    const core::Slot next = core::next_slot(day, zone, slot);
    if (next.start != slot.end || next.label <= slot.label || slot.end <= slot.start) {
      CAPTURE(zone.name(), slot.label.label());
      FAIL("the days do not tile time");
    }
    slot = next;
  }
}

/// The message of an Error with outcome config.
std::string config_error(const char* tz, const std::string& localtime,
                         const std::string& timezone) {
  try {
    (void)system_zone_name(tz, localtime, timezone);
  } catch (const core::Error& error) {
    CHECK(error.outcome() == core::Outcome::config);
    CHECK(error.hint().find("--tz") != std::string::npos);
    return error.what();
  }
  FAIL("nothing was refused");
  return {};
}

} // namespace

TEST_CASE("the tables of the calendar's tests are what the tz database says") {
  if (!has_tz_database()) {
    return;
  }
  const KeptEnvironment kept;
  for (const TableZone& table : all_zones()) {
    const auto zone = load_zone(table.name());
    CHECK(zone->name() == table.name());
    for (const auto& change : table.changes()) {
      for (const auto distance : {-25h * 1, -1h * 1, 0h * 1, 1h * 1, 25h * 1}) {
        CAPTURE(table.name(), distance.count());
        CHECK(zone->offset_at(change.at + distance) == table.offset_at(change.at + distance));
      }
      CHECK(zone->offset_at(change.at - 1s) == table.offset_at(change.at - 1s));
    }
  }
}

TEST_CASE("the calendar works with a real zone") {
  if (!has_tz_database()) {
    return;
  }
  const KeptEnvironment kept;
  const auto zone = load_zone("America/New_York");
  const core::Slot day = core::slot_at(core::Period(), *zone, utc(2024, 11, 3, 6, 30));
  CHECK(day.label.label() == "2024-11-03");
  CHECK(day.start == utc(2024, 11, 3, 4));
  CHECK(day.end == utc(2024, 11, 4, 5));
}

TEST_CASE("days tile time around every change in every zone of the tz database") {
  if (!has_tz_database()) {
    return;
  }
  const KeptEnvironment kept;
  std::size_t changes = 0;
  for (const std::string& name : names_of_all_zones()) {
    const auto zone = load_zone(name);
    // Changes lie at least a week apart: looks six days apart find each.
    for (auto at = utc(2008, 1, 1); at < utc(2028, 1, 1); at += 24h * 6) {
      if (zone->offset_at(at) != zone->offset_at(at + 24h * 6)) {
        check_days(*zone, at - 24h, at + 24h * 7);
        ++changes;
      }
    }
  }
  CHECK(changes > 500);
}

TEST_CASE("a zone that does not exist is refused, never taken for UTC") {
  const KeptEnvironment kept;
  for (const char* name : {"", "Mars/Olympus", "europe/berlin", "Europe", "Europe/",
                           "/usr/share/zoneinfo/Europe/Berlin", "../zoneinfo/Europe/Berlin",
                           "Europe/../Europe/Berlin", ":Europe/Berlin", "localtime", "zone.tab",
                           "tzdata.zi", "CET-1CEST", "UTC0", "Europe/Berlin\n", " UTC"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(load_zone(name), core::UsageError);
  }
  CHECK_THROWS_AS(load_zone(std::string("UTC\0x", 5)), core::UsageError);
  CHECK_THROWS_AS(load_zone(std::string(300, 'a')), core::UsageError);
}

TEST_CASE("UTC needs no tz database, and has one name") {
  const KeptEnvironment kept;
  const Folder empty;
  ::setenv("TZDIR", empty.at("").c_str(), 1);
  for (const char* name : {"UTC", "Etc/UTC", "Zulu", "Etc/Universal"}) {
    CAPTURE(name);
    const auto zone = load_zone(name);
    CHECK(zone->name() == "UTC");
    CHECK(zone->offset_at(utc(2026, 7, 1)) == 0s);
  }
  CHECK_THROWS_AS(load_zone("Europe/Berlin"), core::UsageError);
}

TEST_CASE("TZDIR is where zones are looked for, by us and by glibc") {
  if (!has_tz_database()) {
    return;
  }
  const KeptEnvironment kept;
  const Folder folder;
  fs::create_directories(folder.at("My"));
  fs::copy_file("/usr/share/zoneinfo/America/New_York", folder.at("My/Zone"));
  folder.write("My/Text", "not a zone\n");
  folder.write("My/Empty", "");
  ::setenv("TZDIR", folder.at("").c_str(), 1);
  CHECK(load_zone("My/Zone")->offset_at(utc(2024, 7, 1)) == -4h);
  CHECK_THROWS_AS(load_zone("My/Text"), core::UsageError);
  CHECK_THROWS_AS(load_zone("My/Empty"), core::UsageError);
  CHECK_THROWS_AS(load_zone("America/New_York"), core::UsageError);
}

TEST_CASE("TZ names the system's zone, in its usual spellings") {
  if (!has_tz_database()) {
    return;
  }
  const Folder folder;
  fs::create_symlink("/usr/share/zoneinfo/Europe/London", folder.at("localtime"));
  const auto name = [&folder](const char* tz) {
    return system_zone_name(tz, folder.at("localtime"), folder.at("timezone"));
  };
  CHECK(name("Europe/Berlin") == "Europe/Berlin");
  CHECK(name(":Europe/Berlin") == "Europe/Berlin");
  CHECK(name("/usr/share/zoneinfo/Europe/Berlin") == "Europe/Berlin");
  CHECK(name(":/usr/share/zoneinfo/Europe/Berlin") == "Europe/Berlin");
  CHECK(name("") == "UTC");
  CHECK(name("UTC") == "UTC");
  CHECK(name("Etc/UTC") == "UTC");
  CHECK(name((":" + folder.at("localtime")).c_str()) == "Europe/London");
  CHECK(name(nullptr) == "Europe/London");
}

TEST_CASE("a TZ that names no zone is an error of the configuration") {
  const Folder folder;
  for (const char* tz : {"Mars/Olympus", "CET-1CEST,M3.5.0,M10.5.0/3", "/opt/x", ":", "<+03>-3"}) {
    CAPTURE(tz);
    if (std::string(tz) == ":") {
      CHECK(system_zone_name(tz, folder.at("localtime"), folder.at("timezone")) == "UTC");
      continue;
    }
    CHECK(config_error(tz, folder.at("localtime"), folder.at("timezone")).find("TZ names") !=
          std::string::npos);
  }
}

TEST_CASE("without TZ the files of /etc are asked in turn") {
  if (!has_tz_database()) {
    return;
  }
  const Folder folder;
  const auto name = [&folder] {
    return system_zone_name(nullptr, folder.at("localtime"), folder.at("timezone"));
  };
  SECTION("neither exists: UTC") {
    CHECK(name() == "UTC");
  }
  SECTION("a relative link") {
    fs::create_symlink("../usr/share/zoneinfo/America/New_York", folder.at("localtime"));
    CHECK(name() == "America/New_York");
  }
  SECTION("a link goes before the text") {
    fs::create_symlink("/usr/share/zoneinfo/Etc/UTC", folder.at("localtime"));
    folder.write("timezone", "Europe/Berlin\n");
    CHECK(name() == "UTC");
  }
  SECTION("a copied file has no name, the text says it") {
    fs::copy_file("/usr/share/zoneinfo/Europe/Berlin", folder.at("localtime"));
    folder.write("timezone", "Europe/Berlin \n");
    CHECK(name() == "Europe/Berlin");
  }
  SECTION("a copied file alone is a zone without a name: refused, not UTC") {
    fs::copy_file("/usr/share/zoneinfo/Europe/Berlin", folder.at("localtime"));
    CHECK(config_error(nullptr, folder.at("localtime"), folder.at("timezone"))
              .find("does not say the name") != std::string::npos);
  }
  SECTION("a link to a zone that is gone") {
    fs::create_symlink("/usr/share/zoneinfo/Mars/Olympus", folder.at("localtime"));
    CHECK(
        config_error(nullptr, folder.at("localtime"), folder.at("timezone")).find("Mars/Olympus") !=
        std::string::npos);
  }
  SECTION("a text that names none") {
    folder.write("timezone", "\n");
    CHECK(config_error(nullptr, folder.at("localtime"), folder.at("timezone"))
              .find(folder.at("timezone")) != std::string::npos);
  }
}
