#pragma once

#include "os/fd.hpp"

#include <chrono>
#include <string>

namespace oncerun::os {

/// CLOCK_REALTIME.
[[nodiscard]] std::chrono::sys_time<std::chrono::milliseconds> now() noexcept;
/// "2026-10-26T18:00:00.123Z", the form of every instant in the ledger.
[[nodiscard]] std::string now_text();

/// CLOCK_BOOTTIME since boot: goes on while the machine sleeps, and never steps.
[[nodiscard]] std::chrono::milliseconds boot_time() noexcept;

/// A point on CLOCK_MONOTONIC: waits and limits never see a step of the wall clock.
class Deadline {
 public:
  [[nodiscard]] static Deadline after(std::chrono::milliseconds duration) noexcept;
  [[nodiscard]] static Deadline never() noexcept;
  /// Never negative; milliseconds::max() for never().
  [[nodiscard]] std::chrono::milliseconds left() const noexcept;
  [[nodiscard]] bool passed() const noexcept { return left() == std::chrono::milliseconds::zero(); }
  /// What poll(2) takes: -1 for never(), rounded up, capped.
  [[nodiscard]] int poll_timeout() const noexcept;

 private:
  std::chrono::steady_clock::time_point m_at{};
  bool m_never = false;
};

/// A timer on CLOCK_BOOTTIME that can be polled: it also fires when the machine wakes up after the
/// moment has passed (timerfd_create(2)).
class BootTimer {
 public:
  /// Throws Error (unavailable).
  BootTimer();
  /// Polls readable from `at` (see boot_time()) on, until it is set anew.
  void set(std::chrono::milliseconds at) const noexcept;
  [[nodiscard]] int fd() const noexcept { return m_fd.get(); }

 private:
  UniqueFd m_fd;
};

} // namespace oncerun::os
