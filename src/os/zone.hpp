#pragma once

#include "core/zone.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace oncerun::os {

/// The zone called `name` (a name of the tz database such as Europe/Berlin, or UTC), by glibc's
/// localtime_r(3) after proving that the zone exists. Throws UsageError for an unknown one: never
/// silently UTC. Only one zone can be in use at a time (it is process state: TZ); the environment
/// that the command gets is not touched by it, since that is copied before.
[[nodiscard]] std::unique_ptr<core::Zone> load_zone(std::string_view name);

/// The system's zone: $TZ if set (an unknown one is an Error, config), else what /etc/localtime
/// points to, else the line of /etc/timezone, else UTC.
[[nodiscard]] std::string system_zone_name(const char* tz_variable);

} // namespace oncerun::os
