#pragma once

#include "core/ledger.hpp"
#include "core/lock.hpp"
#include "run/log.hpp"
#include "run/plan.hpp"
#include "run/result.hpp"

#include <optional>

namespace oncerun::run {

// What hosts with a ledger each tell one another through the lock that they share.

/// Takes what another host left about this run into the ledger, as a settlement of kind "mark":
/// done there is done here; an attempt whose lock is free without a result reads as unknown. What
/// this ledger knows of the very same attempt, or has as final, stands. `request` is that of the
/// claim to come. Returns whether the ledger has changed. Throws core::Error.
bool take_mark_in(const Plan& plan, core::Ledger& ledger, const core::HeldLock& lock,
                  const core::ClaimRequest& request, const core::StopRequest& stop, Log& log);

/// The mark of an attempt that is about to start.
[[nodiscard]] core::RunMark pending_mark(const core::ClaimedRun& run);
/// What other hosts are to know of a run once its lock is released: after an attempt of this
/// invocation; none if it was given back as never started.
[[nodiscard]] std::optional<core::RunMark> mark_of(const Result& result);
/// The same where nothing was started, from what the ledger knows; none if that is nothing.
[[nodiscard]] std::optional<core::RunMark> mark_of(const core::Sighting& seen);

/// Nothing may be started, or believed, under a lock that is lost or ends before what is started
/// could be stopped. Throws core::Error (unavailable).
void require_lease(const Plan& plan, const core::HeldLock& lock);

} // namespace oncerun::run
