#pragma once

#include "core/lease.hpp"
#include "core/stop.hpp"
#include "lock/redis_keeping.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

#include <chrono>
#include <optional>

namespace oncerun::lock {

/// oncerun's side of its lease keeper: starts it, asks it, and never waits longer than it was told.
class LeaseKeeper final : public core::Lease {
 public:
  /// Forks. Throws Error (unavailable).
  explicit LeaseKeeper(const RedisOptions& options);
  /// The keeper ends when it notices, and is waited for a moment; nothing is given back.
  ~LeaseKeeper() override;

  /// The answer, without the request's number; none when it did not come in time. Throws
  /// Interrupted when a stop was requested. In both cases the keeper is told to give back what it
  /// may have acquired. Throws Error (unavailable) when the keeper is gone.
  [[nodiscard]] std::optional<Message> ask(const Message& request, const os::Deadline& deadline,
                                           const core::StopRequest& stop);

  [[nodiscard]] std::chrono::milliseconds held_until() const noexcept override {
    return std::chrono::milliseconds(m_page->held_until.load());
  }
  [[nodiscard]] int lost_fd() const noexcept override { return m_lost.get(); }
  [[nodiscard]] pid_t keeper() const noexcept override { return m_pid; }

 private:
  void forget(const Message& request);

  LeasePage* m_page;
  pid_t m_pid = -1;
  int m_last_request = 0;
  os::UniqueFd m_socket;
  os::UniqueFd m_lost;
};

} // namespace oncerun::lock
