#pragma once

#include "lock/redis_session.hpp"
#include "os/fd.hpp"

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace oncerun::lock {

// The lease keeper: a process of ours that does all the talking with the server. It may hang in a
// name lookup, in connecting or in reading; whoever waits for it never does. From acquisition to
// release it renews the lock, but only while oncerun lives and is not stopped.

/// What keeper, oncerun and guardian see of the lock: a page that they share.
struct LeasePage {
  /// CLOCK_BOOTTIME in milliseconds (core::Lease::held_until).
  std::atomic<std::int64_t> held_until{0};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "shared between processes");

/// One message between oncerun and its keeper: a datagram of lines. The first is the request's
/// number, which its answer repeats, the second names it. Requests:
///
///     acquire  VALUE WAIT-MS KEY MARK-KEY TOKEN-KEY   -> acquired MARK TOKEN, held VALUE, failed
///     begin    SEEN-MARK MARK TOKEN                   -> begun, changed, lost, failed
///     release  MARK PENDING-PREFIX OLDER-PREFIX       -> released, lost, failed
///     holder   KEY                                    -> holder VALUE, failed
///     forget                                          (no answer)
///
/// failed: a message, a hint. forget: the last acquisition was not waited for; it is given back.
/// The end of the socket is the end of the keeper: what an answer has told of stays as it is, what
/// was taken without one is given back. A release that failed is tried on, for as long as the lock
/// lives.
using Message = std::vector<std::string>;

/// False when it could not be sent whole.
[[nodiscard]] bool send_message(int socket, const Message& message) noexcept;
/// Empty at the end of the socket.
[[nodiscard]] Message receive_message(int socket);

/// The life of the keeper, until the socket ends. `lost` gets a byte as soon as the lock is lost.
void keep_lease(const RedisOptions& options, pid_t oncerun, int socket, int lost, LeasePage& page);

} // namespace oncerun::lock
