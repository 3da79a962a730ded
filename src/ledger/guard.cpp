#include "ledger/guard.hpp"

#include "core/error.hpp"
#include "os/file.hpp"
#include "os/file_lock.hpp"
#include "os/retry.hpp"

#include <sys/file.h>

namespace oncerun::ledger {

Guard::Held::~Held() {
  if (m_fd >= 0) {
    // Explicitly: the descriptor stays open for the next time.
    os::retry([this] { return ::flock(m_fd, LOCK_UN); });
  }
}

Guard::Held Guard::lock(const os::Deadline& deadline, const core::StopRequest& stop) {
  const auto wait = deadline.left();
  for (;;) {
    if (!m_fd) {
      m_fd = os::open_or_create(m_path, m_owner_of);
    }
    switch (os::lock_file(m_fd.get(), deadline, stop, m_path)) {
    case os::FileLock::taken:
      break;
    case os::FileLock::stopped:
      throw core::Interrupted(stop.pending());
    case os::FileLock::held_by_other:
      throw core::Error(core::Outcome::unavailable,
                        m_path + ": locked by another oncerun for " +
                            std::to_string((wait.count() + 500) / 1000) + " s",
                        "see who holds it, for example with `fuser -v " + m_path + "`");
    }
    {
      Held held(m_fd.get()); // let go of if the look fails
      if (os::is_same_file(m_fd.get(), m_path)) {
        return held;
      }
    }
    // Somebody removed or replaced the file: what we hold excludes nobody.
    m_fd.reset();
  }
}

} // namespace oncerun::ledger
