#include "run/shared_marks.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"
#include "os/host.hpp"

#include <poll.h>

namespace oncerun::run {

namespace {

using core::RowState;
using core::RunStatus;

core::RunStatus taken_as(RunStatus mark) noexcept {
  // The lock was free: whoever was at it is gone, or its lease is over and its command with it.
  return mark == RunStatus::pending ? RunStatus::unknown : mark;
}

/// Whether the ledger has nothing to learn from the mark.
bool knows_better(const core::Sighting& seen, const core::RunMark& mark) noexcept {
  const bool done = mark.status == RunStatus::done;
  if (seen.run && seen.run->run_id == mark.run_id && !done) {
    return true; // its own attempt, or one that was taken in before
  }
  switch (seen.row()) {
  case RowState::done:
  case RowState::skipped:
    return true;
  case RowState::unknown:
  case RowState::late_success:
  case RowState::pending:
    return mark.status != RunStatus::done; // a doubt stays one, and is asked about as it is
  case RowState::none:
  case RowState::ready:
  case RowState::failed:
  case RowState::never_started:
    return false;
  }
  return false;
}

std::string words(const core::RunMark& mark) {
  const std::string host = mark.host.empty() ? "another host" : mark.host;
  if (mark.run_id.empty()) {
    return "a mark that says nothing more";
  }
  return std::string(core::name_of(mark.status)) + " on " + host +
         (mark.at.empty() ? "" : " at " + mark.at) + ", run " + mark.run_id;
}

} // namespace

bool take_mark_in(const Plan& plan, core::Ledger& ledger, const core::HeldLock& lock,
                  const core::ClaimRequest& request, const core::StopRequest& stop, Log& log) {
  const std::optional<core::RunMark> mark = lock.found_mark();
  if (!mark) {
    return false;
  }
  constexpr int k_most_looks = 3; // somebody settles it at the same time
  for (int i = 0; i < k_most_looks; ++i) {
    const core::Sighting seen = ledger.look(plan.key);
    const bool lives =
        seen.owner == core::OwnerLife::alive || seen.owner == core::OwnerLife::orphaned;
    if (lives || knows_better(seen, *mark)) {
      return false;
    }
    const core::Settlement settlement{.to = taken_as(mark->status),
                                      .kind = "mark",
                                      .by = os::who_am_i(),
                                      .detail = words(*mark),
                                      .period = request.period,
                                      .zone = request.zone,
                                      .sortable_labels = request.sortable_labels,
                                      .evidence = request.evidence,
                                      .run_id = mark->run_id,
                                      .token = mark->token};
    if (ledger.settle(plan.key, seen, settlement, stop)) {
      // Every host but one finds it done, night after night: nothing to mail about.
      log.say(mark->status == RunStatus::done ? Level::skip : Level::note,
              core::title(plan.key) + ": " + words(*mark));
      return true;
    }
  }
  return false;
}

core::RunMark pending_mark(const core::ClaimedRun& run) {
  return {RunStatus::pending, run.run_id, run.token, os::this_process().host, os::now_text()};
}

std::optional<core::RunMark> mark_of(const Result& result) {
  if (!result.run || !result.started) {
    return std::nullopt;
  }
  // Unknown also where the result is not in the ledger, or the row is not this attempt's any more.
  core::RunMark mark{RunStatus::unknown, result.run->run_id, result.run->token,
                     os::this_process().host, os::now_text()};
  for (const RunStatus status : {RunStatus::done, RunStatus::failed}) {
    if (result.status == core::name_of(status)) {
      mark.status = status;
    }
  }
  return mark;
}

std::optional<core::RunMark> mark_of(const core::Sighting& seen) {
  if (!seen.run) {
    return std::nullopt;
  }
  core::RunMark mark{RunStatus::unknown, seen.run->run_id, seen.run->token, seen.run->host,
                     seen.run->started_at};
  switch (seen.row()) {
  case RowState::done:
    mark.status = RunStatus::done;
    return mark;
  case RowState::failed:
    mark.status = RunStatus::failed;
    return mark;
  case RowState::unknown:
  case RowState::late_success:
  case RowState::pending:
    return mark;
  case RowState::none:
  case RowState::skipped:
  case RowState::ready:
  case RowState::never_started:
    break;
  }
  return std::nullopt;
}

void require_lease(const Plan& plan, const core::HeldLock& lock) {
  const core::Lease* lease = lock.lease();
  if (lease == nullptr) {
    return;
  }
  pollfd lost{lease->lost_fd(), POLLIN, 0};
  if (::poll(&lost, 1, 0) != 0 || os::boot_time() + plan.kill_after * 2 >= lease->held_until()) {
    throw core::Error(core::Outcome::unavailable,
                      "the lock was lost, or could not be renewed, before the start",
                      "nothing was started; see whether its server runs");
  }
}

} // namespace oncerun::run
