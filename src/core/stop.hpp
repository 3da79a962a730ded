#pragma once

namespace oncerun::core {

/// Tells the waits of a start (lock, guard, SQLite, check, retry) that a signal asked oncerun to
/// stop. Looking consumes nothing: the signal stays queued for whoever reads it in the end.
class StopRequest {
 public:
  virtual ~StopRequest() = default;
  /// The number of a pending TERM, INT or QUIT (HUP too, unless it is ignored); 0 for none.
  [[nodiscard]] virtual int pending() const noexcept = 0;
  /// A descriptor that polls readable when a signal arrived; -1 where there is none.
  [[nodiscard]] virtual int poll_fd() const noexcept = 0;
};

/// For callers that no signal may interrupt, and for tests.
class NoStopRequest final : public StopRequest {
 public:
  [[nodiscard]] int pending() const noexcept override { return 0; }
  [[nodiscard]] int poll_fd() const noexcept override { return -1; }
};

} // namespace oncerun::core
