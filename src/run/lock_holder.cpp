#include "run/lock_holder.hpp"

#include "os/host.hpp"

#include <signal.h>

#include <cerrno>

namespace oncerun::run {

bool is_gone(const core::LockNote& note) {
  const core::OwnerIdentity self = os::this_process();
  const bool visible = !note.boot_id.empty() && note.boot_id == self.boot_id &&
                       note.pid_namespace != 0 && note.pid_namespace == self.pid_namespace;
  return visible && note.pid > 0 && ::kill(note.pid, 0) != 0 && errno == ESRCH;
}

} // namespace oncerun::run
