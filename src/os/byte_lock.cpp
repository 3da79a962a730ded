#include "os/byte_lock.hpp"

#include "core/error.hpp"

#include <fcntl.h>

#include <cerrno>

namespace oncerun::os {

namespace {

/// fcntl(2) with the lock on one byte; EINTR is never a result. Returns errno, 0 if ok.
int byte_lock_call(int fd, int command, struct flock& lock) noexcept {
  for (;;) {
    if (::fcntl(fd, command, &lock) == 0) {
      return 0;
    }
    if (errno != EINTR) {
      return errno;
    }
  }
}

struct flock one_byte(short type, std::int64_t offset) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  lock.l_pid = 0; // open file description locks want it so
  return lock;
}

} // namespace

bool try_lock_byte(int fd, std::int64_t offset, const std::string& path) {
  struct flock lock = one_byte(F_WRLCK, offset);
  const int error = byte_lock_call(fd, F_OFD_SETLK, lock);
  if (error == EAGAIN || error == EACCES) {
    return false;
  }
  if (error != 0) {
    throw core::system_error(core::Outcome::unwritable, "lock a byte of", path, error);
  }
  return true;
}

void unlock_byte(int fd, std::int64_t offset) noexcept {
  struct flock lock = one_byte(F_UNLCK, offset);
  (void)byte_lock_call(fd, F_OFD_SETLK, lock);
}

bool is_byte_locked(int fd, std::int64_t offset, const std::string& path) {
  struct flock lock = one_byte(F_WRLCK, offset);
  const int error = byte_lock_call(fd, F_OFD_GETLK, lock);
  if (error != 0) {
    throw core::system_error(core::Outcome::unavailable, "look at the locks of", path, error);
  }
  return lock.l_type != F_UNLCK;
}

} // namespace oncerun::os
