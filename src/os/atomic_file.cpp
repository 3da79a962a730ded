#include "os/atomic_file.hpp"

#include "core/error.hpp"
#include "os/file.hpp"
#include "os/retry.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <memory>
#include <utility>

namespace oncerun::os {

namespace {

constexpr std::string_view k_marker = ".oncerun-";
constexpr std::size_t k_random_letters = 6;
constexpr int k_max_names = 100;

void refuse_if(int error, std::string_view what, const std::string& path) {
  if (error != 0) {
    throw unwritable_error(what, path, error);
  }
}

int try_lock(int fd) noexcept {
  return retry([&] { return flock(fd, LOCK_EX | LOCK_NB); });
}

std::string last_component(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// A long name is cut, so that the temporary one still is a name.
std::string temporary_prefix(const std::string& name) {
  std::string prefix = "." + name.substr(0, NAME_MAX - 1 - k_marker.size() - k_random_letters);
  return prefix.append(k_marker);
}

/// The path that is to be replaced: the end of a chain of links, even where nothing is there yet.
std::string end_of_links(const std::string& path) try {
  return real_path(path);
} catch (const core::Error& error) {
  throw core::Error(core::Outcome::unwritable, error.what(), error.hint());
}

void refuse_what_cannot_be_replaced(const std::string& target) {
  struct stat status {};
  if (lstat(target.c_str(), &status) != 0) {
    return; // what is missing is made; anything else shows itself when the folder is opened
  }
  if (S_ISDIR(status.st_mode)) {
    throw core::system_error(core::Outcome::unwritable, "write", target, EISDIR,
                             "name a file, not a folder");
  }
  if (!S_ISREG(status.st_mode)) {
    throw core::Error(core::Outcome::unwritable, "cannot write " + target + ": not a regular file",
                      "name a file that can be replaced as a whole");
  }
  if (is_mount_point(target)) {
    throw core::Error(core::Outcome::unwritable,
                      "cannot replace " + target + ": the file itself is a mount point",
                      "mount the folder that holds it, not the single file");
  }
}

} // namespace

AtomicFile::AtomicFile(const std::string& path, std::size_t reserve)
    : m_target(end_of_links(path)), m_name(last_component(m_target)) {
  refuse_what_cannot_be_replaced(m_target);
  const std::string folder = parent_of(m_target);
  m_folder = UniqueFd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!m_folder && errno == ENOENT) {
    throw core::system_error(core::Outcome::unwritable, "open the folder", folder, ENOENT,
                             "make the folder first");
  }
  if (!m_folder) {
    throw unwritable_error("open the folder", folder, errno);
  }
  open_temporary();
  try {
    adopt_identity();
    allocate(reserve);
  } catch (...) {
    if (!m_temporary.empty()) {
      unlinkat(m_folder.get(), m_temporary.c_str(), 0);
    }
    throw;
  }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : m_target(std::move(other.m_target)), m_name(std::move(other.m_name)),
      m_temporary(std::exchange(other.m_temporary, {})), m_spent(other.m_spent),
      m_folder(std::move(other.m_folder)), m_fd(std::move(other.m_fd)) {
}

AtomicFile::~AtomicFile() {
  if (!m_temporary.empty()) {
    unlinkat(m_folder.get(), m_temporary.c_str(), 0);
  }
}

void AtomicFile::open_temporary() {
  int error = 0;
  // Without /proc a nameless file could never get its name.
  if (access("/proc/self/fd", X_OK) == 0) {
    m_fd = UniqueFd(openat(m_folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    error = m_fd ? 0 : errno;
    // EISDIR and ENOENT come from kernels, EOPNOTSUPP and EINVAL from file systems, without it.
    if (error != EOPNOTSUPP && error != EISDIR && error != ENOENT && error != EINVAL) {
      if (error == 0 && try_lock(m_fd.get()) != 0) {
        error = errno;
      }
      refuse_if(error, in_folder("make the temporary file for"), parent_of(m_target));
      return;
    }
  }
  error = EBUSY;
  for (int tries = 0; tries < k_max_names; ++tries) {
    std::string name = fresh_name();
    m_fd = UniqueFd(openat(m_folder.get(), name.c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!m_fd && errno == EEXIST) {
      continue;
    }
    struct stat made {};
    const bool usable = m_fd && try_lock(m_fd.get()) == 0 && fstat(m_fd.get(), &made) == 0;
    if (usable && made.st_nlink == 1) {
      m_temporary = std::move(name);
      return;
    }
    const int failed = usable ? 0 : errno;
    if (m_fd) {
      unlinkat(m_folder.get(), name.c_str(), 0);
    }
    // Somebody who clears leftovers away may be faster than our lock: then it is his, or the file
    // is gone, and another name will do. Nothing else gets better by another name.
    if (failed != 0 && failed != EWOULDBLOCK) {
      error = failed;
      break;
    }
  }
  refuse_if(error, in_folder("make the temporary file for"), parent_of(m_target));
}

std::string AtomicFile::in_folder(std::string_view what) const {
  return std::string(what) + " " + m_target + " in";
}

std::string AtomicFile::fresh_name() const {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz012345";
  std::array<unsigned char, k_random_letters> random{};
  if (retry([&] { return getrandom(random.data(), random.size(), 0); }) < 0) {
    throw unwritable_error("get random bytes for a file beside", m_target, errno);
  }
  std::string name = temporary_prefix(m_name);
  for (const unsigned char byte : random) {
    name.push_back(letters[byte % letters.size()]);
  }
  return name;
}

void AtomicFile::allocate(std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const auto size = static_cast<off_t>(bytes);
  int error = retry([&] { return fallocate(m_fd.get(), 0, 0, size); }) == 0 ? 0 : errno;
  if (error == EOPNOTSUPP) {
    error = write_at(m_fd.get(), std::string(bytes, '\0'), 0);
  }
  if (error != 0) {
    throw unwritable_error("reserve space for", m_target, error);
  }
}

/// Gives the temporary file the owner and mode of the file that it will replace. Whose file it is
/// never changes silently: where that cannot be kept, nothing is replaced.
void AtomicFile::adopt_identity() {
  struct stat old {};
  struct stat ours {};
  if (fstat(m_fd.get(), &ours) != 0) {
    throw unwritable_error("look at a temporary file beside", m_target, errno);
  }
  mode_t mode = 0600;
  if (fstatat(m_folder.get(), m_name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0) {
    mode = old.st_mode & 07777;
    const bool group_means_something = ((mode >> 3) & 7U) != (mode & 7U);
    if (old.st_uid != ours.st_uid || old.st_gid != ours.st_gid) {
      const bool kept = fchown(m_fd.get(), old.st_uid, old.st_gid) == 0;
      const int error = errno;
      if (!kept && (old.st_uid != ours.st_uid || group_means_something)) {
        throw unwritable_error("replace, and keep the owner of,", m_target, error);
      }
    }
  } else if (errno != ENOENT) {
    throw unwritable_error("look at", m_target, errno);
  }
  // After the chown, which clears the set-id bits; and also for a new file, whatever the umask was.
  if (fchmod(m_fd.get(), mode) != 0) {
    throw unwritable_error("set the mode of a temporary file beside", m_target, errno);
  }
}

void AtomicFile::name_temporary() {
  const std::string source = "/proc/self/fd/" + std::to_string(m_fd.get());
  for (int tries = 0; tries < k_max_names; ++tries) {
    std::string name = fresh_name();
    if (linkat(AT_FDCWD, source.c_str(), m_folder.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      m_temporary = std::move(name);
      return;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  throw unwritable_error(in_folder("name the temporary file for"), parent_of(m_target), errno);
}

void AtomicFile::commit(std::string_view content, bool durable) {
  // Nor may a failed commit be tried again: after a failed fsync(2) the kernel may have dropped
  // what it could not write, and a second one would report success.
  if (std::exchange(m_spent, true)) {
    throw core::Error(core::Outcome::internal, "a second commit to " + m_target);
  }
  if (const int error = write_at(m_fd.get(), content, 0); error != 0) {
    throw unwritable_error("write", m_target, error);
  }
  // What was reserved and is not needed.
  const auto size = static_cast<off_t>(content.size());
  if (retry([&] { return ftruncate(m_fd.get(), size); }) != 0) {
    throw unwritable_error("write", m_target, errno);
  }
  // Again: the old file may have been given to somebody else, or replaced, since.
  adopt_identity();
  if (durable && retry([&] { return fsync(m_fd.get()); }) != 0) {
    throw unwritable_error("sync", m_target, errno);
  }
  if (m_temporary.empty()) {
    name_temporary();
  }
  if (renameat(m_folder.get(), m_temporary.c_str(), m_folder.get(), m_name.c_str()) != 0) {
    throw unwritable_error("replace", m_target, errno);
  }
  m_temporary.clear();
  if (durable && retry([&] { return fsync(m_folder.get()); }) != 0) {
    throw unwritable_error("sync the folder of", m_target, errno);
  }
}

void remove_stale_temporaries(const std::string& path) noexcept try {
  const std::string target = end_of_links(path);
  const std::string prefix = temporary_prefix(last_component(target));
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(parent_of(target).c_str()), closedir);
  if (!folder) {
    return;
  }
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name.size() != prefix.size() + k_random_letters || !name.starts_with(prefix)) {
      continue;
    }
    const UniqueFd left(
        openat(dirfd(folder.get()), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (left && try_lock(left.get()) == 0) {
      unlinkat(dirfd(folder.get()), entry->d_name, 0);
    }
  }
} catch (const std::exception&) {
  // A leftover is ugly and harmless.
}

} // namespace oncerun::os
