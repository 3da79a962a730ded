#pragma once

#include "child/tree.hpp"
#include "core/ending.hpp"
#include "core/lease.hpp"
#include "os/clock.hpp"
#include "os/signals.hpp"

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>

namespace oncerun::child {

class Guard;
class Watch;

/// What is different between a command and a check.
struct WatchRules {
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds kill_after{0};
  /// How long KILL may take: processes in an uninterruptible wait are given up then.
  std::chrono::milliseconds kill_limit{5'000};
  /// Whether a timeout sends TERM to the whole tree at once instead of to the started process.
  bool timeout_asks_tree = false;
  /// Called once, when the process still runs after a moment (50 ms): there is time to tidy up.
  std::function<void()> when_waiting;
  /// Of the lock under which it runs, and whoever guards it; neither owned, nullptr for none.
  const core::Lease* lease = nullptr;
  const os::BootTimer* lease_timer = nullptr; ///< with a lease; made before anything runs
  Guard* guard = nullptr;
  /// Called for each signal but CHLD.
  std::function<void(Watch&, const signalfd_siginfo&)> on_signal;
  /// Whether this ending is one after which the rest of the tree must go.
  std::function<bool(const core::Ending&)> is_cut_short;
};

/// The one loop: signals, ends of children, and the two timers, from the start of a process until
/// it has ended and, where that was cut short, its tree with it.
class Watch {
 public:
  Watch(pid_t pid, os::Signals& signals, Tree& tree, WatchRules rules);

  /// Returns once; never throws.
  [[nodiscard]] core::Ending run();

  // For on_signal.
  [[nodiscard]] core::Ending& ending() noexcept { return m_ending; }
  /// Sends it to the started process, unless that has ended.
  void pass_on(int signal) const noexcept;
  /// From now on the whole tree has `grace` until KILL; an earlier clock runs on.
  void start_kill_clock(std::chrono::milliseconds grace) noexcept;
  /// TERM for the whole tree, KILL after `grace`, and no more patience than that afterwards.
  void stop_tree_within(std::chrono::milliseconds grace);

 private:
  void step(const os::Deadline& until);
  void wait_a_moment(const os::Deadline& timer);
  void drain();
  void reap();
  void hear_guard();
  void heed_lease();
  void lose();
  void heed_loss();
  [[nodiscard]] bool is_kill_due() const noexcept;
  void note_end(int status, const rusage& usage) noexcept;
  void time_out();
  void ask_tree();
  void end_rest();
  void kill_tree();
  [[nodiscard]] bool is_gone();

  pid_t m_pid;
  os::Signals& m_signals;
  Tree& m_tree;
  WatchRules m_rules;
  core::Ending m_ending;
  os::Deadline m_timeout;
  os::Deadline m_moment; ///< until when_waiting
  os::Deadline m_kill = os::Deadline::never();
  bool m_clock_runs = false;
  bool m_loss_heeded = false; ///< the lock is lost, and the tree has no more than a moment
  bool m_tree_asked = false;  ///< to end, and the clock runs for it
  bool m_ended = false;
  bool m_childless = false;
};

} // namespace oncerun::child
