#pragma once

#include "core/lock.hpp"
#include "core/stop.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

#include <functional>
#include <string>

namespace oncerun::os {

enum class FileLock { taken, held_by_other, stopped };

/// flock(2), exclusive, interoperable with flock(1). Waits in the kernel's queue until `deadline`,
/// so that a stampede is served without polling, and still ends within 50 ms of a stop request:
/// while it waits, a timer interrupts the call and the stop request is looked at (a waiter rejoins
/// the queue at its end then: the order is near to that of arrival, not exactly it). A deadline
/// that has passed means one try. A free lock is taken by one system call, even when a stop was
/// requested. Throws Error (unavailable).
[[nodiscard]] FileLock lock_file(int fd, const Deadline& deadline, const core::StopRequest& stop,
                                 const std::string& path);

/// Whether `fd` still is the file at `path` (fstat and stat agree): a lock on an unlinked or
/// replaced file excludes nobody. Throws Error (unavailable) when that cannot be seen.
[[nodiscard]] bool is_same_file(int fd, const std::string& path);

/// The descriptor on which the lock of the file at `path` is held now; empty when somebody else
/// holds it. Opens with `open`, locks, and begins anew when the file was deleted or replaced
/// meanwhile. Throws Error as lock_file and `open` do, Interrupted when a stop was requested.
[[nodiscard]] UniqueFd lock_path(const std::string& path, const std::function<UniqueFd()>& open,
                                 const Deadline& deadline, const core::StopRequest& stop);

/// A lock of lock_path, held. Released explicitly by flock(LOCK_UN), which also takes it from
/// processes that inherited the descriptor; a process that dies by SIGKILL leaves it with them.
class HeldFlock : public core::HeldLock {
 public:
  /// `marked`: also says "held" in the way that is_marked_held() sees; needs a descriptor open for
  /// writing.
  HeldFlock(UniqueFd fd, const std::string& path, bool marked);
  ~HeldFlock() override;

  [[nodiscard]] int inherited_fd() const noexcept override { return m_fd.get(); }
  [[nodiscard]] bool covers_job() const noexcept override { return true; }
  void release() noexcept override;

 private:
  UniqueFd m_fd;
  bool m_marked;
};

/// Whether a marked HeldFlock of this very file exists. flock(2) has no call that only looks, and a
/// try would make a competitor lose; therefore a byte of the same open file description is locked
/// beside it, which fcntl(2) can test. Throws Error (unavailable).
[[nodiscard]] bool is_marked_held(int fd, const std::string& path);

} // namespace oncerun::os
