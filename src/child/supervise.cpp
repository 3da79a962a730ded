#include "child/supervise.hpp"

#include "child/guard.hpp"
#include "child/launch.hpp"
#include "child/tree.hpp"
#include "child/watch.hpp"
#include "core/error.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace oncerun::child {

namespace {

using std::chrono::milliseconds;

/// Empties the queue of what came before the start; the first stop request in it, 0 for none.
int take_stop_request(os::Signals& signals) {
  int stop = 0;
  while (const auto info = signals.read()) {
    const int signal = static_cast<int>(info->ssi_signo);
    if (stop == 0 && signals.is_stop(signal)) {
      stop = signal;
    }
  }
  return stop;
}

/// The entry that tells the tree of this attempt from everything else; see Tree.
std::string marker_of(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    if (entry.starts_with("ONCERUN_RUN_ID=")) {
      return entry;
    }
  }
  return {};
}

bool is_stopped(pid_t pid) {
  const auto process = os::find_process(pid);
  return process && process->state == 'T';
}

/// Passes signals on to one command.
class Relay {
 public:
  Relay(pid_t command, const Tree& tree, std::chrono::milliseconds kill_after)
      : m_command(command), m_tree(tree), m_kill_after(kill_after) {}

  void operator()(Watch& watch, const signalfd_siginfo& info) const {
    const int signal = static_cast<int>(info.ssi_signo);
    core::Ending& ending = watch.ending();
    const bool stops = signal == SIGTERM || signal == SIGINT || signal == SIGQUIT;
    if (stops && ending.stop_signal == 0) {
      ending.stop_signal = signal;
    }
    const bool from_tree = is_from_tree(info);
    if (!from_tree && !has_reached_command(signal, info)) {
      watch.pass_on(signal);
      if (stops && is_stopped(m_command)) {
        watch.pass_on(SIGCONT); // it acts on the signal only when it goes on
      }
    }
    // `trap '' TERM; kill 0` is how a script ends its own background jobs: no reason to kill it.
    if (!from_tree && (signal == SIGTERM || signal == SIGQUIT)) {
      watch.start_kill_clock(m_kill_after);
    }
  }

 private:
  /// Sent by the command or by what it started, to the whole group as a rule (kill 0): whoever did
  /// it has told the command what it wanted to tell it.
  [[nodiscard]] bool is_from_tree(const signalfd_siginfo& info) const {
    return info.ssi_code <= 0 && info.ssi_pid != 0 && // SI_USER, SI_QUEUE, SI_TKILL
           m_tree.contains(static_cast<pid_t>(info.ssi_pid));
  }

  [[nodiscard]] bool has_reached_command(int signal, const signalfd_siginfo& info) const {
    const pid_t leader = ::getsid(0);
    if (info.ssi_code == SI_KERNEL) {
      // A terminal tells its whole foreground group, except that a hangup (HUP, then CONT) goes to
      // the session's leader alone, and here that may be us instead of the command (setsid(2)).
      return !((signal == SIGHUP || signal == SIGCONT) && leader == ::getpid());
    }
    // An interactive shell's `fg` and `bg` continue the whole group.
    return signal == SIGCONT && leader > 0 && static_cast<pid_t>(info.ssi_pid) == leader &&
           !is_stopped(m_command);
  }

  pid_t m_command;
  const Tree& m_tree;
  std::chrono::milliseconds m_kill_after;
};

/// Under a lease a tree must be found, whoever of us is left to end it.
void require_own_proc() {
  const auto self = os::find_process(::getpid());
  if (!self || self->parent != ::getppid()) {
    throw core::Error(core::Outcome::unavailable, "/proc does not show the processes of oncerun",
                      "mount the one of this pid namespace (unshare --mount-proc)");
  }
}

/// Whatever there is of a command that nobody saw begin; it counts as cut short.
core::Ending end_unseen(const Tree& tree) {
  constexpr milliseconds k_limit{5'000};
  constexpr int k_pause_ms = 20;
  core::Ending ending;
  ending.started = true;
  ending.lost = true;
  ending.signal = SIGKILL;
  const os::Deadline give_up = os::Deadline::after(k_limit);
  while (true) {
    tree.kill();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    ending.tree_left = !tree.is_empty();
    if (!ending.tree_left || give_up.passed()) {
      return ending;
    }
    (void)::poll(nullptr, 0, k_pause_ms);
  }
}

core::Ending watch_over(pid_t command, Guard* guard, const os::BootTimer* timer, Tree& tree,
                        const Limits& limits, os::Signals& signals,
                        const std::function<void()>& when_running,
                        const std::function<void()>& when_waiting) noexcept {
  tree.set_command(command);
  WatchRules rules;
  rules.timeout = limits.timeout;
  rules.kill_after = limits.kill_after;
  rules.on_signal = Relay(command, tree, limits.kill_after);
  rules.is_cut_short = [&limits](const core::Ending& ending) {
    return core::is_cut_short(ending, limits.unknown_exit);
  };
  rules.when_waiting = when_waiting;
  rules.lease = limits.lease;
  rules.lease_timer = timer;
  rules.guard = guard;
  Watch watch(command, signals, tree, std::move(rules));
  if (when_running) {
    when_running();
  }
  return watch.run();
}

} // namespace

core::Ending supervise(const Command& command, const Limits& limits, os::Signals& signals,
                       const std::function<void()>& when_running,
                       const std::function<void()>& when_waiting) {
  core::Ending not_started;
  not_started.stop_signal = take_stop_request(signals);
  if (not_started.stop_signal != 0) {
    return not_started;
  }
  Tree tree(marker_of(command.environment), limits.lease != nullptr ? limits.lease->keeper() : -1);
  std::optional<os::BootTimer> timer;
  std::optional<Guard> guard;
  Launched launched;
  if (limits.lease != nullptr) {
    require_own_proc();
    timer.emplace();
    guard.emplace(command, signals, *limits.lease, limits.kill_after);
    if (guard->is_in_doubt()) {
      return end_unseen(tree);
    }
    tree.set_guardian(guard->pid());
    launched = guard->launched();
  } else {
    launched = launch(command, signals, Streams::as_found);
  }
  if (launched.pid < 0) {
    not_started.start_error = launched.error;
    not_started.exec_failed = launched.exec_failed;
    return not_started;
  }
  // From here on something runs: an exception would have it recorded as never started. What cannot
  // happen ends the process instead, and the next start finds the command orphaned.
  return watch_over(launched.pid, guard ? &*guard : nullptr, timer ? &*timer : nullptr, tree,
                    limits, signals, when_running, when_waiting);
}

} // namespace oncerun::child
