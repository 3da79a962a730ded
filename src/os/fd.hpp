#pragma once

#include <string>
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
  void reset() noexcept;
  /// Gives the descriptor away.
  [[nodiscard]] int release() noexcept { return std::exchange(m_fd, -1); }

private:
  int m_fd = -1;
};

/// Opens /dev/null on whichever of the descriptors 0 to 2 are closed, so that no file of ours lands
/// there; `std_fds_closed` remembers which, so that the command finds them closed again.
struct StandardFds {
  bool closed[3] = {false, false, false};
};
[[nodiscard]] StandardFds reserve_standard_fds();

} // namespace oncerun::os
