#pragma once

#include "core/calendar.hpp"

#include <chrono>
#include <string_view>

namespace oncerun::core {

/// How many periods `this-N` may go back.
inline constexpr int k_max_steps_back = 100'000;

/// What `--date` means. `this` is the period that contains `counted_from` (now, or what
/// --scheduled-at says), `previous` the one before it; for days also `today` and `yesterday`; each
/// with `-N` further periods back; or a label. `was_label` says which of both it was. A period that
/// starts after both `now` and `counted_from` has not begun and is refused.
///
/// For period `key` the text itself is the label (1 to 512 bytes of UTF-8 without control
/// characters), whatever it reads; start and end are then 0. Throws UsageError.
[[nodiscard]] Slot resolve_when(std::string_view text, const Period& period, const Zone& zone,
                                std::chrono::sys_seconds counted_from, std::chrono::sys_seconds now,
                                bool& was_label);

} // namespace oncerun::core
