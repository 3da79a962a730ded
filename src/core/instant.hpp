#pragma once

#include "core/zone.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace oncerun::core {

/// "2026-10-26T18:00:00Z" (RFC 3339).
[[nodiscard]] std::string print_rfc3339(std::chrono::sys_seconds instant);
/// "2026-10-26T18:00:00.123Z": always three digits, so that texts sort; the form of the ledger.
[[nodiscard]] std::string print_rfc3339(std::chrono::sys_time<std::chrono::milliseconds> instant);
/// "2026-10-26T20:00:00+02:00": the zone's clock with its numeric offset. Where the offset has
/// seconds, which RFC 3339 cannot say, they are left out of both, so that the instant stays right.
[[nodiscard]] std::string print_local_rfc3339(const Zone& zone, std::chrono::sys_seconds instant);

/// Any date-time of RFC 3339, section 5.6, years 1970 to 9999, with T, t or a space between date
/// and time; digits below a millisecond are cut off; a leap second counts as the next second.
/// Nothing else is one.
[[nodiscard]] std::optional<std::chrono::sys_time<std::chrono::milliseconds>>
parse_rfc3339(std::string_view text);

} // namespace oncerun::core
