#include "core/error.hpp"
#include "os/host.hpp"
#include "run/asking.hpp"
#include "run/attempt.hpp"
#include "run/pipeline.hpp"
#include "run/retry.hpp"
#include "run/shared_marks.hpp"

#include <utility>

namespace oncerun::run {

Result Pipeline::run_attempts(core::HeldLock& lock, core::Claimed claimed) {
  m_telling.claimed(claimed, m_ledger.describe());
  std::unique_ptr<core::Claim> claim = std::move(claimed.claim);
  Attempt attempt(m_plan, m_publisher, m_signals, m_log, lock);
  Result result = attempt.run(*claim);
  for (int retry = 1; retry <= m_plan.retries; ++retry) {
    const bool failed = result.status == core::name_of(core::RunStatus::failed);
    if (!failed || result.outcome == core::Outcome::unrecorded ||
        (!result.started && result.outcome == core::Outcome::signalled)) {
      break;
    }
    // The old claim lives until the new one is made: its owner's byte keeps the run owned.
    std::unique_ptr<core::Claim> next = claim_retry(lock, claim->run(), retry, result);
    if (!next) {
      break;
    }
    claim = std::move(next);
    const Result before = result;
    try {
      result = attempt.run(*claim);
    } catch (const core::Error& error) {
      no_retry(error); // given back as never started
      break;
    } catch (const core::Interrupted& stop) {
      result = stopped_by(stop.signal());
    }
    if (before.started && !result.started) {
      result = retry_not_started(before, result);
      break;
    }
  }
  return result;
}

/// A retry that could not be made changes nothing about the attempt before it: its exit code stays
/// the invocation's, and `started` stays true.
void Pipeline::no_retry(const core::Error& error) {
  m_log.say(Level::error, core::title(m_plan.key) + ": no retry: " + error.what(), error.hint());
}

std::unique_ptr<core::Claim> Pipeline::claim_retry(core::HeldLock& lock,
                                                   const core::ClaimedRun& previous, int retry,
                                                   Result& result) {
  const std::chrono::milliseconds delay = retry_delay(m_plan.retry_delay, retry);
  m_log.say(Level::note, core::title(m_plan.key) + ": retry " + std::to_string(retry) + " of " +
                             std::to_string(m_plan.retries) + " in " +
                             std::to_string(delay.count()) + " ms");
  try {
    sleep_unless_stopped(delay, m_signals);
    std::string verdict;
    const core::Sighting seen = m_ledger.look(m_plan.key);
    if (m_plan.check && seen.row() == core::RowState::failed) {
      const Answered answered = ask_about(m_plan, seen, m_signals, lock.lease());
      verdict = answered.verdict;
      result.check_verdict = verdict;
      if (answered.decision == core::AfterCheck::mark_done) {
        if (m_ledger.settle(m_plan.key, seen, found_done(verdict), m_signals)) {
          m_publisher.after_result();
          result.outcome = core::Outcome::done;
          result.exit_code = 0;
          result.status = core::name_of(core::RunStatus::done);
        }
        return nullptr;
      }
      if (answered.decision == core::AfterCheck::hold) {
        m_log.say(Level::error, core::title(m_plan.key) +
                                    ": no retry, the check gave no clear answer: " + verdict);
        return nullptr;
      }
    }
    require_lease(m_plan, lock);
    core::ClaimRequest again = request(lock, verdict);
    again.run_id = os::random_uuid();
    core::ClaimOutcome outcome = m_ledger.claim(
        lock, again,
        [&previous](const core::Sighting& now) {
          const bool ours = now.run && now.run->run_id == previous.run_id &&
                            now.run->status == core::RunStatus::failed;
          return core::Decision{ours ? core::Action::start : core::Action::hold,
                                core::Reason::failed_before};
        },
        m_signals);
    if (auto* claimed = std::get_if<core::Claimed>(&outcome)) {
      return std::move(claimed->claim);
    }
    const bool other = std::holds_alternative<core::OtherDateLives>(outcome);
    m_log.say(Level::error,
              core::title(m_plan.key) + (other ? ": no retry, another date is running"
                                               : ": no retry, somebody settled it meanwhile"));
  } catch (const core::Error& error) {
    no_retry(error);
  } catch (const core::Interrupted& stop) {
    result.outcome = core::Outcome::signalled;
    result.exit_code = 128 + stop.signal();
    m_log.say(Level::error, core::title(m_plan.key) + ": stopped by " +
                                core::signal_name(stop.signal()) + " before the next attempt");
  }
  return nullptr;
}

} // namespace oncerun::run
