#pragma once

#include "core/lease.hpp"
#include "core/names.hpp"
#include "core/run_mark.hpp"
#include "core/stop.hpp"

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace oncerun::core {

/// Proof that the lock is held. Released by release() or, when forgotten, by the destructor; a
/// process that the command left behind does not keep it (release unlocks explicitly).
class HeldLock {
 public:
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  virtual ~HeldLock() = default;
  /// The descriptor that the command inherits, so that an orphaned command keeps its job locked;
  /// -1 if there is none. Owned by the lock.
  [[nodiscard]] virtual int inherited_fd() const noexcept = 0;
  /// Whether it keeps other dates of the job out.
  [[nodiscard]] virtual bool covers_job() const noexcept = 0;
  /// The id of the first attempt under this lock, where its holder is known by that; else empty.
  [[nodiscard]] virtual std::string run_id() const { return {}; }
  /// A fencing token that came with the lock, above all that were used under it before; 0: none.
  [[nodiscard]] virtual Token token() const noexcept { return {}; }
  /// What had been left beside the lock about this run before it was taken.
  [[nodiscard]] virtual std::optional<RunMark> found_mark() const { return std::nullopt; }
  /// Lets other hosts know of an attempt that was claimed and is about to start. Throws Error
  /// (unavailable) when that cannot be done or the lock is not held any more, Interrupted.
  virtual void begin_attempt(const RunMark& /*pending*/, const StopRequest& /*stop*/) {}
  /// What release() leaves about this run; unless called, what stood there before.
  virtual void leave_mark(const RunMark& /*mark*/) {}
  /// Why this is no lock at all (--lock-unavailable run); empty for one that is.
  [[nodiscard]] virtual std::string missing_because() const { return {}; }
  /// For a lock that ends by itself; nullptr for one that is held until it is released. Owned.
  [[nodiscard]] virtual const Lease* lease() const noexcept { return nullptr; }
  virtual void release() noexcept = 0;

 protected:
  HeldLock() = default;
};

/// What a loser may learn about who holds the lock, from a note in our own lock file or the value
/// of a lock on a server.
struct LockNote {
  std::string job;
  std::string date;
  std::string host;
  std::string since; ///< UTC, ISO 8601
  std::string machine_id;
  std::string boot_id;
  std::uint64_t pid_namespace = 0;
  pid_t pid = 0;
  std::string run_id = {}; ///< of its first attempt; empty in a lock file
};

class Lock {
 public:
  virtual ~Lock() = default;
  /// Tries once, or waits up to `wait`; nullptr if it is held. Throws Error (unwritable,
  /// unavailable) when it cannot be tried at all, Interrupted when a stop was requested.
  [[nodiscard]] virtual std::unique_ptr<HeldLock>
  acquire(const RunKey& run, std::chrono::milliseconds wait, const StopRequest& stop) = 0;
  /// Whether somebody holds it right now; takes nothing that could make another loser.
  /// Used by --explain and status only.
  [[nodiscard]] virtual bool is_held() = 0;
  /// Who holds it, if our own lock file says so.
  [[nodiscard]] virtual std::optional<LockNote> holder() = 0;
  /// "flock /path/to/file", for messages; no secret.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Lines that a person should see and that stopped nothing; each is handed out once.
  [[nodiscard]] virtual std::vector<std::string> take_notices() { return {}; }
};

} // namespace oncerun::core
