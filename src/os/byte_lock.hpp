#pragma once

#include "os/fd.hpp"

#include <cstdint>
#include <string>

namespace oncerun::os {

/// Open file description locks on single bytes (fcntl(2), F_OFD_SETLK). They belong to the open
/// file description: inherited with it, dropped when its last descriptor is closed or when anyone
/// who shares it unlocks, and never by closing another descriptor of the same file.

/// Takes an exclusive lock; false if another description holds one. Throws Error (unwritable).
[[nodiscard]] bool try_lock_byte(int fd, std::int64_t offset, const std::string& path);
/// Unlocks. Never fails in a way that matters: the worst is that closing does it.
void unlock_byte(int fd, std::int64_t offset) noexcept;
/// Whether another description holds the byte. Throws Error (unavailable).
[[nodiscard]] bool is_byte_locked(int fd, std::int64_t offset, const std::string& path);

} // namespace oncerun::os
