#include "child/tree.hpp"

#include "core/error.hpp"
#include "os/fd.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace oncerun::child {

namespace {

/// Reaps what has ended already; whether any child is left.
bool has_children() {
  while (true) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid == 0) {
      return true;
    }
    if (pid < 0 && errno != EINTR) {
      return false;
    }
  }
}

bool by_pid(const os::Process& left, const os::Process& right) {
  return left.pid < right.pid;
}

void send_to(const os::Process& process, pid_t self, int signal) {
  if (process.parent == self) {
    // Our child keeps its pid until we reap it, and nothing is reaped here.
    ::kill(process.pid, signal);
    return;
  }
  // Anybody else's may have ended and been followed by a stranger with the same pid: the descriptor
  // pins the process, and only then it is looked at.
  const os::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  const auto now = os::find_process(process.pid);
  if (pidfd && now && now->start_ticks == process.start_ticks) {
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
  }
}

} // namespace

Tree::Tree(std::string marker, pid_t helper) : m_marker(std::move(marker)), m_self(::getpid()) {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    throw core::system_error(core::Outcome::unavailable, "become", "a subreaper (prctl)", errno);
  }
  m_has_strangers = has_children();
  if (m_has_strangers) {
    m_strangers = strangers();
    m_may_inherit = std::any_of(m_strangers.begin(), m_strangers.end(),
                                [helper](const os::Process& one) { return one.pid != helper; });
    std::sort(m_strangers.begin(), m_strangers.end(), by_pid);
  }
}

/// What is not known as a stranger would be ended with the tree. Where a marker tells orphans apart
/// it is enough to know the children: what is below them falls away with them.
std::vector<os::Process> Tree::strangers() const {
  if (!m_marker.empty()) {
    if (const auto children = os::own_children()) {
      std::vector<os::Process> found;
      for (const pid_t pid : *children) {
        if (const auto process = os::find_process(pid)) {
          found.push_back(*process);
        }
      }
      if (found.size() == children->size()) {
        return found;
      }
    }
  }
  int error = 0;
  std::vector<os::Process> found = os::descendants(m_self, os::list_processes(&error));
  if (error != 0) {
    throw core::system_error(core::Outcome::unavailable, "look at the processes in", "/proc",
                             error);
  }
  return found;
}

bool Tree::is_stranger(const os::Process& process, int* error) const {
  if (!m_has_strangers || process.pid == m_command || process.pid == m_guardian) {
    return false;
  }
  const auto known = std::lower_bound(m_strangers.begin(), m_strangers.end(), process, by_pid);
  if (known != m_strangers.end() && known->pid == process.pid &&
      known->start_ticks == process.start_ticks) {
    return true;
  }
  return m_may_inherit && process.parent == m_self && !m_marker.empty() &&
         !os::has_environment(process.pid, m_marker, error);
}

bool Tree::is_empty() const {
  int error = 0;
  return members(&error).empty() && members(&error).empty() && error == 0;
}

std::vector<os::Process> Tree::members(int* error) const {
  std::vector<os::Process> all = os::list_processes(error);
  // What a stranger starts is reached through the stranger only, and so falls away with it.
  std::erase_if(all, [&](const os::Process& process) { return is_stranger(process, error); });
  std::vector<os::Process> members = os::descendants(m_guardian > 0 ? m_guardian : m_self, all);
  if (m_guardian > 0) {
    std::erase_if(members, [this](const os::Process& process) {
      return process.pid == m_guardian || (process.pid == m_command && process.state == 'Z');
    });
  }
  return members;
}

bool Tree::contains(pid_t pid) const {
  constexpr int k_deepest = 4096; // a chain read while it changes could be a circle
  auto process = os::find_process(pid);
  for (int depth = 0; process && depth < k_deepest; ++depth) {
    if (is_stranger(*process)) {
      return false;
    }
    if (m_guardian > 0 && process->parent == m_guardian) {
      return true;
    }
    if (process->parent == m_self) {
      return process->pid != m_guardian;
    }
    if (process->parent <= 1) {
      return false;
    }
    process = os::find_process(process->parent);
  }
  return false;
}

void Tree::ask_to_end() const {
  for (const os::Process& process : members()) {
    send_to(process, m_self, SIGTERM);
    send_to(process, m_self, SIGCONT);
  }
}

void Tree::kill() const {
  for (const os::Process& process : members()) {
    send_to(process, m_self, SIGKILL);
  }
}

} // namespace oncerun::child
