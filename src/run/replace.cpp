#include "run/replace.hpp"

#include "child/supervise.hpp"
#include "core/error.hpp"

namespace oncerun::run {

namespace {

/// Why the run may not be replaced by this invocation; empty if it may.
std::string objection(const Plan& plan, const core::RunKey& in_the_way) {
  if (in_the_way.date == plan.key.date) {
    const bool may = plan.check || plan.guarantee == core::Guarantee::at_least_once;
    return may ? "" : "stopping a run of the same date needs --check or --guarantee at-least-once";
  }
  if (plan.period.is_key() || in_the_way.date > plan.key.date) {
    return "it runs a date that " + plan.key.date.label() + " does not cover";
  }
  return "";
}

} // namespace

Replaced stop_run_in_the_way(const Plan& plan, core::Ledger& ledger, const core::RunKey& in_the_way,
                             const core::StopRequest& stop, Log& log) {
  if (const std::string why = objection(plan, in_the_way); !why.empty()) {
    log.say(Level::warning, core::title(in_the_way) + " is not replaced: " + why);
    return Replaced::refused;
  }
  // Asked anew before every signal: who is seen to hold the run's bytes right now.
  const auto holders = [&]() -> std::vector<pid_t> {
    const core::Sighting seen = ledger.look(in_the_way);
    const bool lives =
        seen.owner == core::OwnerLife::alive || seen.owner == core::OwnerLife::orphaned;
    return lives ? seen.pids : std::vector<pid_t>{};
  };
  const core::Sighting seen = ledger.look(in_the_way);
  if (seen.owner != core::OwnerLife::alive && seen.owner != core::OwnerLife::orphaned) {
    return Replaced::gone;
  }
  if (seen.pids.empty()) {
    log.say(Level::warning,
            core::title(in_the_way) + " is not replaced: the processes that hold it cannot be seen",
            "they belong to another user or another pid namespace");
    return Replaced::refused;
  }
  log.say(Level::note, "stopping " + core::title(in_the_way) + ", which is in the way (--replace)");
  bool ended = false;
  if (seen.owner == core::OwnerLife::alive) {
    // The owner ends its own tree within its own --kill-after and records what happened. KILL would
    // only orphan that tree, so it never goes to an owner.
    constexpr std::chrono::milliseconds k_owner_limit{120'000};
    ended = child::ask_processes_to_end(holders, k_owner_limit, stop);
  }
  if (!ended && ledger.look(in_the_way).owner == core::OwnerLife::orphaned) {
    ended = child::end_processes(holders, plan.kill_after, stop);
  }
  if (!ended && ledger.look(in_the_way).owner != core::OwnerLife::alive) {
    ended = holders().empty();
  }
  if (const int signal = stop.pending(); signal != 0 && !ended) {
    throw core::Interrupted(signal);
  }
  if (!ended) {
    log.say(Level::warning, core::title(in_the_way) + " was asked to stop and still runs");
  }
  return ended ? Replaced::gone : Replaced::remains;
}

} // namespace oncerun::run
