#include "os/file_lock.hpp"

#include "core/error.hpp"
#include "os/byte_lock.hpp"

#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

namespace oncerun::os {

namespace {

// Whoever is interrupted goes to the end of the queue: hundreds that wait must not do that often.
constexpr std::chrono::milliseconds k_first_tick{40};
constexpr std::chrono::milliseconds k_longest_tick{640};
/// Far beyond every file's end, and beyond the bytes of the liveness file (life_bytes.hpp), which
/// the same file may also be. Never written.
constexpr std::int64_t k_mark = (std::int64_t{1} << 62) + 1;

extern "C" void on_tick(int) {
}

/// Interrupts a blocking system call again and again, for as long as it lives. A POSIX timer and
/// not setitimer(2): an interval timer would survive an execve and hit the command. The signal is
/// unblocked only here, so that whoever else waits is never interrupted.
class Ticker {
 public:
  Ticker(const Deadline& deadline, const std::string& path) : m_deadline(deadline) {
    // A fixed number near the end of the range: libraries take theirs from its beginning.
    m_signal = SIGRTMAX - 2;
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, m_signal);
    struct sigaction action {};
    action.sa_handler = on_tick; // without SA_RESTART: the point is to come back with EINTR
    sigemptyset(&action.sa_mask);

    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = m_signal;
    if (timer_create(CLOCK_MONOTONIC, &event, &m_timer) != 0) {
      throw core::system_error(core::Outcome::unavailable, "make a timer to wait for", path, errno);
    }
    sigaction(m_signal, &action, &m_old_action);
    pthread_sigmask(SIG_UNBLOCK, &ours, &m_old_mask);
    set();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  /// After an interruption: the next one may come later.
  void slow_down() noexcept {
    m_tick = std::min(2 * m_tick, k_longest_tick);
    set();
  }
  ~Ticker() {
    // In this order: a last tick that is under way arrives while it is still harmless.
    timer_delete(m_timer);
    pthread_sigmask(SIG_SETMASK, &m_old_mask, nullptr);
    sigaction(m_signal, &m_old_action, nullptr);
  }

 private:
  /// Periodic: a single tick could come before the call that it is to interrupt.
  void set() noexcept {
    // Never zero, which would stop the timer.
    const auto tick = std::max(std::min(m_tick, m_deadline.left()), std::chrono::milliseconds(1));
    const timespec interval{0, static_cast<long>(std::chrono::nanoseconds(tick).count())};
    const itimerspec every{interval, interval};
    timer_settime(m_timer, 0, &every, nullptr);
  }

  const Deadline& m_deadline;
  std::chrono::milliseconds m_tick = k_first_tick;
  int m_signal = 0;
  timer_t m_timer{};
  struct sigaction m_old_action {};
  sigset_t m_old_mask{};
};

/// 0 if taken, else errno.
int flock_once(int fd, int operation) noexcept {
  return flock(fd, operation) == 0 ? 0 : errno;
}

[[noreturn]] void refuse(const std::string& path, int error) {
  throw core::system_error(core::Outcome::unavailable, "lock", path, error,
                           "the file must be on a local file system that supports flock(2)");
}

} // namespace

FileLock lock_file(int fd, const Deadline& deadline, const core::StopRequest& stop,
                   const std::string& path) {
  int error = 0;
  do {
    error = flock_once(fd, LOCK_EX | LOCK_NB);
  } while (error == EINTR);
  if (error == 0) {
    return FileLock::taken;
  }
  if (error != EWOULDBLOCK) {
    refuse(path, error);
  }
  if (deadline.passed()) {
    return FileLock::held_by_other;
  }
  if (stop.pending() != 0) {
    return FileLock::stopped;
  }
  Ticker ticker(deadline, path);
  while (true) {
    error = flock_once(fd, LOCK_EX);
    if (error == 0) {
      return FileLock::taken;
    }
    if (error != EINTR) {
      refuse(path, error);
    }
    if (stop.pending() != 0) {
      return FileLock::stopped;
    }
    if (deadline.passed()) {
      return FileLock::held_by_other;
    }
    ticker.slow_down();
  }
}

bool is_same_file(int fd, const std::string& path) {
  struct stat held {};
  struct stat there {};
  if (fstat(fd, &held) == 0 && stat(path.c_str(), &there) == 0) {
    return held.st_dev == there.st_dev && held.st_ino == there.st_ino;
  }
  if (errno != ENOENT && errno != ENOTDIR) {
    throw core::system_error(core::Outcome::unavailable, "look at", path, errno);
  }
  return false;
}

UniqueFd lock_path(const std::string& path, const std::function<UniqueFd()>& open,
                   const Deadline& deadline, const core::StopRequest& stop) {
  while (true) {
    UniqueFd fd = open();
    switch (lock_file(fd.get(), deadline, stop, path)) {
    case FileLock::held_by_other:
      return UniqueFd();
    case FileLock::stopped:
      throw core::Interrupted(stop.pending());
    case FileLock::taken:
      break;
    }
    if (is_same_file(fd.get(), path)) {
      return fd;
    }
    if (const int signal = stop.pending(); signal != 0) {
      throw core::Interrupted(signal);
    }
  }
}

HeldFlock::HeldFlock(UniqueFd fd, const std::string& path, bool marked)
    : m_fd(std::move(fd)), m_marked(marked && try_lock_byte(m_fd.get(), k_mark, path)) {
}

HeldFlock::~HeldFlock() {
  HeldFlock::release();
}

void HeldFlock::release() noexcept {
  if (!m_fd) {
    return;
  }
  if (m_marked) {
    unlock_byte(m_fd.get(), k_mark);
  }
  while (flock(m_fd.get(), LOCK_UN) != 0 && errno == EINTR) {
  }
  m_fd.reset();
}

bool is_marked_held(int fd, const std::string& path) {
  return is_byte_locked(fd, k_mark, path);
}

} // namespace oncerun::os
