#pragma once

#include <sys/types.h>

#include <chrono>

namespace oncerun::core {

/// What the holder of a lock that ends by itself has to know, to be gone before it does. Safe to be
/// asked in a forked process as well: both see the same.
class Lease {
 public:
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  virtual ~Lease() = default;
  /// Until when the lock is held for certain, on CLOCK_BOOTTIME since boot: counted from when the
  /// last renewal that was acknowledged was *sent*. Moves on with every renewal.
  [[nodiscard]] virtual std::chrono::milliseconds held_until() const noexcept = 0;
  /// Polls readable (or hung up) as soon as the lock is known to be somebody else's, or nobody
  /// renews it any more; for good, and nothing is to be read from it. Owned by the lease.
  [[nodiscard]] virtual int lost_fd() const noexcept = 0;
  /// The child of ours that renews it, which has no children of its own; -1 if there is none.
  [[nodiscard]] virtual pid_t keeper() const noexcept { return -1; }

 protected:
  Lease() = default;
};

} // namespace oncerun::core
