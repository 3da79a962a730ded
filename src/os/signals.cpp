#include "os/signals.hpp"

#include "core/error.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace oncerun::os {

namespace {

/// In the order in which pending() names them. INT, QUIT and HUP only unless they are ignored.
constexpr std::array k_stop_signals{SIGTERM, SIGINT, SIGQUIT, SIGHUP};

bool is_ignored(int signal) noexcept {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

UniqueFd open_signalfd(const sigset_t& set) {
  UniqueFd fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) {
    throw core::system_error(core::Outcome::unavailable, "open", "a signalfd", errno);
  }
  return fd;
}

} // namespace

Signals::Signals() {
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  struct sigaction previous {};
  if (::sigaction(SIGCHLD, &default_action, &previous) == 0) {
    m_chld_ignored = previous.sa_handler == SIG_IGN;
  }
  sigset_t readable;
  ::sigemptyset(&readable);
  ::sigemptyset(&m_stop);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGCHLD}) {
    ::sigaddset(&readable, signal);
  }
  for (const int signal : k_stop_signals) {
    // Left out rather than blocked when ignored: a blocked signal is queued even if it is ignored
    // (signal(7)), and would then be taken for a request.
    if (signal == SIGTERM || !is_ignored(signal)) {
      ::sigaddset(&readable, signal);
      ::sigaddset(&m_stop, signal);
    }
  }
  sigset_t blocked = readable;
  ::sigaddset(&blocked, SIGPIPE);
  ::sigaddset(&blocked, SIGXFSZ);
  if (::sigprocmask(SIG_BLOCK, &blocked, &m_original_mask) != 0) {
    throw core::system_error(core::Outcome::unavailable, "block", "signals", errno);
  }
  m_fd = open_signalfd(readable);
  m_stop_fd = open_signalfd(m_stop);
}

int Signals::pending() const noexcept {
  sigset_t waiting;
  if (::sigpending(&waiting) != 0) {
    return 0;
  }
  for (const int signal : k_stop_signals) {
    if (::sigismember(&waiting, signal) == 1 && is_stop(signal)) {
      return signal;
    }
  }
  return 0;
}

std::optional<signalfd_siginfo> Signals::read() noexcept {
  signalfd_siginfo info{};
  ssize_t count = 0;
  do {
    count = ::read(m_fd.get(), &info, sizeof info);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return info;
}

bool Signals::was_ignored(int signal) const noexcept {
  // Of all dispositions only CHLD's is ever changed.
  return signal == SIGCHLD ? m_chld_ignored : is_ignored(signal);
}

bool Signals::is_stop(int signal) const noexcept {
  return ::sigismember(&m_stop, signal) == 1;
}

} // namespace oncerun::os
