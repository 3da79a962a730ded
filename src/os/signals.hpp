#pragma once

#include "core/stop.hpp"
#include "os/fd.hpp"

#include <signal.h>
#include <sys/signalfd.h>

#include <optional>

namespace oncerun::os {

/// Signals as data: blocked before anything else and read from a signalfd. Remembers the mask and
/// the dispositions that oncerun was started with, which the command gets back. At most one object
/// a process; what it changed stays changed until the process ends, since a signal that came late
/// must not kill oncerun on its way out.
class Signals final : public core::StopRequest {
 public:
  /// Blocks TERM, INT, HUP, QUIT, USR1, USR2, WINCH, CONT and CHLD, which can be read here, and
  /// PIPE and XFSZ, which must not kill oncerun (a write then fails with EPIPE or EFBIG). TSTP,
  /// TTIN and TTOU stay as they are: they stop oncerun together with its process group. CHLD gets
  /// its default disposition: a parent may have ignored it, and then ended children vanish unseen
  /// (wait(2), NOTES). A HUP, INT or QUIT that is ignored stays ignored (nohup, cron). Throws Error
  /// (unavailable).
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int pending() const noexcept override;
  /// Readable while pending() is not 0, and for no other signal: a wait that polls it never spins.
  [[nodiscard]] int poll_fd() const noexcept override { return m_stop_fd.get(); }
  /// Readable while read() has something to give.
  [[nodiscard]] int read_fd() const noexcept { return m_fd.get(); }
  /// Takes one signal off the queue; none if it is empty.
  [[nodiscard]] std::optional<signalfd_siginfo> read() noexcept;

  [[nodiscard]] const sigset_t& original_mask() const noexcept { return m_original_mask; }
  /// Whether `signal` was ignored when oncerun was started.
  [[nodiscard]] bool was_ignored(int signal) const noexcept;
  /// Whether `signal` asks oncerun to stop: TERM always, INT, QUIT and HUP unless ignored.
  [[nodiscard]] bool is_stop(int signal) const noexcept;

 private:
  UniqueFd m_fd;
  UniqueFd m_stop_fd;
  sigset_t m_original_mask{};
  sigset_t m_stop{};
  bool m_chld_ignored = false;
};

} // namespace oncerun::os
