#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

namespace oncerun::os {

/// Forks a process of our own that does `body` and ends; it never returns here. In it
/// - every signal is blocked that can be, with no handler left: a terminal's ^C and ^Z and an init
///   system's TERM reach all of us and are meant for oncerun alone;
/// - the name is `name`, at most 15 bytes (PR_SET_NAME(2const)).
/// An exception of the body ends it with 1. Returns the pid, or -1 with errno.
[[nodiscard]] pid_t start_helper(const char* name, const std::function<void()>& body) noexcept;

/// For the helper: closes every descriptor but `kept` and 0 to 2. What is open is oncerun's, and a
/// copy of an open file description would keep its locks when oncerun was killed (flock(2),
/// fcntl(2)).
void close_all_but(std::vector<int> kept);

/// For the helper: 0 to 2 become /dev/null, so that whoever reads what the command writes does not
/// wait for the helper's end.
void let_go_of_standard_fds() noexcept;

} // namespace oncerun::os
