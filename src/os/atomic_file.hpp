#pragma once

#include "os/fd.hpp"

#include <string>
#include <string_view>

namespace oncerun::os {

/// Replaces a file as a whole: a temporary file in the same folder, written, fsync, rename, fsync
/// of the folder. A symbolic link at `path` stays and its target is replaced; an existing file
/// keeps mode and owner; a new one has mode 0600. Until commit() nothing is visible, and the
/// destructor removes the temporary file.
class AtomicFile {
 public:
  /// Takes the temporary file, with `reserve` bytes of it allocated, so that commit() also succeeds
  /// on a disk that is full by then. Uses O_TMPFILE where the file system has it, so that a crash
  /// leaves nothing behind. Throws Error (unwritable): also when `path` is a mount point (hint:
  /// mount the folder) or a folder, and when we may not give the new file the old one's owner.
  explicit AtomicFile(const std::string& path, std::size_t reserve = 0);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Once. Throws Error (unwritable); the old file then is as it was, unless only the last step,
  /// the folder's fsync, failed: then the new content is visible, and not known to be durable.
  /// `content` may be longer than the reserve. `durable`: with the two fsyncs.
  void commit(std::string_view content, bool durable = true);

 private:
  void open_temporary();
  void allocate(std::size_t bytes);
  void adopt_identity();
  void name_temporary();
  [[nodiscard]] std::string fresh_name() const;
  /// "WHAT the file in", for messages that name the folder next.
  [[nodiscard]] std::string in_folder(std::string_view what) const;

  std::string m_target;    ///< what is replaced, links resolved
  std::string m_name;      ///< its last component
  std::string m_temporary; ///< name within the folder; empty while O_TMPFILE has none
  bool m_spent = false;
  UniqueFd m_folder;
  UniqueFd m_fd;
};

/// Removes temporary files that a killed process left for `path`: where O_TMPFILE is missing, or
/// one killed between naming and renaming. Those of a living process are locked by it and stay.
/// Reads the whole folder: for the rare start that finds a crash.
void remove_stale_temporaries(const std::string& path) noexcept;

} // namespace oncerun::os
