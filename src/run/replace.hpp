#pragma once

#include "core/ledger.hpp"
#include "run/log.hpp"
#include "run/plan.hpp"

#include <string>

namespace oncerun::run {

enum class Replaced {
  gone,    ///< nobody of it lives any more
  refused, ///< it may not or cannot be stopped; said why
  remains, ///< it was asked to stop and did not in time
};

/// --replace: stops the run that is in the way. A signal goes out only through a pidfd, to a
/// process of our own pid namespace that is seen to hold that run's bytes; an owner is asked with
/// TERM, and ends its tree itself; an orphaned tree gets TERM, then KILL.
[[nodiscard]] Replaced stop_run_in_the_way(const Plan& plan, core::Ledger& ledger,
                                           const core::RunKey& in_the_way,
                                           const core::StopRequest& stop, Log& log);

} // namespace oncerun::run
