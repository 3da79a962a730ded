#pragma once

#include "core/stop.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

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
/// replaced file excludes nobody.
[[nodiscard]] bool is_same_file(int fd, const std::string& path) noexcept;

} // namespace oncerun::os
