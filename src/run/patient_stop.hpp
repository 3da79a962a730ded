#pragma once

#include "core/stop.hpp"
#include "os/clock.hpp"

#include <chrono>
#include <optional>

namespace oncerun::run {

/// A stop request that lets a write that is under way have its turn: a result is worth most of a
/// second even when TERM is waiting, and every wait still ends within a second of it.
class PatientStop final : public core::StopRequest {
 public:
  /// `stop` is not owned.
  explicit PatientStop(const core::StopRequest& stop) : m_stop(stop) {}
  [[nodiscard]] int pending() const noexcept override {
    const int signal = m_stop.pending();
    if (signal != 0 && !m_grace) {
      constexpr std::chrono::milliseconds k_grace{700};
      m_grace = os::Deadline::after(k_grace);
    }
    return signal != 0 && m_grace->passed() ? signal : 0;
  }
  /// None: the signal makes the original readable before the grace is over.
  [[nodiscard]] int poll_fd() const noexcept override { return -1; }

 private:
  const core::StopRequest& m_stop;
  mutable std::optional<os::Deadline> m_grace;
};

} // namespace oncerun::run
