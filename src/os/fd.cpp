#include "os/fd.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace oncerun::os {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    m_fd = std::exchange(other.m_fd, -1);
  }
  return *this;
}

void UniqueFd::reset() noexcept {
  if (m_fd >= 0) {
    const int saved = errno;
    // Not repeated after EINTR: Linux has released the number by then (close(2), "Dealing with
    // error returns"), and a second close could hit somebody else's descriptor.
    ::close(std::exchange(m_fd, -1));
    errno = saved;
  }
}

StandardFds reserve_standard_fds() {
  StandardFds fds;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
      continue;
    }
    // The lowest free number is `fd`, since those below it are open by now.
    int opened = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (opened < 0) {
      // A root folder without /dev: anything that is not one of our files will do.
      opened = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (opened < 0) {
      throw core::system_error(core::Outcome::unavailable, "open", "/dev/null", errno);
    }
    fds.closed[fd] = true;
  }
  return fds;
}

} // namespace oncerun::os
