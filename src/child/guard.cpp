#include "child/guard.hpp"

#include "child/guarding.hpp"
#include "core/error.hpp"
#include "os/helper_process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace oncerun::child {

namespace {

ssize_t receive(int socket, GuardMessage& message, int flags) noexcept {
  ssize_t size = 0;
  do {
    size = ::recv(socket, &message, sizeof message, flags);
  } while (size < 0 && errno == EINTR);
  return size;
}

/// False at the end of the socket. The kernel may be short of memory for a moment: the message
/// stays.
bool receive_in_the_end(int socket, GuardMessage& message) noexcept {
  constexpr int k_pause_ms = 20;
  ssize_t size = 0;
  while ((size = receive(socket, message, 0)) < 0) {
    (void)::poll(nullptr, 0, k_pause_ms);
  }
  return size == sizeof message;
}

} // namespace

Guard::Guard(const Command& command, const os::Signals& signals, const core::Lease& lease,
             std::chrono::milliseconds kill_after) {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw core::system_error(core::Outcome::unavailable, "make", "a socket pair", errno);
  }
  m_socket = os::UniqueFd(sockets[0]);
  os::UniqueFd guardian_socket(sockets[1]);
  m_pid = os::start_helper("oncerun-guard", [&] {
    guard_command(command, signals, lease, kill_after, guardian_socket.get());
  });
  if (m_pid < 0) {
    throw core::system_error(core::Outcome::unavailable, "start", "the guardian", errno);
  }
  guardian_socket.reset();
  GuardMessage message;
  bool may_run = false;
  while (receive_in_the_end(m_socket.get(), message)) {
    if (message.kind == GuardMessage::Kind::launched) {
      m_launched = message.launched;
      return;
    }
    may_run = true;
  }
  while (::waitpid(std::exchange(m_pid, -1), nullptr, 0) < 0 && errno == EINTR) {
  }
  m_in_doubt = may_run;
  if (!may_run) {
    throw core::Error(core::Outcome::unavailable, "the guardian ended before the command began",
                      "it is a process of oncerun's own; see who killed it");
  }
}

Guard::~Guard() {
  // Unless it has ended and was reaped: then its pid means nothing any more.
  if (m_pid > 0 && ::waitpid(m_pid, nullptr, WNOHANG) == 0) {
    ::kill(m_pid, SIGKILL); // also when somebody stopped it
    // Its end need not be waited for: whatever watches children next reaps it, or else our own end.
  }
}

Guard::News Guard::read() noexcept {
  News news;
  GuardMessage message;
  while (true) {
    const ssize_t size = receive(m_socket.get(), message, MSG_DONTWAIT);
    if (size == sizeof message) {
      if (message.kind == GuardMessage::Kind::ended) {
        news.ended = News::End{message.status, message.usage, message.lost};
      }
      continue;
    }
    news.gone = size >= 0; // an error is none of the socket's: it is read again
    return news;
  }
}

} // namespace oncerun::child
