#pragma once

#include "core/zone.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace oncerun::os {

/// The zone called `name` (a name of the tz database such as Europe/Berlin, or UTC), by glibc's
/// localtime_r(3) after proving that the zone exists: an unknown one is a UsageError, never
/// silently UTC. UTC works without a tz database, and all of its names become "UTC", so that hosts
/// which spell it differently agree. TZDIR is respected, as by glibc.
///
/// Only one zone can be in use at a time: it is process state (TZ in our own environment, and what
/// tzset(3) keeps). The environment that the command gets must be copied before.
[[nodiscard]] std::unique_ptr<core::Zone> load_zone(std::string_view name);

/// The name of the system's zone: `tz_variable` ($TZ; nullptr if it is not set), without the
/// leading colon and the tz database's folder that it may have; else what /etc/localtime points to,
/// else the line of /etc/timezone, else UTC if neither exists. Throws Error (config) where there is
/// a zone but no name for it, or one that does not exist: --tz helps then.
[[nodiscard]] std::string system_zone_name(const char* tz_variable);

/// The same by explicit paths, for tests.
[[nodiscard]] std::string system_zone_name(const char* tz_variable,
                                           const std::string& localtime_path,
                                           const std::string& timezone_path);

} // namespace oncerun::os
