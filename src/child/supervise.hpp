#pragma once

#include "core/decide.hpp"
#include "core/ending.hpp"
#include "core/lease.hpp"
#include "os/fd.hpp"
#include "os/signals.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace oncerun::child {

/// A command and what it starts with. Everything that is not named here is as oncerun found it:
/// working directory, umask, terminal, process group, signal mask and dispositions.
struct Command {
  /// Never empty; argv[0] is searched in PATH of `environment`, as execvp(3) does.
  std::vector<std::string> argv;
  std::vector<std::string> environment; ///< "NAME=VALUE"
  std::vector<int> inherited_fds;       ///< passed on at the highest free numbers below 1024
  os::StandardFds standard_fds;         ///< those that were closed are closed again
};

struct Limits {
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds kill_after{10'000};
  /// Of the lock under which it runs; nullptr for one that has no end of its own. Not owned.
  const core::Lease* lease = nullptr;
  core::ExitCodes unknown_exit; ///< decides whether a normal exit still is cut short
};

/// Starts the command, passes signals on, keeps the limits, reaps, and after a cut-short end ends
/// the rest of the tree: TERM, KILL after `kill_after`. Makes oncerun a child subreaper.
///
/// TERM, INT, HUP, QUIT, USR1, USR2, WINCH and CONT are passed on to the command, once: not those
/// that a terminal sends to the whole process group, nor those that the tree itself sent. A TERM or
/// QUIT from outside starts the clock of `kill_after` for the whole tree; INT and HUP never do.
/// What was in the queue before the start is not passed on, since the command cannot have set up
/// its handlers yet; a stop request among it (taken off the queue) starts nothing.
///
/// `when_running` is called once after execve succeeded, `when_waiting` once when the command still
/// runs a moment later; neither must throw. Never throws for what
/// the command does; throws Error (unavailable) only when the machine refuses what supervising
/// needs before anything was started. Of a tree that KILL does not end within 5 s (an
/// uninterruptible wait, a foreign uid) Ending::tree_left tells; the command itself may then be
/// part of it, with neither exit code nor signal.
[[nodiscard]] core::Ending supervise(const Command& command, const Limits& limits,
                                     os::Signals& signals,
                                     const std::function<void()>& when_running,
                                     const std::function<void()>& when_waiting = {});

struct CheckResult {
  core::CheckAnswer answer = core::CheckAnswer::unclear;
  std::string detail; ///< "exit 10", "killed by signal 9 (KILL)", "timed out after 60 s", …
};

struct Check {
  std::string command; ///< for /bin/sh -c
  std::vector<std::string> environment;
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds kill_after{10'000};
  int absent_code = 10;
  int present_code = 0;
  const core::Lease* lease = nullptr; ///< as in Limits
};

/// Runs the check: stdin from /dev/null, stdout to stderr, no other descriptor, original mask and
/// dispositions. At its timeout its whole tree is ended, and nothing else: neither children that
/// oncerun had before nor daemons of the command. Throws Interrupted within a second of a stop
/// request, which is then taken off the queue; the check's tree is killed.
[[nodiscard]] CheckResult ask(const Check& check, os::Signals& signals);

/// The pids that belong to what is to be ended, as seen right now; empty once all are gone. Asked
/// again after a descriptor on each process was opened and right before each round of signals, so
/// that a pid which meanwhile means another process is never hit.
using StillThere = std::function<std::vector<pid_t>()>;

/// Ends processes that are not ours (of an orphaned tree): TERM through a pidfd, KILL after
/// `kill_after`; a process that turns up later gets the same. Returns whether all are gone, at the
/// latest a second after `kill_after`, and at once when a stop is requested.
[[nodiscard]] bool end_processes(const StillThere& still_there,
                                 std::chrono::milliseconds kill_after,
                                 const core::StopRequest& stop);

/// The same with TERM only (the owner of a lock, which ends its tree itself): gives up after
/// `limit`.
[[nodiscard]] bool ask_processes_to_end(const StillThere& still_there,
                                        std::chrono::milliseconds limit,
                                        const core::StopRequest& stop);

} // namespace oncerun::child
