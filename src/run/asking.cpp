#include "run/asking.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"

#include <poll.h>

namespace oncerun::run {

namespace {

std::string words(core::CheckAnswer answer, const std::string& detail, bool twice) {
  std::string text = "unclear";
  if (answer == core::CheckAnswer::present) {
    text = "present";
  } else if (answer == core::CheckAnswer::absent) {
    text = twice ? "absent twice" : "absent";
  }
  return text + " (" + detail + ")";
}

} // namespace

child::CheckResult ask_once(const Plan& plan, const Questioned& attempt, os::Signals& signals,
                            const core::Lease* lease) {
  child::Check check;
  check.command = plan.check->command;
  check.environment = check_environment(plan, attempt);
  check.timeout = plan.check->timeout;
  check.kill_after = plan.kill_after;
  check.absent_code = plan.check->absent_code;
  check.present_code = plan.check->present_code;
  check.lease = lease;
  return child::ask(check, signals);
}

void sleep_unless_stopped(std::chrono::milliseconds duration, const core::StopRequest& stop) {
  const os::Deadline deadline = os::Deadline::after(duration);
  while (true) {
    if (const int signal = stop.pending(); signal != 0) {
      throw core::Interrupted(signal);
    }
    if (deadline.passed()) {
      return;
    }
    // A queued signal that is no stop request (WINCH, CHLD) keeps the descriptor readable, so it
    // cannot be waited on: short naps end a wait soon enough after a stop request.
    constexpr int k_nap_ms = 50;
    const int left = deadline.poll_timeout();
    ::poll(nullptr, 0, left < k_nap_ms ? left : k_nap_ms);
  }
}

Answered ask_about(const Plan& plan, const core::Sighting& seen, os::Signals& signals,
                   const core::Lease* lease) {
  const Questioned attempt = questioned(seen);
  bool absent_before = false;
  while (true) {
    const child::CheckResult result = ask_once(plan, attempt, signals, lease);
    const core::AfterCheck after = core::after_check(seen.row(), result.answer, absent_before);
    if (after != core::AfterCheck::ask_again) {
      return {after, words(result.answer, result.detail, absent_before)};
    }
    absent_before = true;
    sleep_unless_stopped(plan.check->settle, signals);
  }
}

child::CheckResult ask_after(const Plan& plan, const core::ClaimedRun& run, os::Signals& signals,
                             const core::Lease* lease) {
  return ask_once(plan, questioned(run), signals, lease);
}

} // namespace oncerun::run
