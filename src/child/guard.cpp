#include "child/guard.hpp"

#include "child/guarding.hpp"
#include "core/error.hpp"
#include "os/helper_process.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace oncerun::child {

namespace {

ssize_t receive(int socket, GuardMessage& message, int flags) noexcept {
  ssize_t size = 0;
  do {
    size = ::recv(socket, &message, sizeof message, flags);
  } while (size < 0 && errno == EINTR);
  return size;
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
  std::vector<int> kept = command.inherited_fds;
  kept.push_back(guardian_socket.get());
  kept.push_back(lease.lost_fd());
  m_pid = os::start_helper("oncerun-guard", kept, [&] {
    guard_command(command, signals, lease, kill_after, guardian_socket.get());
  });
  if (m_pid < 0) {
    throw core::system_error(core::Outcome::unavailable, "start", "the guardian", errno);
  }
  guardian_socket.reset();
  GuardMessage message;
  if (receive(m_socket.get(), message, 0) != sizeof message ||
      message.kind != GuardMessage::Kind::launched) {
    while (::waitpid(std::exchange(m_pid, -1), nullptr, 0) < 0 && errno == EINTR) {
    }
    throw core::Error(core::Outcome::unavailable, "the guardian ended before the command began",
                      "it is a process of oncerun's own; see who killed it");
  }
  m_launched = message.launched;
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
    news.gone = size >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    return news;
  }
}

} // namespace oncerun::child
