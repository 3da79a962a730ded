#pragma once

#include "os/fd.hpp"

#include <string>
#include <string_view>

namespace oncerun::os {

/// Replaces a file as a whole: a temporary file in the same folder, written, fsync, rename, fsync of
/// the folder. A symbolic link at `path` stays and its target is replaced; an existing file keeps
/// mode and owner; a new one has mode 0600. Until commit() nothing is visible, and the destructor
/// removes the temporary file.
class AtomicFile {
public:
  /// Takes the temporary file, with `reserve` bytes of it allocated, so that commit() also succeeds
  /// on a disk that is full by then. Uses O_TMPFILE where the file system has it, so that a crash
  /// leaves nothing behind. Throws Error (unwritable): also when `path` is a mount point (hint:
  /// mount the folder) or a folder.
  explicit AtomicFile(const std::string& path, std::size_t reserve = 0);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  /// Throws Error (unwritable). `durable`: with the two fsyncs.
  void commit(std::string_view content, bool durable = true);

private:
  std::string m_path;      ///< the target, links resolved
  std::string m_temporary; ///< empty while O_TMPFILE has no name
  UniqueFd m_fd;
};

/// Removes temporary files that a crashed process may have left for `path` (only needed where
/// O_TMPFILE is missing). To be called under the lock that serialises the writers.
void remove_stale_temporaries(const std::string& path) noexcept;

} // namespace oncerun::os
