#include "os/fd.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

using namespace oncerun;

namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

int open_null() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/// The exit code of `body` in a process of its own.
template<typename Body>
int in_child(const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(body());
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("a descriptor is closed by its last owner and by nobody else") {
  const int number = open_null();
  REQUIRE(number >= 0);
  {
    os::UniqueFd first(number);
    os::UniqueFd second(std::move(first));
    CHECK_FALSE(static_cast<bool>(first));
    CHECK(second.get() == number);
    first = std::move(second);
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));

  os::UniqueFd given(open_null());
  const int released = given.release();
  given.reset();
  CHECK(is_open(released));
  os::UniqueFd target(open_null());
  const int replaced = target.get();
  target = os::UniqueFd(released);
  CHECK_FALSE(is_open(replaced));
  CHECK(target.get() == released);
}

TEST_CASE("closing leaves errno alone") {
  os::UniqueFd fd(open_null());
  ::close(fd.get());
  errno = ENOSPC;
  fd.reset();
  CHECK(errno == ENOSPC);
}

TEST_CASE("closed standard descriptors are reserved") {
  const int code = in_child([] {
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
    const os::StandardFds fds = os::reserve_standard_fds();
    if (!fds.closed[0] || fds.closed[1] || !fds.closed[2]) {
      return 1;
    }
    struct stat null {};
    struct stat reserved {};
    ::stat("/dev/null", &null);
    for (const int fd : {STDIN_FILENO, STDERR_FILENO}) {
      if (::fstat(fd, &reserved) != 0 || reserved.st_rdev != null.st_rdev) {
        return 2;
      }
      if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
        return 3;
      }
    }
    return open_null() > STDERR_FILENO ? 0 : 4;
  });
  CHECK(code == 0);
}

TEST_CASE("open standard descriptors stay as they are") {
  const int code = in_child([] {
    const os::StandardFds fds = os::reserve_standard_fds();
    return !fds.closed[0] && !fds.closed[1] && !fds.closed[2] ? 0 : 1;
  });
  CHECK(code == 0);
}
