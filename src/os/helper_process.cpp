#include "os/helper_process.hpp"

#include <climits>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace oncerun::os {

void close_all_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  int next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    if (fd > next) {
      (void)::syscall(SYS_close_range, next, fd - 1, 0);
    }
    next = std::max(next, fd + 1);
  }
  (void)::syscall(SYS_close_range, next, INT_MAX, 0);
}

pid_t start_helper(const char* name, const std::function<void()>& body) noexcept {
  const pid_t pid = ::fork();
  if (pid != 0) {
    return pid;
  }
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, name, 0, 0, 0);
  try {
    body();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

void let_go_of_standard_fds() noexcept {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; ++fd) {
    (void)::dup3(null, fd, O_CLOEXEC);
  }
}

} // namespace oncerun::os
