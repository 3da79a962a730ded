#include "child/watch.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace oncerun::child {

namespace {

using std::chrono::milliseconds;

/// Most commands that end at once end sooner.
constexpr milliseconds k_moment{50};

std::chrono::microseconds duration_of(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

} // namespace

Watch::Watch(pid_t pid, os::Signals& signals, Tree& tree, WatchRules rules)
    : m_pid(pid), m_signals(signals), m_tree(tree), m_rules(std::move(rules)),
      m_timeout(m_rules.timeout ? os::Deadline::after(*m_rules.timeout) : os::Deadline::never()),
      m_moment(os::Deadline::after(k_moment)) {
  m_ending.started = true;
}

core::Ending Watch::run() {
  while (!m_ended && !m_kill.passed()) {
    // A stop that is under way has its reason already: the timeout is of no interest any more.
    wait_a_moment(m_clock_runs ? m_kill : m_timeout);
    if (!m_ended && !m_clock_runs && m_timeout.passed()) {
      time_out();
    }
  }
  if (!m_ended) {
    kill_tree();
    return m_ending;
  }
  // A signal for the whole group may have reached the command first. Once more, so that what came
  // until now counts: an exit code after a stop signal proves nothing.
  drain();
  if (m_rules.is_cut_short(m_ending)) {
    end_rest();
  }
  return m_ending;
}

/// step(), and between the first two of them what can be done while the process runs.
void Watch::wait_a_moment(const os::Deadline& timer) {
  if (!m_rules.when_waiting) {
    step(timer);
    return;
  }
  step(m_moment.left() < timer.left() ? m_moment : timer);
  if (!m_ended && m_moment.passed()) {
    std::exchange(m_rules.when_waiting, nullptr)();
  }
}

void Watch::pass_on(int signal) const noexcept {
  if (!m_ended) {
    ::kill(m_pid, signal);
  }
}

void Watch::start_kill_clock(milliseconds grace) noexcept {
  if (!m_clock_runs) {
    m_clock_runs = true;
    m_kill = os::Deadline::after(grace);
  }
}

void Watch::stop_tree_within(milliseconds grace) {
  m_clock_runs = true;
  m_kill = os::Deadline::after(std::min(grace, m_kill.left()));
  m_rules.kill_limit = grace;
  ask_tree();
}

void Watch::ask_tree() {
  m_tree_asked = true;
  m_tree.ask_to_end();
}

void Watch::time_out() {
  m_ending.timed_out = true;
  start_kill_clock(m_rules.kill_after);
  if (m_rules.timeout_asks_tree) {
    ask_tree();
    return;
  }
  pass_on(SIGTERM);
  // A stopped process acts on TERM only when it goes on.
  pass_on(SIGCONT);
}

/// Waits for the next signal, CHLD included, but not beyond `until`.
void Watch::step(const os::Deadline& until) {
  pollfd signals{m_signals.read_fd(), POLLIN, 0};
  // A result is of no interest: after EINTR or a timeout there is merely nothing to read.
  ::poll(&signals, 1, until.poll_timeout());
  drain();
  reap();
}

void Watch::drain() {
  while (const auto info = m_signals.read()) {
    if (info->ssi_signo != SIGCHLD) {
      m_rules.on_signal(*this, *info);
    }
  }
}

/// CHLD is not queued once for each child, so that one stands for any number of them.
void Watch::reap() {
  while (!m_childless) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    if (pid == m_pid && !m_ended) {
      note_end(status, usage);
    }
    if (pid == 0) {
      return;
    }
    m_childless = pid < 0 && errno == ECHILD;
  }
  if (!m_ended) {
    // Somebody else took its status away. Nobody knows it, and it must not read as a success.
    note_end(SIGKILL, rusage{});
  }
}

void Watch::note_end(int status, const rusage& usage) noexcept {
  m_ended = true;
  if (WIFEXITED(status)) {
    m_ending.exit_code = WEXITSTATUS(status);
  } else {
    m_ending.signal = WTERMSIG(status);
  }
  m_ending.usage.user = duration_of(usage.ru_utime);
  m_ending.usage.system = duration_of(usage.ru_stime);
  m_ending.usage.max_rss_kib = usage.ru_maxrss;
}

/// Whether nothing of the tree is left. Whatever lives has an ancestor that is our child, so that
/// without strangers it is enough to have no child, and CHLD tells of every change.
bool Watch::is_gone() {
  reap();
  return m_ended && (m_childless || (m_tree.has_strangers() && m_tree.members().empty()));
}

void Watch::end_rest() {
  if (is_gone()) {
    return;
  }
  if (!m_tree_asked) {
    m_clock_runs = true; // another TERM does not lengthen it
    m_kill = os::Deadline::after(m_rules.kill_after);
    ask_tree();
  }
  while (!m_kill.passed()) {
    if (is_gone()) {
      return;
    }
    step(m_kill);
  }
  kill_tree();
}

/// KILL, again and again: a process that was being forked during one look is found by the next.
void Watch::kill_tree() {
  const os::Deadline give_up = os::Deadline::after(m_rules.kill_limit);
  milliseconds pause{5};
  while (true) {
    pass_on(SIGKILL); // also without /proc
    m_tree.kill();
    if (is_gone()) {
      return;
    }
    if (give_up.passed()) {
      m_ending.tree_left = true;
      return;
    }
    step(os::Deadline::after(std::min(pause, give_up.left())));
    constexpr milliseconds k_longest_pause{200};
    pause = std::min(pause * 2, k_longest_pause);
  }
}

} // namespace oncerun::child
