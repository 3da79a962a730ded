#pragma once

#include "core/lock.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace oncerun::lock {

/// The note as it stands in our own lock file: "key=value" lines between a first and a last line,
/// so that one that is half written is seen to be so. For people too, who may `cat` it.
[[nodiscard]] std::string print_note(const core::LockNote& note);

/// None for what is not, or not yet, a whole note. What follows the last line is ignored.
[[nodiscard]] std::optional<core::LockNote> parse_note(std::string_view text);

} // namespace oncerun::lock
