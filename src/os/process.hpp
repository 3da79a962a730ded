#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oncerun::os {

// Everything here is a look at /proc: what ends meanwhile or may not be read is passed over, and
// without /proc nothing is found. A pid alone proves nothing a moment later. The two searches that
// prove a death throw Error (unavailable) when they find nobody because /proc could not be read.

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  unsigned long long start_ticks = 0; ///< proc(5), /proc/PID/stat field 22
  char state = '?';                   ///< R, S, D, T, t, Z, …
};

/// One process, from /proc/PID/stat; none if it is gone.
[[nodiscard]] std::optional<Process> find_process(pid_t pid);
/// What /proc/PID/stat says; none if that is no such line. The name between the parentheses may
/// hold anything, so that only the last ')' counts.
[[nodiscard]] std::optional<Process> parse_stat(std::string_view line);

/// The calling thread's children, from /proc/thread-self/children (proc_tid_children(5)); none
/// where the kernel has no such file or it cannot be read.
[[nodiscard]] std::optional<std::vector<pid_t>> own_children();

/// Every process that /proc shows. `error`, where given, becomes the errno if not all of it could
/// be looked at (no descriptors left, an I/O error, no /proc at all): then who is missing proves
/// nothing.
[[nodiscard]] std::vector<Process> list_processes(int* error = nullptr);
/// All descendants of `root`, without it; parents before their children.
[[nodiscard]] std::vector<Process> descendants(pid_t root);
/// The same within a list that was taken before.
[[nodiscard]] std::vector<Process> descendants(pid_t root, const std::vector<Process>& all);

/// Pids whose initial environment has the entry `NAME=VALUE` exactly; those that cannot be read are
/// passed over. Never the calling process.
[[nodiscard]] std::vector<pid_t> processes_with_environment(std::string_view entry);
/// Whether this process's initial environment has it; `complete`, where given, becomes false if
/// that could not be looked at.
[[nodiscard]] bool has_environment(pid_t pid, std::string_view entry, int* error = nullptr);

/// Pids that have a descriptor on this very file (device and inode) whose open file description
/// holds a lock on the byte at `offset` (proc(5), fdinfo "lock:"). Never the calling process.
[[nodiscard]] std::vector<pid_t> processes_holding_byte(dev_t device, ino_t inode,
                                                        long long offset);

/// Inode of /proc/PID/ns/pid; 0 if it cannot be seen.
[[nodiscard]] unsigned long long pid_namespace_of(pid_t pid);

/// "name (pid 123)" for messages, without control characters; "pid 123" if it is gone.
[[nodiscard]] std::string process_label(pid_t pid);

} // namespace oncerun::os
