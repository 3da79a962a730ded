#include "child/launch.hpp"
#include "child/supervise.hpp"
#include "child/tree.hpp"
#include "child/watch.hpp"
#include "core/error.hpp"

#include <cstring>

namespace oncerun::child {

namespace {

using std::chrono::milliseconds;

/// A stop request must end every wait within a second: so long TERM and KILL have each.
constexpr milliseconds k_stop_grace{400};

/// "60 s", "1500 ms"
std::string in_words(milliseconds duration) {
  constexpr milliseconds k_second{1'000};
  return duration % k_second == milliseconds::zero() ? std::to_string(duration / k_second) + " s"
                                                     : std::to_string(duration.count()) + " ms";
}

void throw_if_stopped(os::Signals& signals) {
  if (const int signal = signals.pending(); signal != 0) {
    // The exception carries it from here on: left in the queue it would also interrupt the
    // recording of what has happened.
    while (const auto info = signals.read()) {
      if (static_cast<int>(info->ssi_signo) == signal) {
        break;
      }
    }
    throw core::Interrupted(signal);
  }
}

CheckResult result_of(const core::Ending& ending, const Check& check) {
  CheckResult result;
  if (ending.timed_out) {
    result.detail = "timed out after " + in_words(check.timeout);
    return result;
  }
  result.detail = core::describe(ending);
  if (ending.exit_code == check.present_code) {
    result.answer = core::CheckAnswer::present;
  } else if (ending.exit_code == check.absent_code) {
    result.answer = core::CheckAnswer::absent;
  }
  return result;
}

} // namespace

CheckResult ask(const Check& check, os::Signals& signals) {
  throw_if_stopped(signals);
  Command command;
  command.argv = {"/bin/sh", "-c", check.command};
  command.environment = check.environment;
  Tree tree({});
  std::optional<os::BootTimer> timer;
  if (check.lease != nullptr) {
    timer.emplace();
  }
  const Launched launched = launch(command, signals, Streams::for_check);
  if (launched.pid < 0) {
    return {core::CheckAnswer::unclear,
            std::string("cannot run /bin/sh: ") + std::strerror(launched.error)};
  }
  tree.set_command(launched.pid);
  int stop = 0;
  WatchRules rules;
  rules.timeout = check.timeout;
  rules.kill_after = check.kill_after;
  rules.timeout_asks_tree = true;
  rules.lease = check.lease;
  rules.lease_timer = timer ? &*timer : nullptr;
  rules.on_signal = [&signals, &stop](Watch& watch, const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (stop == 0 && signals.is_stop(signal)) {
      stop = signal;
      watch.stop_tree_within(k_stop_grace);
    }
  };
  rules.is_cut_short = [&stop](const core::Ending& ending) {
    return ending.timed_out || ending.lost || stop != 0;
  };
  const core::Ending ending = Watch(launched.pid, signals, tree, std::move(rules)).run();
  if (stop != 0) {
    throw core::Interrupted(stop);
  }
  if (ending.lost) {
    throw core::Error(core::Outcome::unavailable, "the lock was lost while the check was asked",
                      "nothing was concluded from it; see whether the lock's server runs");
  }
  return result_of(ending, check);
}

} // namespace oncerun::child
