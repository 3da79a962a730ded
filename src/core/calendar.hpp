#pragma once

#include "core/names.hpp"
#include "core/period.hpp"
#include "core/zone.hpp"

#include <chrono>
#include <string_view>

namespace oncerun::core {

// The slots of a period tile time: each starts where the one before it ends. They are cut on the
// local clock of a zone:
//
// - A day starts at the first instant of that local date; a local date that never existed has no
//   slot. A week (ISO 8601) starts with its Monday, a month with its first day.
// - A part of the day starts where the local clock reads an exact multiple of it, or where a change
//   of the clock lands in another part than the one before it. So the repeated hour of a change is
//   two slots of `hour`, while a slot of six hours that contains the change stays one, of seven.
//
// Labels of one period sort by time. Years are 1970 to 9999. No function here takes period `key`.

struct Slot {
  BizDate label;
  std::chrono::sys_seconds start; ///< the first instant of the slot
  std::chrono::sys_seconds end;   ///< the first instant after it

  friend bool operator==(const Slot&, const Slot&) = default;
};

/// The slot that contains `instant`. Throws UsageError outside the years.
[[nodiscard]] Slot slot_at(const Period& period, const Zone& zone,
                           std::chrono::sys_seconds instant);

/// `count` slots later, or earlier if it is negative. Throws UsageError outside the years. Cheap
/// enough for 100,000 steps.
[[nodiscard]] Slot step(const Period& period, const Zone& zone, const Slot& slot, int count);
[[nodiscard]] Slot previous_slot(const Period& period, const Zone& zone, const Slot& slot);
[[nodiscard]] Slot next_slot(const Period& period, const Zone& zone, const Slot& slot);

/// The slot with that label, written exactly: `2026-10-26`, `2026-W44`, `2026-10`, and for a part
/// of the day the UTC instant at which a slot really starts, `2026-10-26T18:00Z`. Throws
/// UsageError.
[[nodiscard]] Slot slot_labelled(const Period& period, const Zone& zone, std::string_view label);

} // namespace oncerun::core
