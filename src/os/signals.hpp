#pragma once

#include "core/stop.hpp"
#include "os/fd.hpp"

#include <array>
#include <optional>

#include <signal.h>
#include <sys/signalfd.h>

namespace oncerun::os {

/// Signals as data: blocked before anything else and read from a signalfd. Remembers the mask and
/// the dispositions that oncerun was started with, which the command gets back.
class Signals final : public core::StopRequest {
public:
  /// Blocks TERM, INT, HUP, QUIT, USR1, USR2, WINCH, CONT, CHLD and PIPE-like ones that must not kill
  /// oncerun; gives CHLD its default disposition (a parent may have ignored it, and then children
  /// are not reaped). A HUP, INT or QUIT that is ignored stays ignored (nohup, cron).
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int pending() const noexcept override;
  [[nodiscard]] int poll_fd() const noexcept override { return m_fd.get(); }
  /// Takes one signal off the queue; none if it is empty.
  [[nodiscard]] std::optional<signalfd_siginfo> read() noexcept;

  [[nodiscard]] const sigset_t& original_mask() const noexcept { return m_original_mask; }
  /// Whether `signal` was ignored when oncerun was started.
  [[nodiscard]] bool was_ignored(int signal) const noexcept;

private:
  UniqueFd m_fd;
  sigset_t m_original_mask{};
  sigset_t m_originally_ignored{};
};

} // namespace oncerun::os
