#pragma once

#include "child/supervise.hpp"
#include "os/signals.hpp"

#include <sys/types.h>

#include <cstdint>

namespace oncerun::child {

/// Which descriptors the new process gets beside those that are inherited by name.
enum class Streams : std::uint8_t {
  as_found,  ///< whatever oncerun was started with
  for_check, ///< 0 from /dev/null, 1 is oncerun's 2, 2; nothing else at all
};

/// Whose child it becomes.
enum class Parent : std::uint8_t {
  oncerun,
  guardian, ///< is killed with its parent, as far as that goes (PR_SET_PDEATHSIG(2const))
};

struct Launched {
  pid_t pid = -1;           ///< -1: nothing runs
  int error = 0;            ///< errno of what failed
  bool exec_failed = false; ///< whether that was execve itself
};

/// Starts a process whose parent waits until it has called execve(2), as vfork(2) does: a fork
/// would copy the page tables of everything that is open here. Mask and dispositions are the
/// original ones.
[[nodiscard]] Launched launch(const Command& command, const os::Signals& signals, Streams streams,
                              Parent parent = Parent::oncerun);

} // namespace oncerun::child
