#pragma once

#include <chrono>
#include <string>

namespace oncerun::os {

/// CLOCK_REALTIME.
[[nodiscard]] std::chrono::sys_time<std::chrono::milliseconds> now() noexcept;
/// "2026-10-26T18:00:00.123Z", the form of every instant in the ledger.
[[nodiscard]] std::string now_text();

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

} // namespace oncerun::os
