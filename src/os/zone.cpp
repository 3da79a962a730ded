#include "os/zone.hpp"

#include "core/error.hpp"
#include "core/text.hpp"
#include "os/fd.hpp"
#include "os/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <optional>

namespace oncerun::os {

namespace {

constexpr std::string_view k_utc = "UTC";
constexpr std::string_view k_default_folder = "/usr/share/zoneinfo";
/// In what /etc/localtime points to, the zone's name follows this.
constexpr std::string_view k_folder_marker = "/zoneinfo/";
/// RFC 8536, section 3.1.
constexpr std::string_view k_magic = "TZif";

class UtcZone final : public core::Zone {
 public:
  [[nodiscard]] std::chrono::seconds offset_at(std::chrono::sys_seconds) const override {
    return std::chrono::seconds(0);
  }
  [[nodiscard]] const std::string& name() const override { return m_name; }

 private:
  std::string m_name{k_utc};
};

class LibcZone final : public core::Zone {
 public:
  explicit LibcZone(std::string name) : m_name(std::move(name)) {}

  [[nodiscard]] std::chrono::seconds offset_at(std::chrono::sys_seconds instant) const override {
    const std::time_t time = instant.time_since_epoch().count();
    std::tm local{};
    if (::localtime_r(&time, &local) == nullptr) {
      throw core::UsageError("an instant lies outside the years that " + m_name + " can tell");
    }
    return std::chrono::seconds(local.tm_gmtoff);
  }
  [[nodiscard]] const std::string& name() const override { return m_name; }

 private:
  std::string m_name;
};

bool is_utc(std::string_view name) {
  // Links of the tz database's file "backward" to Etc/UTC.
  constexpr std::array<std::string_view, 8> k_names{
      "UTC", "Etc/UTC", "Etc/UCT", "UCT", "Etc/Universal", "Universal", "Etc/Zulu", "Zulu"};
  return std::ranges::find(k_names, name) != k_names.end();
}

/// Whether `name` can be one of the tz database: a path below its folder, of the portable
/// characters that the database's theory file allows. "localtime" there is a link to the system's
/// zone.
bool is_well_formed(std::string_view name) {
  const auto allowed = [](char c) {
    return core::is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '/' ||
           c == '_' || c == '-' || c == '+';
  };
  return !name.empty() && name.size() <= 255 && name.front() != '/' && name.back() != '/' &&
         name != "localtime" && std::ranges::all_of(name, allowed);
}

std::string folder() {
  const char* tzdir = std::getenv("TZDIR");
  return tzdir != nullptr && *tzdir != '\0' ? tzdir : std::string(k_default_folder);
}

/// Reads the magic and no more: glibc reads the file itself, but says nothing when it is missing.
bool has_magic(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    return false;
  }
  std::array<char, k_magic.size()> head{};
  ssize_t got = 0;
  do {
    got = ::read(fd.get(), head.data(), head.size());
  } while (got < 0 && errno == EINTR);
  return std::string_view(head.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))) ==
         k_magic;
}

/// Remembers the last name that was proven, so that asking for the system's zone and then loading
/// it looks once.
bool zone_exists(std::string_view name) {
  static std::string proven;
  const std::string path = folder().append("/").append(name);
  if (path == proven) {
    return true;
  }
  if (!is_well_formed(name) || !has_magic(path)) {
    return false;
  }
  proven = path;
  return true;
}

/// Of "../usr/share/zoneinfo/Europe/Berlin" the name; nullopt for another path.
std::optional<std::string> name_in_path(std::string_view path) {
  const std::size_t marker = path.rfind(k_folder_marker);
  if (marker == std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(path.substr(marker + k_folder_marker.size()));
}

/// TZ may hold the path of a file of the tz database in place of its name.
std::string_view below_folder(std::string_view path) {
  for (const std::string& prefix : {folder() + "/", std::string(k_default_folder) + "/"}) {
    if (path.starts_with(prefix)) {
      return path.substr(prefix.size());
    }
  }
  return path;
}

std::string checked(std::string_view name, std::string_view source) {
  if (is_utc(name)) {
    return std::string(k_utc);
  }
  if (!zone_exists(name)) {
    throw core::Error(core::Outcome::config,
                      std::string(source) + " names the time zone " + core::quote(name) +
                          ", which does not exist in " + folder(),
                      "name the zone with --tz, or install the package tzdata");
  }
  return std::string(name);
}

std::optional<std::string> link_target(const std::string& path) {
  std::array<char, 4096> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  return size < 0 ? std::nullopt
                  : std::optional(std::string(target.data(), static_cast<std::size_t>(size)));
}

std::string first_line(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t end = line.find_last_not_of(" \t\r");
  return std::string(line.substr(0, end == std::string_view::npos ? 0 : end + 1));
}

/// The name that the files of /etc say, without $TZ.
std::string configured_zone(const std::string& localtime_path, const std::string& timezone_path) {
  if (const auto target = link_target(localtime_path)) {
    if (const auto name = name_in_path(*target)) {
      return checked(*name, localtime_path);
    }
  }
  if (const auto text = read_file(timezone_path)) {
    return checked(first_line(*text), timezone_path);
  }
  if (::access(localtime_path.c_str(), F_OK) == 0) {
    throw core::Error(core::Outcome::config,
                      localtime_path + " does not say the name of the system's time zone",
                      "name the zone with --tz");
  }
  return std::string(k_utc);
}

} // namespace

std::unique_ptr<core::Zone> load_zone(std::string_view name) {
  if (is_utc(name)) {
    return std::make_unique<UtcZone>();
  }
  if (!zone_exists(name)) {
    throw core::UsageError("--tz: there is no time zone " + core::quote(name) + " in " + folder(),
                           "write a name of the tz database such as Europe/Berlin, or UTC");
  }
  std::string text(name);
  if (::setenv("TZ", text.c_str(), 1) != 0) {
    throw core::system_error(core::Outcome::unavailable, "set", "TZ", errno);
  }
  ::tzset();
  return std::make_unique<LibcZone>(std::move(text));
}

std::string system_zone_name(const char* tz_variable, const std::string& localtime_path,
                             const std::string& timezone_path) {
  if (tz_variable == nullptr) {
    return configured_zone(localtime_path, timezone_path);
  }
  std::string_view name(tz_variable);
  if (name.starts_with(':')) {
    name.remove_prefix(1);
  }
  if (name == localtime_path || name == "localtime") {
    return configured_zone(localtime_path, timezone_path);
  }
  if (name.empty()) {
    return std::string(k_utc); // tzset(3): a TZ without a value is UTC
  }
  return checked(below_folder(name), "TZ");
}

std::string system_zone_name(const char* tz_variable) {
  return system_zone_name(tz_variable, "/etc/localtime", "/etc/timezone");
}

} // namespace oncerun::os
