#pragma once

#include "core/lock.hpp"

namespace oncerun::run {

/// Whether the process that left the note is proven gone: the same boot and pid namespace, and no
/// such pid. Then the lock is held by what its command left behind. Only for what is said: the lock
/// itself says that it is held.
[[nodiscard]] bool is_gone(const core::LockNote& note);

} // namespace oncerun::run
