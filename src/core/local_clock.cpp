#include "core/local_clock.hpp"

#include <algorithm>

namespace oncerun::core {

namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;

constexpr seconds k_look_every = 24h;

/// RFC 8536, section 3.2: offsets lie above -25 h and below 26 h.
constexpr seconds k_least_offset = -25h;
constexpr seconds k_greatest_offset = 26h;

} // namespace

sys_seconds local_at(const Zone& zone, sys_seconds instant) {
  return instant + zone.offset_at(instant);
}

sys_days date_of(sys_seconds local) noexcept {
  return std::chrono::floor<std::chrono::days>(local);
}

std::optional<sys_seconds> change_within_day(const Zone& zone, sys_seconds from, sys_seconds to) {
  const seconds old_offset = zone.offset_at(from);
  if (zone.offset_at(to) == old_offset) {
    return std::nullopt;
  }
  while (to - from > 1s) {
    const sys_seconds middle = from + (to - from) / 2;
    if (zone.offset_at(middle) == old_offset) {
      from = middle;
    } else {
      to = middle;
    }
  }
  return to;
}

std::optional<sys_seconds> first_change(const Zone& zone, sys_seconds from, sys_seconds to) {
  while (from < to) {
    const sys_seconds next = std::min(from + k_look_every, to);
    if (const auto change = change_within_day(zone, from, next)) {
      return change;
    }
    from = next;
  }
  return std::nullopt;
}

sys_seconds first_instant(const Zone& zone, sys_days date) {
  const sys_seconds last = date - k_least_offset;
  sys_seconds from = date - k_greatest_offset;
  // From one change to the next the clock runs evenly: the first such stretch that gets there.
  while (true) {
    const auto change = first_change(zone, from, last);
    const sys_seconds reached = std::max(from, date - zone.offset_at(from));
    if (!change || reached < *change) {
      return reached;
    }
    from = *change;
  }
}

} // namespace oncerun::core
