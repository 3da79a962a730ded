#pragma once

#include "core/stop.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

#include <string>

namespace oncerun::ledger {

/// The one small lock of our own around each write transaction (design, section 7): it queues a
/// stampede in the kernel, and keeps SQLite before 3.51.3 from a checkpoint beside a WAL reset.
/// A file of its own, close-on-exec, never unlinked.
class Guard {
 public:
  /// Held until it goes out of scope.
  class Held {
   public:
    Held(Held&& other) noexcept : m_fd(other.m_fd) { other.m_fd = -1; }
    Held& operator=(Held&&) = delete;
    ~Held();

   private:
    friend class Guard;
    explicit Held(int fd) noexcept : m_fd(fd) {}
    int m_fd; ///< the guard's
  };

  /// `owner_of`: the ledger, whose owner a new file gets when root makes it.
  Guard(std::string path, std::string owner_of)
      : m_path(std::move(path)), m_owner_of(std::move(owner_of)) {}

  /// Throws Error (unwritable when the file cannot be opened, unavailable when it stays held until
  /// `deadline`), Interrupted.
  [[nodiscard]] Held lock(const os::Deadline& deadline, const core::StopRequest& stop);

 private:
  std::string m_path;
  std::string m_owner_of;
  os::UniqueFd m_fd;
};

} // namespace oncerun::ledger
