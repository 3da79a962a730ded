#include "lock/lease_keeper.hpp"

#include "core/error.hpp"
#include "os/helper_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>

namespace oncerun::lock {

namespace {

core::Error cannot(const char* what, const char* which, int error) {
  return core::system_error(core::Outcome::unavailable, what, which, error);
}

} // namespace

LeaseKeeper::LeaseKeeper(const RedisOptions& options) {
  std::array<int, 2> sockets{};
  std::array<int, 2> pipe{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw cannot("make", "a socket pair", errno);
  }
  m_socket = os::UniqueFd(sockets[0]);
  const os::UniqueFd keeper_socket(sockets[1]);
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    throw cannot("make", "a pipe", errno);
  }
  m_lost = os::UniqueFd(pipe[0]);
  const os::UniqueFd keeper_lost(pipe[1]);
  void* const page =
      ::mmap(nullptr, sizeof(LeasePage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    throw cannot("map", "shared memory", errno);
  }
  m_page = new (page) LeasePage();
  const pid_t oncerun = ::getpid();
  m_pid = os::start_helper("oncerun-lease", [&] {
    os::close_all_but({keeper_socket.get(), keeper_lost.get()});
    os::let_go_of_standard_fds();
    keep_lease(options, oncerun, keeper_socket.get(), keeper_lost.get(), *m_page);
  });
  if (m_pid < 0) {
    const int error = errno;
    ::munmap(page, sizeof(LeasePage));
    throw cannot("start", "the lease keeper", error);
  }
}

LeaseKeeper::~LeaseKeeper() {
  m_socket.reset();
  // As a rule it ends at once. It may also still be talking with a server that hangs, and nobody
  // waits for that. Whoever adopts what we leave may be a container's first process that reaps
  // nobody, so that the guardian's end is taken note of as well.
  constexpr int k_moment_ms = 100;
  const os::UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, m_pid, 0)));
  pollfd polled{ended.get(), POLLIN, 0};
  (void)::poll(&polled, 1, k_moment_ms);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  ::munmap(m_page, sizeof(LeasePage));
}

void LeaseKeeper::forget(const Message& request) {
  if (request.front() == "acquire") {
    (void)send_message(m_socket.get(), {"0", "forget"});
  }
}

std::optional<Message> LeaseKeeper::ask(const Message& request, const os::Deadline& deadline,
                                        const core::StopRequest& stop) {
  const core::Error gone(core::Outcome::unavailable, "the lease keeper has ended",
                         "it is a process of oncerun's own; see who killed it");
  const std::string number = std::to_string(++m_last_request);
  Message numbered = request;
  numbered.insert(numbered.begin(), number);
  if (!send_message(m_socket.get(), numbered)) {
    throw gone;
  }
  while (true) {
    std::array<pollfd, 2> polled{{{m_socket.get(), POLLIN, 0}, {stop.poll_fd(), POLLIN, 0}}};
    (void)::poll(polled.data(), polled.size(), deadline.poll_timeout());
    if (const int signal = stop.pending(); signal != 0) {
      forget(request);
      throw core::Interrupted(signal);
    }
    if (polled[0].revents != 0) {
      Message answer = receive_message(m_socket.get());
      if (answer.size() < 2) {
        throw gone;
      }
      if (answer.front() == number) { // else it is one that was not waited for
        answer.erase(answer.begin());
        return answer;
      }
    } else if (deadline.passed()) {
      forget(request);
      return std::nullopt;
    }
  }
}

} // namespace oncerun::lock
