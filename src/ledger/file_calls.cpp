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
  const bool fault = error == EIO || error == ENOSPC || error == EDQUOT || error == EMFILE ||
                     error == ENFILE || error == ENOMEM || error == ENOLCK;
  if (fault && g_fault == 0) {
    g_fault = error;
  }
}

int first_fault() noexcept {
  return g_fault;
}

void forget_faults() noexcept {
  g_fault = 0;
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
  return careful([&] { return ::fcntl(fd, command, argument); });
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
