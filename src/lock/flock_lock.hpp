#pragma once

#include "core/lock.hpp"
#include "core/names.hpp"
#include "core/records.hpp"

#include <memory>
#include <string>

namespace oncerun::lock {

// Locks on one host, by flock(2). The descriptor is handed to the command, and with it the open
// file description that holds the lock: an orphaned command keeps its job locked. A normal end
// releases it explicitly, whatever the command left behind. No lock file is ever unlinked, and a
// file that somebody else deleted or replaced is opened and locked anew.

/// `--lock flock`: a file of the job's own in `folder` (made on demand, mode 0700), named by hash,
/// with a note in it of who holds it: that is believed only while the lock is held. When root makes
/// folder or file, they get the owner of the file at `owner_of` (the ledger), if it exists.
/// acquire() throws Error: unwritable, naming file and owner; config for a planted symbolic link.
[[nodiscard]] std::unique_ptr<core::Lock> job_flock(std::string folder, std::string owner_of,
                                                    core::JobName job);

/// `--lock flock:PATH`: interoperable with flock(1), on an existing file or folder, also one that
/// may only be read, else on a file made with mode 0600. Never written to, so it has no note.
/// is_held() looks in /proc/locks, the only passive way: a holder in another pid namespace may be
/// hidden there and then reads as not held.
[[nodiscard]] std::unique_ptr<core::Lock> path_flock(std::string path);

/// `--lock none`: always acquired, keeps nobody out.
[[nodiscard]] std::unique_ptr<core::Lock> no_lock();

} // namespace oncerun::lock
