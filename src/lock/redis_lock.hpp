#pragma once

#include "core/lock.hpp"
#include "lock/redis_session.hpp"

#include <memory>

namespace oncerun::lock {

struct RedisLockOptions {
  RedisOptions server;
  core::RunKey run; ///< for what is said and looked at before anything is acquired
  std::string key;  ///< --lock-key; empty: the job's own
  /// Whether it covers the job (else only this date): --lock-scope.
  bool covers_job = true;
  /// --lock-unavailable run: a server that cannot be reached costs the lock, not the run.
  bool run_without = false;
};

/// `--lock redis://…`: one run at a time across hosts. The key is set with `SET … NX PX`, the value
/// is unique to the invocation, and renewing and releasing compare it first
/// (redis.io/docs/manual/patterns/distributed-locks, "Correct implementation with a single
/// instance"). The lock is a lease: HeldLock::lease(). Marks of the runs travel with it.
///
/// acquire() throws Error: unavailable when the server cannot be asked, naming it.
[[nodiscard]] std::unique_ptr<core::Lock> redis_lock(RedisLockOptions options);

/// The keys that a lock on this run uses. `text` of --lock-key replaces the lock's own name; mark
/// and token then follow it. They carry the lock's name as a hash tag, so that a cluster keeps all
/// three on one server (redis.io, cluster specification, "Hash tags").
[[nodiscard]] RedisKeys redis_keys(const core::RunKey& run, bool covers_job,
                                   const std::string& text);

} // namespace oncerun::lock
