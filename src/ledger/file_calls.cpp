#include "ledger/file_calls.hpp"

#include "os/retry.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

namespace oncerun::ledger {

namespace {

int g_fault = 0;

/// A range of a file whose lock could not be given back: SQLite still counts it as held, and may
/// find itself in its own way at any later time, without a system call that fails.
struct Unreleased {
  int error = 0;
  int fd = -1;
  off_t begin = 0;
  off_t size = 0; ///< 0: to the end of the file
};
Unreleased g_unreleased;

bool is_fault(int error) noexcept {
  return error == EIO || error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE ||
         error == ENOMEM || error == ENOLCK;
}

bool covers(const struct flock& whole, const Unreleased& part) noexcept {
  const bool to_the_end = whole.l_len == 0;
  return whole.l_start <= part.begin &&
         (to_the_end || (part.size != 0 && part.begin + part.size <= whole.l_start + whole.l_len));
}

void remember_release(int fd, const struct flock& lock, int error) noexcept {
  if (error == 0 && g_unreleased.fd == fd && covers(lock, g_unreleased)) {
    g_unreleased = {};
  } else if (is_fault(error) && g_unreleased.error == 0) {
    g_unreleased = {error, fd, lock.l_start, lock.l_len};
  }
}

/// Calls until no signal interrupts it, and remembers a fault.
template<typename Call>
auto careful(const Call& call) noexcept {
  const auto result = os::retry(call);
  if (result < 0) {
    note_fault(errno);
  }
  return result;
}

} // namespace

void note_fault(int error) noexcept {
  if (is_fault(error) && g_fault == 0) {
    g_fault = error;
  }
}

int first_fault() noexcept {
  return g_fault;
}

void forget_faults() noexcept {
  g_fault = 0;
}

int unreleased_lock() noexcept {
  return g_unreleased.error;
}

void forget_unreleased_lock() noexcept {
  g_unreleased = {};
}

/// fs.protected_regular (proc_sys_fs(5)) refuses O_CREAT on another user's existing file in a
/// sticky folder, even to root; without O_CREAT the same file opens.
int open_call(const char* path, int flags, int mode) {
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) == 0) {
    const int fd = careful([&] { return ::open(path, flags & ~O_CREAT); });
    if (fd >= 0 || errno != ENOENT) {
      return fd;
    }
  }
  return careful([&] { return ::open(path, flags, mode); });
}

/// As root SQLite gives -wal and -shm to the database's owner at each open. Where they are his
/// already, the call would still change their inodes, and a look must change nothing.
int chown_call(int fd, uid_t owner, gid_t group) {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && info.st_uid == owner && info.st_gid == group) {
    return 0;
  }
  return ::fchown(fd, owner, group);
}

int control_call(int fd, int command, ...) {
  // Every command of SQLite's takes a pointer or a number of no more than its size.
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const int result = careful([&] { return ::fcntl(fd, command, argument); });
  if (command == F_SETLK || command == F_SETLKW) {
    const auto& lock = *static_cast<const struct flock*>(argument);
    if (lock.l_type == F_UNLCK) {
      remember_release(fd, lock, result < 0 ? errno : 0);
    }
  }
  return result;
}

int truncate_call(int fd, off_t size) {
  return careful([&] { return ::ftruncate(fd, size); });
}

ssize_t read_call(int fd, void* buffer, std::size_t size, off_t offset) {
  return careful([&] { return ::pread(fd, buffer, size, offset); });
}

ssize_t write_call(int fd, const void* buffer, std::size_t size, off_t offset) {
  return careful([&] { return ::pwrite(fd, buffer, size, offset); });
}

int stat_call(int fd, struct stat* info) {
  return careful([&] { return ::fstat(fd, info); });
}

} // namespace oncerun::ledger
