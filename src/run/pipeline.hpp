#pragma once

#include "core/error.hpp"
#include "core/ledger.hpp"
#include "core/lock.hpp"
#include "os/clock.hpp"
#include "os/signals.hpp"
#include "run/asking.hpp"
#include "run/log.hpp"
#include "run/plan.hpp"
#include "run/publisher.hpp"
#include "run/result.hpp"
#include "run/telling.hpp"

#include <memory>
#include <optional>

namespace oncerun::run {

/// What --explain shows: what was found and what would be done, without doing it.
struct Explanation {
  core::Sighting seen;
  core::Decision decision;
  std::optional<core::Sighting> other; ///< another date in the way (a state file alone)
  bool lock_held = false;
  std::optional<core::LockNote> lock_holder;
};

/// One invocation: peek → lock → look, decide, ask → claim → attempt → retries → release.
class Pipeline {
 public:
  /// Nothing is owned.
  Pipeline(const Plan& plan, core::Ledger& ledger, core::Lock& lock, os::Signals& signals,
           Log& log);

  /// Does it. Expected outcomes are in the result; a broken environment is a core::Error.
  [[nodiscard]] Result execute();
  /// Starts, asks, locks and changes nothing.
  [[nodiscard]] Explanation explain();

 private:
  /// How one round of locking and claiming ended.
  struct Round {
    std::optional<Result> result; ///< empty: try again
  };

  [[nodiscard]] core::Situation situation(const core::Sighting& seen) const;
  [[nodiscard]] std::optional<Result> run_at_once();
  [[nodiscard]] std::optional<Result> peek();
  [[nodiscard]] std::optional<Result> settle_other_date();
  [[nodiscard]] Result acquire_and_run();
  [[nodiscard]] Round run_under(std::unique_ptr<core::HeldLock> lock);
  [[nodiscard]] Round locked_out();
  [[nodiscard]] Round claim_and_run(core::HeldLock& lock);
  [[nodiscard]] Round claim_with(core::HeldLock& lock, const core::Decider& decider,
                                 const std::string& check_verdict);
  [[nodiscard]] Round not_claimed(core::HeldLock& lock, const core::NotClaimed& found);
  [[nodiscard]] Round ask(core::HeldLock& lock, const core::Sighting& seen);
  [[nodiscard]] Round in_the_way(const core::RunKey& run, const core::Sighting& seen);
  [[nodiscard]] Result run_attempts(core::HeldLock& lock, core::Claimed claimed);
  [[nodiscard]] std::unique_ptr<core::Claim>
  claim_retry(core::HeldLock& lock, const core::ClaimedRun& previous, int retry, Result& result);
  void no_retry(const core::Error& error);
  void wait_for_change(const core::RunKey& run);

  [[nodiscard]] core::Settlement found_done(const std::string& verdict) const;
  [[nodiscard]] std::string zone_name() const;
  [[nodiscard]] core::ClaimRequest request(const core::HeldLock& lock,
                                           const std::string& check_verdict) const;

  const Plan& m_plan;
  core::Ledger& m_ledger;
  core::Lock& m_lock;
  os::Signals& m_signals;
  Log& m_log;
  Publisher m_publisher;
  Telling m_telling;
  os::Deadline m_deadline; ///< of --wait
  bool m_replaced = false;
};

} // namespace oncerun::run
