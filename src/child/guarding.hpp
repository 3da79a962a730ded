#pragma once

#include "child/launch.hpp"
#include "core/lease.hpp"
#include "os/signals.hpp"

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

namespace oncerun::child {

// The guardian's side of guard.hpp.

/// What the guardian tells oncerun, a datagram each. oncerun tells nothing: that the socket ends is
/// enough.
struct GuardMessage {
  enum class Kind : std::uint8_t {
    launching, ///< first of all: from here on the command may have been executed
    launched,  ///< it was, or could not be
    ended,     ///< the command; it stays a zombie, so that its pid goes on meaning it
    changed,   ///< something else of the tree ended
  };
  Kind kind = Kind::launching;
  Launched launched;
  int status = 0;
  rusage usage{};
  bool lost = false; ///< the guardian was ending the tree for the sake of the lease
};

/// The life of the guardian, in a helper process: launches the command, and returns when there is
/// nothing left to guard. It is dismissed by a KILL.
void guard_command(const Command& command, const os::Signals& signals, const core::Lease& lease,
                   std::chrono::milliseconds kill_after, int socket);

} // namespace oncerun::child
