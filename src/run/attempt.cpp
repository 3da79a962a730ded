#include "run/attempt.hpp"

#include "child/supervise.hpp"
#include "core/error.hpp"
#include "os/clock.hpp"
#include "run/asking.hpp"
#include "run/environment.hpp"
#include "run/patient_stop.hpp"
#include "run/shared_marks.hpp"

#include <cstring>
#include <utility>

namespace oncerun::run {

namespace {

const std::string k_without_lock = "ran without the lock: ";

core::AttemptResult result_for_ledger(const core::Ending& ending, const core::Verdict& verdict) {
  core::AttemptResult attempt;
  attempt.status = verdict.status;
  attempt.never_started = verdict.never_started;
  attempt.exit_code = ending.exit_code;
  attempt.signal = ending.signal;
  attempt.usage = ending.usage;
  if (verdict.status != core::RunStatus::done) {
    attempt.note = core::describe(ending);
    if (verdict.outcome == core::Outcome::unconfirmed) {
      attempt.note += ", not confirmed by the check";
    }
  }
  return attempt;
}

} // namespace

Result Attempt::run(core::Claim& claim) {
  Result result;
  result.run = claim.run();
  result.claimed_at = os::now_text();
  try {
    m_publisher.before_start();
    m_lock.begin_attempt(pending_mark(claim.run()), m_signals);
    require_lease(m_plan, m_lock);
  } catch (const core::Interrupted& stop) {
    give_back(claim, stopped_by(stop.signal()).reason);
    throw;
  } catch (const std::exception& error) {
    give_back(claim, error.what());
    throw;
  }
  const core::Ending ending = supervise(claim);
  result.started = ending.started;
  result.ending = ending;
  if (ending.tree_left) {
    // Something of the tree cannot be killed. The attempt stays open and its tree's byte held, so
    // that every later start finds it running until the kernel lets go of it.
    const core::Verdict verdict = core::judge(ending, m_plan.unknown_exit);
    result.outcome = verdict.outcome;
    result.exit_code = verdict.exit_code;
    result.status = "pending";
    m_log.say(Level::error,
              core::title(m_plan.key) +
                  ": processes of the command are left that KILL does not end",
              "the run stays open and counts as running until they are gone");
    return result;
  }
  const core::Verdict verdict = judge(claim, ending, result);
  claim.release_tree();
  record(claim, ending, verdict, result);
  result.ended_at = os::now_text();
  m_publisher.after_result();
  tell(ending, result);
  if (ending.lost && m_plan.on_lost) {
    tell_of_loss(claim);
  }
  return result;
}

core::Ending Attempt::supervise(core::Claim& claim) {
  child::Command command;
  command.argv = m_plan.command;
  command.environment = command_environment(m_plan, claim.run());
  command.standard_fds = m_plan.standard_fds;
  for (const int fd : {claim.inherited_fd(), m_lock.inherited_fd()}) {
    if (fd >= 0) {
      command.inherited_fds.push_back(fd);
    }
  }
  child::Limits limits;
  limits.timeout = m_plan.timeout;
  limits.kill_after = m_plan.kill_after;
  limits.unknown_exit = m_plan.unknown_exit;
  limits.lease = m_lock.lease();
  try {
    return child::supervise(
        command, limits, m_signals, [&claim] { claim.while_running(); },
        [&claim] { claim.while_waiting(); });
  } catch (const std::exception& error) { // nothing was started, whatever it is
    give_back(claim, error.what());
    throw;
  }
}

core::Verdict Attempt::judge(const core::Claim& claim, const core::Ending& ending, Result& result) {
  if (!m_plan.check || !m_plan.check->after ||
      !core::wants_check_after(ending, m_plan.unknown_exit)) {
    return core::judge(ending, m_plan.unknown_exit);
  }
  core::CheckAnswer answer = core::CheckAnswer::unclear;
  try {
    const child::CheckResult check = ask_after(m_plan, claim.run(), m_signals, m_lock.lease());
    answer = check.answer;
    result.check_verdict = check.detail;
  } catch (const core::Interrupted& stop) {
    result.check_verdict = "stopped by " + core::signal_name(stop.signal());
  } catch (const core::Error& error) {
    result.check_verdict = error.what();
  }
  return core::judge(ending, m_plan.unknown_exit, answer);
}

void Attempt::record(core::Claim& claim, const core::Ending& ending, const core::Verdict& verdict,
                     Result& result) {
  result.outcome = verdict.outcome;
  result.exit_code = verdict.exit_code;
  const core::GivenBack back = core::given_back(claim.run().previous);
  result.status = core::name_of(verdict.never_started ? back.status : verdict.status);
  core::AttemptResult attempt = result_for_ledger(ending, verdict);
  if (const std::string missing = m_lock.missing_because(); !missing.empty()) {
    attempt.note += (attempt.note.empty() ? "" : "; ") + k_without_lock + missing;
  }
  try {
    switch (claim.finish(attempt, m_plan.record_timeout, PatientStop(m_signals))) {
    case core::Recorded::recorded:
      return;
    case core::Recorded::marked_by_command:
      result.outcome = core::Outcome::done;
      result.exit_code = 0;
      result.status = core::name_of(core::RunStatus::done);
      return;
    case core::Recorded::lost:
      result.outcome = core::Outcome::lost;
      result.exit_code = core::row_of(core::Outcome::lost).code;
      result.status.clear();
      result.reason = "the run is not this attempt's any more; its result was not recorded";
      return;
    }
  } catch (const core::Error& error) {
    keep_in_spool(claim, attempt, error.what(), result);
  } catch (const core::Interrupted& stop) {
    keep_in_spool(claim, attempt, "stopped by " + core::signal_name(stop.signal()), result);
  }
}

void Attempt::keep_in_spool(core::Claim& claim, const core::AttemptResult& attempt,
                            const std::string& why, Result& result) {
  const std::string came_to = core::describe(*result.ending);
  result.outcome = core::Outcome::unrecorded;
  result.status = core::name_of(core::RunStatus::pending); // what the row says until it is posted
  result.exit_code = core::row_of(core::Outcome::unrecorded).code;
  try {
    const std::string path = claim.spool(attempt);
    result.reason = "the result (" + came_to + ") is not in the ledger: " + why;
    m_log.say(Level::error, core::title(m_plan.key) + ": " + result.reason,
              "it is kept in " + path + "; the next start of any job on this ledger posts it");
  } catch (const core::Error& error) {
    result.reason = "the result (" + came_to + ") is recorded nowhere: " + why;
    m_log.say(Level::error,
              core::title(m_plan.key) + ": " + result.reason + "; and the spool: " + error.what(),
              "the run reads as cut short; settle it with a check or oncerun resolve");
  }
}

void Attempt::give_back(core::Claim& claim, const std::string& why) {
  core::AttemptResult attempt;
  attempt.status = core::RunStatus::failed;
  attempt.never_started = true;
  attempt.note = why;
  std::string trouble;
  try {
    // A lost claim needs no word: nothing was started, and the row belongs to somebody else.
    (void)claim.finish(attempt, m_plan.record_timeout, PatientStop(m_signals));
    return;
  } catch (const core::Error& error) {
    trouble = error.what();
  } catch (const core::Interrupted& stop) {
    trouble = "stopped by " + core::signal_name(stop.signal());
  }
  const std::string text = core::title(m_plan.key) +
                           ": nothing was started, and the ledger could not be told: " + trouble;
  try {
    const std::string path = claim.spool(attempt);
    m_log.say(Level::warning, text, "that is kept in " + path + "; the next start posts it");
  } catch (const core::Error&) {
    m_log.say(Level::error, text,
              "the run reads as cut short; settle it with oncerun resolve --ready");
  }
}

/// --on-lost: whoever can reach what the command had begun elsewhere may want to stop it.
void Attempt::tell_of_loss(const core::Claim& claim) {
  constexpr std::chrono::milliseconds k_limit{60'000};
  child::Check hook;
  hook.command = *m_plan.on_lost;
  hook.environment = command_environment(m_plan, claim.run());
  hook.timeout = k_limit;
  hook.kill_after = m_plan.kill_after;
  try {
    const child::CheckResult result = child::ask(hook, m_signals);
    if (result.answer != core::CheckAnswer::present) {
      m_log.say(Level::warning, core::title(m_plan.key) + ": --on-lost: " + result.detail);
    }
  } catch (const core::Interrupted& stop) {
    m_log.say(Level::warning, core::title(m_plan.key) + ": --on-lost was stopped by " +
                                  core::signal_name(stop.signal()));
  } catch (const core::Error& error) {
    m_log.say(Level::warning, core::title(m_plan.key) + ": --on-lost: " + error.what());
  }
}

void Attempt::tell(const core::Ending& ending, const Result& result) {
  switch (result.outcome) {
  case core::Outcome::done:
  case core::Outcome::unrecorded: // said when it happened
    return;
  case core::Outcome::lost:
    if (ending.lost) {
      break;
    }
    m_log.say(Level::error, core::title(m_plan.key) + ": " + result.reason,
              "oncerun show tells who settled it meanwhile");
    return;
  case core::Outcome::unconfirmed:
    m_log.say(Level::error,
              core::title(m_plan.key) +
                  ": exit 0, but the check did not confirm it: " + result.check_verdict);
    return;
  default:
    break;
  }
  std::string text = core::title(m_plan.key) + ": " + core::describe(ending);
  if (!result.status.empty()) {
    text += "; recorded as " + result.status;
  }
  std::string hint;
  if (!ending.started && ending.exec_failed) {
    text = core::title(m_plan.key) + ": cannot execute " + m_plan.command.front() + ": " +
           std::strerror(ending.start_error) + "; recorded as " + result.status;
    hint = result.status == "unknown"
               ? "nothing was started; what happened before it is still not known"
               : "nothing was started; the next start tries again";
  } else if (result.status == "unknown") {
    hint = m_plan.check ? "the next start asks the check first"
                        : "nobody knows how much of it happened; see oncerun-guarantees(7)";
  }
  m_log.say(Level::error, text, hint);
}

} // namespace oncerun::run
