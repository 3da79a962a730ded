#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace oncerun::os {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  unsigned long long start_ticks = 0; ///< proc(5), /proc/PID/stat field 22
  char state = '?';
};

/// Every process that /proc shows, from /proc/PID/stat (parsed behind the last ')').
[[nodiscard]] std::vector<Process> list_processes();
/// All descendants of `root`, without it.
[[nodiscard]] std::vector<Process> descendants(pid_t root);

/// Pids whose initial environment has the entry `NAME=VALUE` exactly; those that cannot be read are
/// passed over. Never the calling process.
[[nodiscard]] std::vector<pid_t> processes_with_environment(std::string_view entry);

/// Pids that have a descriptor on this very file (device and inode) whose open file description
/// holds a lock on the byte at `offset` (proc(5), fdinfo "lock:"). Never the calling process.
[[nodiscard]] std::vector<pid_t> processes_holding_byte(dev_t device, ino_t inode, long long offset);

/// Inode of /proc/PID/ns/pid; 0 if it cannot be seen.
[[nodiscard]] unsigned long long pid_namespace_of(pid_t pid);

/// "name (pid 123)" for messages; "pid 123" if it is gone.
[[nodiscard]] std::string process_label(pid_t pid);

} // namespace oncerun::os
