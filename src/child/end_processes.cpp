#include "child/supervise.hpp"
#include "os/clock.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace oncerun::child {

namespace {

using std::chrono::milliseconds;

/// So long KILL may take after `kill_after`.
constexpr milliseconds k_kill_limit{800};
/// Between two looks where no descriptor tells when the next one is worth it.
constexpr milliseconds k_nap{10};

/// A process that is pinned by a descriptor, and whether it got the present signal.
struct Pinned {
  os::UniqueFd fd;
  bool told = false;
};

/// Processes that were seen to belong to what is to be ended.
class Targets {
 public:
  explicit Targets(const StillThere& still_there) : m_still_there(still_there) {}

  /// Looks who is there, pins those who are new; false if nobody is there.
  [[nodiscard]] bool look();
  /// Sends `signal` to all that did not get it yet, after one more look at who still belongs there.
  void tell(int signal);
  void tell_all_again() noexcept {
    for (auto& [pid, pinned] : m_pinned) {
      pinned.told = false;
    }
  }
  /// Waits until one of them ends, a stop is requested, or `limit` is over.
  void wait(milliseconds limit, const core::StopRequest& stop);

 private:
  const StillThere& m_still_there;
  std::map<pid_t, Pinned> m_pinned;
};

bool Targets::look() {
  const std::vector<pid_t> pids = m_still_there();
  for (const pid_t pid : pids) {
    if (pid <= 1 || pid == ::getpid() || m_pinned.contains(pid)) {
      continue;
    }
    os::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (fd) {
      m_pinned[pid].fd = std::move(fd);
    }
  }
  return !pids.empty();
}

void Targets::tell(int signal) {
  const bool all_told = std::all_of(m_pinned.begin(), m_pinned.end(),
                                    [](const auto& entry) { return entry.second.told; });
  if (all_told) {
    return;
  }
  // A pid that is still seen after its process was pinned either means that very process, or one
  // that followed it, and then the descriptor's process has ended and cannot be hit.
  for (const pid_t pid : m_still_there()) {
    const auto found = m_pinned.find(pid);
    if (found == m_pinned.end() || found->second.told) {
      continue;
    }
    found->second.told = true;
    const int fd = found->second.fd.get();
    ::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0);
    if (signal == SIGTERM) {
      // A stopped process acts on TERM only when it goes on.
      ::syscall(SYS_pidfd_send_signal, fd, SIGCONT, nullptr, 0);
    }
  }
}

void Targets::wait(milliseconds limit, const core::StopRequest& stop) {
  std::vector<pollfd> polled;
  polled.reserve(m_pinned.size() + 1);
  for (const auto& [pid, pinned] : m_pinned) {
    polled.push_back({pinned.fd.get(), POLLIN, 0});
  }
  polled.push_back({stop.poll_fd(), POLLIN, 0});
  if (m_pinned.empty()) {
    limit = std::min(limit, k_nap); // nothing tells of the end of what could not be pinned
  }
  if (::poll(polled.data(), polled.size(), os::Deadline::after(limit).poll_timeout()) <= 0) {
    return;
  }
  std::size_t at = 0;
  const auto ended = [&](const auto&) { return (polled[at++].revents & POLLIN) != 0; };
  if (std::erase_if(m_pinned, ended) > 0) {
    // Its parent reaps it in a moment; until then a look may still find it.
    pollfd stopped{stop.poll_fd(), POLLIN, 0};
    ::poll(&stopped, 1, static_cast<int>(k_nap.count()));
  }
}

/// `kill` after `limit`, or else no more than TERM.
bool end_all(const StillThere& still_there, milliseconds limit, bool kill,
             const core::StopRequest& stop) {
  Targets targets(still_there);
  os::Deadline deadline = os::Deadline::after(limit);
  int signal = SIGTERM;
  while (targets.look()) {
    if (stop.pending() != 0) {
      return false;
    }
    targets.tell(signal);
    targets.wait(deadline.left(), stop);
    if (!deadline.passed()) {
      continue;
    }
    if (!kill || signal == SIGKILL) {
      return still_there().empty();
    }
    signal = SIGKILL;
    targets.tell_all_again();
    deadline = os::Deadline::after(k_kill_limit);
  }
  return true;
}

} // namespace

bool end_processes(const StillThere& still_there, milliseconds kill_after,
                   const core::StopRequest& stop) {
  return end_all(still_there, kill_after, true, stop);
}

bool ask_processes_to_end(const StillThere& still_there, milliseconds limit,
                          const core::StopRequest& stop) {
  return end_all(still_there, limit, false, stop);
}

} // namespace oncerun::child
