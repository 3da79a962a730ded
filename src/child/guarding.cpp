#include "child/guarding.hpp"

#include "child/tree.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "os/helper_process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <vector>

namespace oncerun::child {

namespace {

using std::chrono::milliseconds;

/// After a lost lease oncerun acts first.
constexpr milliseconds k_head_start{250};
/// Between two rounds of KILL: what was being forked during one is found by the next.
constexpr milliseconds k_kill_pause{20};
constexpr milliseconds k_longest_kill_pause{200};

class Guardian {
 public:
  Guardian(const core::Lease& lease, milliseconds kill_after, int socket, Tree& tree, pid_t command)
      : m_lease(lease), m_kill_after(kill_after), m_socket(socket), m_tree(tree),
        m_command(command) {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    m_children = os::UniqueFd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  /// Until the tree of an oncerun that is gone is gone as well; dismissal is a KILL.
  void run() {
    while (true) {
      reap();
      tell_end();
      if (m_orphaned && is_gone()) {
        return;
      }
      look_at_lease();
      if (m_kill_at && os::boot_time() >= *m_kill_at) {
        kill();
      }
      wait();
    }
  }

 private:
  void wait() {
    m_timer.set(next_step());
    std::array<pollfd, 4> polled{{{m_children.get(), POLLIN, 0},
                                  {m_timer.fd(), POLLIN, 0},
                                  {m_orphaned ? -1 : m_socket, 0, 0},
                                  {m_lost_at ? -1 : m_lease.lost_fd(), POLLIN, 0}}};
    (void)::poll(polled.data(), polled.size(), -1);
    signalfd_siginfo info;
    while (::read(m_children.get(), &info, sizeof info) > 0) {
    }
    if (polled[2].revents != 0) {
      m_orphaned = true;
      end_tree(os::boot_time() + m_kill_after);
    }
    if (polled[3].revents != 0) {
      m_lost_at = os::boot_time();
    }
  }

  /// When there is something to do though nothing happens.
  [[nodiscard]] milliseconds next_step() const {
    const milliseconds held_until = m_lease.held_until();
    if (m_kill_at) {
      const bool done = is_gone();
      // A renewal may come between, and oncerun acts first again.
      return done ? os::boot_time() + std::chrono::hours(1) : *m_kill_at;
    }
    milliseconds next = held_until - m_kill_after * 3 / 2;
    if (m_lost_at) {
      next = std::min(next, *m_lost_at + k_head_start);
    }
    return next;
  }

  void look_at_lease() {
    if (m_kill_at) {
      return;
    }
    const milliseconds now = os::boot_time();
    if (now >= m_lease.held_until() - m_kill_after * 3 / 2 ||
        (m_lost_at && now >= *m_lost_at + k_head_start)) {
      end_tree(now + m_kill_after);
    }
  }

  void end_tree(milliseconds kill_at) {
    const milliseconds latest = m_lease.held_until() - m_kill_after / 2;
    m_kill_at = std::min({kill_at, latest, m_kill_at.value_or(latest)});
    m_tree.ask_to_end();
  }

  void kill() {
    if (!m_end) {
      ::kill(m_command,
             SIGKILL); // also without /proc; it is not reaped, so that the pid is its own
    }
    m_tree.kill();
    m_kill_at = os::boot_time() + m_kill_pause;
    m_kill_pause = std::min(m_kill_pause * 2, k_longest_kill_pause);
  }

  /// Reaps whatever has ended but the command, which is only looked at.
  void reap() {
    bool changed = false;
    while (true) {
      siginfo_t info{};
      rusage usage{};
      if (::syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, &usage) != 0 ||
          info.si_pid == 0) {
        break;
      }
      if (info.si_pid == m_command) {
        note_end(info, usage);
        tell_end();
        changed = reap_others() || changed;
        break;
      }
      changed = ::waitpid(info.si_pid, nullptr, WNOHANG) > 0 || changed;
    }
    if (changed) {
      GuardMessage message;
      message.kind = GuardMessage::Kind::changed;
      (void)send(message); // one that waits already says as much
    }
  }

  /// The command is the first that a look finds, again and again: the others are found by name.
  bool reap_others() {
    bool any = false;
    for (const pid_t pid : os::own_children().value_or(std::vector<pid_t>{})) {
      any = (pid != m_command && ::waitpid(pid, nullptr, WNOHANG) > 0) || any;
    }
    return any;
  }

  void note_end(const siginfo_t& info, const rusage& usage) {
    if (m_end) {
      return;
    }
    m_end.emplace();
    m_end->kind = GuardMessage::Kind::ended;
    const bool exited = info.si_code == CLD_EXITED;
    m_end->status = exited ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
    m_end->usage = usage;
    m_end->lost = m_kill_at.has_value();
  }

  void tell_end() {
    if (m_end && !m_end_told) {
      m_end_told = send(*m_end);
    }
  }

  bool send(const GuardMessage& message) const noexcept {
    return ::send(m_socket, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(sizeof message);
  }

  [[nodiscard]] bool is_gone() const {
    // Only the command is left unreaped, once it has ended.
    return m_end && m_tree.is_empty();
  }

  const core::Lease& m_lease;
  milliseconds m_kill_after;
  int m_socket;
  Tree& m_tree;
  pid_t m_command;
  os::UniqueFd m_children;
  os::BootTimer m_timer;
  std::optional<GuardMessage> m_end;
  bool m_end_told = false;
  bool m_orphaned = false; ///< oncerun is gone
  std::optional<milliseconds> m_lost_at;
  std::optional<milliseconds> m_kill_at; ///< the tree was asked to end
  milliseconds m_kill_pause = k_kill_pause;
};

} // namespace

void guard_command(const Command& command, const os::Signals& signals, const core::Lease& lease,
                   milliseconds kill_after, int socket) {
  Tree tree("");
  GuardMessage message;
  const auto tell = [&message, socket] {
    return ::send(socket, &message, sizeof message, MSG_NOSIGNAL) ==
           static_cast<ssize_t>(sizeof message);
  };
  // oncerun may have been stopped since it looked.
  pollfd lost{lease.lost_fd(), POLLIN, 0};
  if (::poll(&lost, 1, 0) != 0 || os::boot_time() + kill_after * 2 >= lease.held_until()) {
    message.launched.error = ETIME;
  } else if (tell()) { // or else oncerun is gone, and nothing may start
    message.launched = launch(command, signals, Streams::as_found, Parent::guardian);
  }
  message.kind = GuardMessage::Kind::launched;
  // Only now: until here the command inherits what oncerun was given, and nothing of oncerun's own,
  // which is close-on-exec.
  std::vector<int> kept = command.inherited_fds;
  kept.push_back(socket);
  kept.push_back(lease.lost_fd());
  os::close_all_but(std::move(kept));
  os::let_go_of_standard_fds();
  tree.set_guardian(::getpid());
  (void)tell(); // if that fails oncerun is gone, and that is seen at once
  if (message.launched.pid >= 0) {
    tree.set_command(message.launched.pid);
    Guardian(lease, kill_after, socket, tree, message.launched.pid).run();
  }
}

} // namespace oncerun::child
