#pragma once

#include "core/records.hpp"
#include "ops/human.hpp"
#include "ops/output.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace oncerun::ops {

/// What a run is for a person: its row together with what is known of its owner.
struct Standing {
  /// running, retrying, orphaned, not-provable, or the row's status; a dead owner's pending reads
  /// unknown; "none" without a row.
  std::string word;
  std::string note; ///< why it stands so; may be empty
  Tone tone = Tone::plain;
  /// Failed, unknown, or open without a live owner (design, section 2).
  bool unsettled = false;
  /// Whether a process of it is alive: then durations are counted up to now.
  bool alive = false;
  int rank = 0; ///< the smaller, the sooner a person should look
};

[[nodiscard]] Standing standing_of(const core::Sighting& sighting);

/// "host:123", the pids of the tree for an orphaned one; "" where nobody is or was at work.
[[nodiscard]] std::string who_of(const core::Sighting& sighting);
/// How long the newest attempt took, or has been at it; nothing if nobody knows when it ended.
[[nodiscard]] std::optional<std::chrono::milliseconds> duration_of(const core::Sighting& sighting,
                                                                   Instant now);
/// When it came to stand as it does.
[[nodiscard]] const std::string& since_of(const core::RunRecord& run);

/// "3", "KILL", "" where there is neither.
[[nodiscard]] std::string exit_of(std::optional<int> exit_code, std::optional<int> signal);
/// "exit 3", "signal 9 (KILL)", "".
[[nodiscard]] std::string exit_words(std::optional<int> exit_code, std::optional<int> signal);

/// "101, 102"; at most eight, then "…".
[[nodiscard]] std::string pid_list(const std::vector<pid_t>& pids);

/// What a start without further options (cautious, no check) would do now, in one clause.
[[nodiscard]] std::string next_start(const core::Sighting& sighting);
/// A decision in one clause: "holds (exit 80): …".
[[nodiscard]] std::string decision_words(const core::Decision& decision);

} // namespace oncerun::ops
