#pragma once

#include <utility>

namespace oncerun::os {

/// Owns one file descriptor. Every descriptor of oncerun is opened close-on-exec.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : m_fd(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return m_fd; }
  [[nodiscard]] explicit operator bool() const noexcept { return m_fd >= 0; }
  /// Closes; errno stays as it was, so that an error can be reported afterwards.
  void reset() noexcept;
  /// Gives the descriptor away.
  [[nodiscard]] int release() noexcept { return std::exchange(m_fd, -1); }

 private:
  int m_fd = -1;
};

/// Which of the descriptors 0 to 2 were closed when oncerun was started: the command finds them
/// closed again.
struct StandardFds {
  bool closed[3] = {false, false, false};
};

/// Opens /dev/null (close-on-exec) on whichever of the descriptors 0 to 2 are closed, so that no
/// file of ours lands there and nothing that is meant for stderr is written into it. To be called
/// before anything else is opened. Throws Error (unavailable).
[[nodiscard]] StandardFds reserve_standard_fds();

} // namespace oncerun::os
