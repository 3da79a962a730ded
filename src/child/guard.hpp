#pragma once

#include "child/launch.hpp"
#include "core/lease.hpp"
#include "os/fd.hpp"
#include "os/signals.hpp"

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <optional>

namespace oncerun::child {

/// A command that runs under a lease, below a small process of ours, its guardian: whatever happens
/// to oncerun, the command's tree is gone before the lease ends. The guardian is its parent and
/// subreaper (PR_SET_CHILD_SUBREAPER(2const)), so that nothing of the tree gets out of its reach;
/// PDEATHSIG alone would reach the command only, and not one that is set-user-ID.
///
/// The guardian ends the tree, TERM first and KILL at the latest half a `kill_after` before the
/// lease ends, when
/// - oncerun is gone,
/// - the lease nears its end though oncerun should have acted (it is stopped, or stuck),
/// - the lease is lost and oncerun does not act on it.
/// What it cannot do: go on while the whole machine is paused, end what it may not signal, or what
/// waits uninterruptibly, or undo what was begun on another machine.
class Guard {
 public:
  /// What the guardian told.
  struct News {
    struct End {
      int status = 0; ///< as of waitpid(2)
      rusage usage{};
      bool lost = false; ///< the guardian was ending it, for the sake of the lease
    };
    std::optional<End> ended; ///< the command, once
    bool gone = false;        ///< the guardian itself: what it guarded is our own child now
  };

  /// Forks, and returns when the command has been executed or could not be. Nothing is owned of the
  /// arguments. Throws Error (unavailable) when there can be no guardian; nothing runs then.
  Guard(const Command& command, const os::Signals& signals, const core::Lease& lease,
        std::chrono::milliseconds kill_after);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  /// Dismisses it: what is left of the tree lives on, as our own children.
  ~Guard();

  [[nodiscard]] const Launched& launched() const noexcept { return m_launched; }
  /// The guardian was killed while it launched: the command may have been executed, and what is
  /// left of it is our own child now.
  [[nodiscard]] bool is_in_doubt() const noexcept { return m_in_doubt; }
  [[nodiscard]] pid_t pid() const noexcept { return m_pid; }
  /// Polls readable when there is news: also that something below the guardian ended.
  [[nodiscard]] int fd() const noexcept { return m_socket.get(); }
  /// Takes all news; never waits.
  [[nodiscard]] News read() noexcept;

 private:
  os::UniqueFd m_socket;
  pid_t m_pid = -1;
  Launched m_launched;
  bool m_in_doubt = false;
};

} // namespace oncerun::child
