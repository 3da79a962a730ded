#pragma once

#include "core/zone.hpp"

#include <chrono>
#include <optional>

namespace oncerun::core {

// What the calendar needs to know of a zone's clock, found by asking for its offset only.

/// What the zone's clock shows at that instant, as if it showed UTC.
[[nodiscard]] std::chrono::sys_seconds local_at(const Zone& zone, std::chrono::sys_seconds instant);

[[nodiscard]] std::chrono::sys_days date_of(std::chrono::sys_seconds local) noexcept;

/// The one change of the offset in (from, to]: the first instant of the new one. The two instants
/// lie at most a day apart: changes lie at least a week apart in every zone since 1970 (tz database
/// 2025), so that no pair of them hides in between.
[[nodiscard]] std::optional<std::chrono::sys_seconds>
change_within_day(const Zone& zone, std::chrono::sys_seconds from, std::chrono::sys_seconds to);

/// The first change of the offset in (from, to], however far apart they are.
[[nodiscard]] std::optional<std::chrono::sys_seconds>
first_change(const Zone& zone, std::chrono::sys_seconds from, std::chrono::sys_seconds to);

/// The first instant at which the local date is `date` or, if that date never existed, a later one.
[[nodiscard]] std::chrono::sys_seconds first_instant(const Zone& zone, std::chrono::sys_days date);

} // namespace oncerun::core
