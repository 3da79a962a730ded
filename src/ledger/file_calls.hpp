#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace oncerun::ledger {

// The system calls that SQLite makes for us instead of its own: a signal never is a result, and the
// first fault of a disk or of the kernel is remembered, since SQLite forgets most errno values and
// calls a file damaged that could not be read.

/// Also opens another user's file in a sticky folder, and gives -wal and -shm no new owner where
/// they have him already: see the source.
int open_call(const char* path, int flags, int mode);
int chown_call(int fd, uid_t owner, gid_t group);
int control_call(int fd, int command, ...);
int truncate_call(int fd, off_t size);
ssize_t read_call(int fd, void* buffer, std::size_t size, off_t offset);
ssize_t write_call(int fd, const void* buffer, std::size_t size, off_t offset);
int stat_call(int fd, struct stat* info);

/// A fault that was seen elsewhere, such as that of a sync. Other errors (a missing file, a lock
/// that is held) are no faults and are not remembered.
void note_fault(int error) noexcept;
/// The errno of the first fault since forget_faults(), which stands before each call of SQLite:
/// what an earlier one got over, or failed by, is no reason for what happens now. 0 if there was
/// none.
[[nodiscard]] int first_fault() noexcept;
void forget_faults() noexcept;
/// The one fault that lasts beyond its call: the errno by which a lock could not be released that
/// has not been released since; 0 if there is none. SQLite stumbles over it later, if at all.
[[nodiscard]] int unreleased_lock() noexcept;
/// With the connection that held it.
void forget_unreleased_lock() noexcept;

} // namespace oncerun::ledger
