#include "child/watch.hpp"

#include "child/guard.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
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
  while (!m_ended && !is_kill_due()) {
    // A stop that is under way has its reason already: the timeout is of no interest any more.
    wait_a_moment(m_clock_runs ? m_kill : m_timeout);
    if (!m_ended && !m_clock_runs && m_timeout.passed()) {
      time_out();
    }
    heed_lease();
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

/// TERM goes out two kill_after before the lease ends, KILL one: then its end finds nobody. Until
/// TERM the renewals are tried again and again.
void Watch::heed_lease() {
  if (m_rules.lease == nullptr || m_ended || m_ending.lost) {
    return;
  }
  heed_loss();
  if (m_loss_heeded) {
    lose();
  } else if (os::boot_time() >= m_rules.lease->held_until() - m_rules.kill_after * 2) {
    start_kill_clock(m_rules.kill_after);
    lose();
  }
}

/// Somebody else may have the lock by now.
void Watch::heed_loss() {
  if (m_rules.lease == nullptr || m_loss_heeded) {
    return;
  }
  pollfd lost{m_rules.lease->lost_fd(), POLLIN, 0};
  if (::poll(&lost, 1, 0) > 0) {
    constexpr milliseconds k_grace{2'000};
    m_loss_heeded = true;
    m_kill = os::Deadline::after(std::min({m_rules.kill_after, k_grace, m_kill.left()}));
  }
}

void Watch::lose() {
  m_ending.lost = true;
  m_clock_runs = true;
  if (!m_tree_asked) {
    ask_tree();
  }
}

bool Watch::is_kill_due() const noexcept {
  const bool lease_ends = m_rules.lease != nullptr && m_clock_runs &&
                          os::boot_time() >= m_rules.lease->held_until() - m_rules.kill_after;
  return lease_ends || m_kill.passed();
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
  std::array<pollfd, 4> polled{
      {{m_signals.read_fd(), POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}}};
  if (m_rules.lease != nullptr) {
    const int ahead = m_clock_runs ? 1 : 2;
    m_rules.lease_timer->set(m_rules.lease->held_until() - m_rules.kill_after * ahead);
    polled[1].fd = m_ended || is_kill_due() ? -1 : m_rules.lease_timer->fd();
    polled[2].fd = m_loss_heeded ? -1 : m_rules.lease->lost_fd();
  }
  if (m_rules.guard != nullptr) {
    polled[3].fd = m_rules.guard->fd();
  }
  // A result is of no interest: after EINTR or a timeout there is merely nothing to read.
  ::poll(polled.data(), m_rules.lease == nullptr ? 1 : polled.size(), until.poll_timeout());
  drain();
  reap();
}

/// The command is the guardian's child, unless there is no guardian any more.
void Watch::hear_guard() {
  if (m_rules.guard == nullptr) {
    return;
  }
  const Guard::News news = m_rules.guard->read();
  if (news.ended && !m_ended) {
    note_end(news.ended->status, news.ended->usage);
    m_ending.lost = m_ending.lost || news.ended->lost;
  }
  if (news.gone) {
    m_rules.guard = nullptr;
    m_tree.set_guardian(-1);
    if (!m_ended) {
      // Nobody would end the tree if oncerun were killed now.
      start_kill_clock(m_rules.kill_after);
      lose();
    }
  }
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
  hear_guard();
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
  return m_ended && (m_childless || (m_tree.has_strangers() && m_tree.is_empty()));
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
  while (!is_kill_due()) {
    if (is_gone()) {
      return;
    }
    step(m_kill);
    heed_loss();
  }
  kill_tree();
}

/// KILL, again and again: a process that was being forked during one look is found by the next.
void Watch::kill_tree() {
  m_loss_heeded = true; // nothing could be quicker
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
