#pragma once

#include "core/error.hpp"
#include "os/fd.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace oncerun::os {

/// The whole file; nullopt if it does not exist. Throws Error (unavailable) for anything else, and
/// Error (config) for what is no regular file or larger than `max_bytes`.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path,
                                                   std::size_t max_bytes = 1U << 20);

/// Writes all of `data` at `offset`; EINTR and short writes change nothing. Returns errno, 0 if ok.
[[nodiscard]] int write_at(int fd, std::string_view data, off_t offset) noexcept;

/// Makes `path` and its missing parents with mode 0700. Throws Error (unwritable).
void make_directories(const std::string& path);

/// The directory part of a path: "." for a bare name.
[[nodiscard]] std::string parent_of(const std::string& path);

/// The path with symbolic links resolved; of a file that does not exist yet (also behind a dangling
/// link), its parent's real path with the last component, and so on upwards. Throws Error
/// (unavailable).
[[nodiscard]] std::string real_path(const std::string& path);

/// Refuses (config) a path whose last component is a symbolic link that belongs to neither us nor
/// root: another user could have planted it.
void refuse_planted_link(const std::string& path);

/// Refuses (config) a file or its folder on a network file system, from statfs(2)'s type and, for
/// FUSE, mountinfo's name, with a pointer to PostgreSQL.
void refuse_network_file_system(const std::string& path);
/// The name if `type` (statfs f_type) and `fuse_name` (e.g. "fuse.sshfs") mean a network file
/// system.
[[nodiscard]] std::optional<std::string> network_file_system(long type, std::string_view fuse_name);

/// Whether the file itself is a mount point (statx(2), STATX_ATTR_MOUNT_ROOT): rename over it gives
/// EBUSY, and a file made beside it is not beside it on the host.
[[nodiscard]] bool is_mount_point(const std::string& path);

/// Opens read-write without O_CREAT first, so that fs.protected_regular (proc_sys_fs(5)) does not
/// refuse another user's existing file; makes it with mode 0600 if it is missing (`created` says
/// so). When root makes it, it gets the owner of `owner_of` (a path; empty: keep). Close-on-exec,
/// O_NOFOLLOW. Throws Error (unwritable) that names file and owner.
[[nodiscard]] UniqueFd open_or_create(const std::string& path, const std::string& owner_of,
                                      bool* created = nullptr);

/// "owned by root (uid 0), mode 0600", or "" if it cannot be seen; for messages.
[[nodiscard]] std::string ownership(const std::string& path);

/// system_error (unwritable) with the owner of the file appended; where the file cannot be seen, of
/// the nearest folder above it that can.
[[nodiscard]] core::Error unwritable_error(std::string_view what, const std::string& path,
                                           int error);

/// fsync(2) of a directory. Returns errno, 0 if ok.
[[nodiscard]] int sync_directory(const std::string& path) noexcept;

} // namespace oncerun::os
