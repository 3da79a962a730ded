#pragma once

#include "child/supervise.hpp"
#include "core/decide.hpp"
#include "os/signals.hpp"
#include "run/environment.hpp"
#include "run/plan.hpp"

#include <string>

namespace oncerun::run {

/// What asking came to: a decision, with the words of the last answer.
struct Answered {
  core::AfterCheck decision = core::AfterCheck::hold; ///< never ask_again
  std::string verdict; ///< "absent twice (exit 10)", for history and report
};

/// Asks the downstream check about what was seen, twice where one "absent" is not enough, with
/// --check-settle in between. Throws core::Interrupted within a second of a stop request,
/// core::Error (unavailable) when `lease` (not owned; may be null) is lost meanwhile.
[[nodiscard]] Answered ask_about(const Plan& plan, const core::Sighting& seen, os::Signals& signals,
                                 const core::Lease* lease = nullptr);

/// Asks once, as a start would.
[[nodiscard]] child::CheckResult ask_once(const Plan& plan, const Questioned& attempt,
                                          os::Signals& signals, const core::Lease* lease = nullptr);

/// Asks once about the attempt that just ended with exit 0 (--check-after).
[[nodiscard]] child::CheckResult ask_after(const Plan& plan, const core::ClaimedRun& run,
                                           os::Signals& signals,
                                           const core::Lease* lease = nullptr);

/// Sleeps unless a stop is requested; then throws core::Interrupted.
void sleep_unless_stopped(std::chrono::milliseconds duration, const core::StopRequest& stop);

} // namespace oncerun::run
