#pragma once

#include "core/ledger.hpp"
#include "os/signals.hpp"
#include "run/log.hpp"
#include "run/plan.hpp"
#include "run/publisher.hpp"
#include "run/result.hpp"

namespace oncerun::run {

/// Runs a claimed attempt to its end: state file's pending, the command, the result, the state
/// file's result. The order of the steps is the promise (design, section 5, "Order of a run"):
/// whatever fails before the start gives the claim back as never started, and no result is reported
/// that is not durable.
class Attempt {
 public:
  /// None of them is owned.
  Attempt(const Plan& plan, Publisher& publisher, os::Signals& signals, Log& log,
          core::HeldLock& lock)
      : m_plan(plan), m_publisher(publisher), m_signals(signals), m_log(log), m_lock(lock) {}

  [[nodiscard]] Result run(core::Claim& claim);

 private:
  void give_back(core::Claim& claim, const std::string& why);
  [[nodiscard]] core::Ending supervise(core::Claim& claim);
  [[nodiscard]] core::Verdict judge(const core::Claim& claim, const core::Ending& ending,
                                    Result& result);
  void record(core::Claim& claim, const core::Ending& ending, const core::Verdict& verdict,
              Result& result);
  void keep_in_spool(core::Claim& claim, const core::AttemptResult& attempt, const std::string& why,
                     Result& result);
  void tell(const core::Ending& ending, const Result& result);
  void tell_of_loss(const core::Claim& claim);

  const Plan& m_plan;
  Publisher& m_publisher;
  os::Signals& m_signals;
  Log& m_log;
  core::HeldLock& m_lock;
};

} // namespace oncerun::run
