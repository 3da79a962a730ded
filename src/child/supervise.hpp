#pragma once

#include "core/decide.hpp"
#include "core/ending.hpp"
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
  std::vector<std::string> argv; ///< argv[0] is searched in PATH of `environment`, as execvp does
  std::vector<std::string> environment; ///< "NAME=VALUE"
  std::vector<int> inherited_fds; ///< passed on at the highest free numbers below 1024
  os::StandardFds standard_fds;   ///< those that were closed are closed again
};

struct Limits {
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds kill_after{10'000};
  core::ExitCodes unknown_exit; ///< decides whether a normal exit still is cut short
};

/// Starts the command, passes signals on, keeps the limits, reaps, and after a cut-short end ends
/// the rest of the tree. `when_running` is called once after execve succeeded. A stop request that
/// came before the start starts nothing. Never throws for what the command does; throws Error
/// (unavailable) only when the machine refuses what supervising needs before anything was started.
[[nodiscard]] core::Ending supervise(const Command& command, const Limits& limits,
                                     os::Signals& signals,
                                     const std::function<void()>& when_running);

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
};

/// Runs the check: stdin from /dev/null, stdout to stderr, no descriptor of ours, its whole tree
/// ended at a timeout. Throws Interrupted within a second of a stop request (its tree is killed).
[[nodiscard]] CheckResult ask(const Check& check, os::Signals& signals);

/// Ends the given processes (of an orphaned tree, or of a lock's owner): TERM through a pidfd,
/// KILL after `kill_after`; `still_there` says whether a pid still belongs to what is to be ended
/// and is asked right before each signal. Returns whether all are gone.
[[nodiscard]] bool end_processes(const std::function<std::vector<pid_t>()>& still_there,
                                 std::chrono::milliseconds kill_after,
                                 const core::StopRequest& stop);

} // namespace oncerun::child
