#pragma once

#include "os/process.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace oncerun::child {

/// Which processes belong to what was started: every descendant of oncerun, which is their
/// subreaper, except those that it had before (a shell that has background jobs and then executes
/// oncerun bequeaths them; after --check-after there are the command's daemons).
class Tree {
 public:
  /// To be made right before the start. `marker` is an entry of the environment ("NAME=VALUE") that
  /// only what was started has; "" if there is none. It tells an orphan of the tree from one that a
  /// stranger left to us, and is looked at only where there are strangers.
  /// `helper` is a child of ours that never has children; -1 for none. Throws Error (unavailable)
  /// if this process cannot become a subreaper.
  explicit Tree(std::string marker, pid_t helper = -1);

  /// Call once, when it runs.
  void set_command(pid_t pid) noexcept { m_command = pid; }
  /// A process of ours below which the tree is, or this very one; not of the tree itself. The
  /// command then stays a zombie when it has ended, and is passed over as one.
  void set_guardian(pid_t pid) noexcept { m_guardian = pid; }
  /// Whether oncerun had children before, or has the guardian: then "no child is left" cannot be
  /// waited for.
  [[nodiscard]] bool has_strangers() const noexcept { return m_has_strangers || m_guardian > 0; }
  /// Everything of the tree that /proc shows now, zombies included. `error` as for
  /// os::list_processes.
  [[nodiscard]] std::vector<os::Process> members(int* error = nullptr) const;
  /// Whether nothing of it is left: seen twice, since one that is handed to another parent during a
  /// look can be missed by it, and never concluded from a look that failed.
  [[nodiscard]] bool is_empty() const;
  /// Whether this process is of the tree; false if it is gone.
  [[nodiscard]] bool contains(pid_t pid) const;
  /// TERM for every member that is there now, and CONT, since a stopped process acts on TERM only
  /// when it goes on.
  void ask_to_end() const;
  /// KILL for every member that is there now.
  void kill() const;

 private:
  [[nodiscard]] bool is_stranger(const os::Process& process, int* error = nullptr) const;

  [[nodiscard]] std::vector<os::Process> strangers() const;

  std::string m_marker;
  std::vector<os::Process> m_strangers; ///< sorted by pid
  bool m_has_strangers = false;
  bool m_may_inherit = false; ///< orphans of a stranger
  pid_t m_self;
  pid_t m_command = -1;
  pid_t m_guardian = -1;
};

} // namespace oncerun::child
