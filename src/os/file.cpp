#include "os/file.hpp"

#include "core/error.hpp"

#include <climits>

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace oncerun::os {

namespace {

constexpr mode_t k_file_mode = 0600;
constexpr mode_t k_directory_mode = 0700;
/// As many links as the kernel follows; path_resolution(7).
constexpr int k_max_links = 40;
/// open_or_create: how often "missing" and "exists already" may take turns.
constexpr int k_create_tries = 16;

int open_retry(const char* path, int flags, mode_t mode = 0) noexcept {
  int fd = -1;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

std::string last_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string join(const std::string& folder, const std::string& name) {
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

std::optional<std::string> link_target(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t size = ::readlink(path.c_str(), buffer.data(), buffer.size());
  if (size <= 0) {
    return std::nullopt;
  }
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

std::string resolve(const std::string& path, int links_left) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  if (resolved) {
    return resolved.get();
  }
  if (errno != ENOENT || links_left == 0 || path.empty() || path == "/" || path == ".") {
    throw core::system_error(core::Outcome::unavailable, "resolve", path, errno);
  }
  const std::string parent = parent_of(path);
  // A dangling link: what it points to is what would be made.
  if (const auto target = link_target(path)) {
    return resolve(target->front() == '/' ? *target : join(parent, *target), links_left - 1);
  }
  return join(resolve(parent, links_left - 1), last_of(path));
}

/// Gives a file that root just made to the owner of the file it belongs to; a failure leaves it
/// with root, which then is said to whoever is refused.
void give_to_owner_of(int fd, const std::string& owner_of) noexcept {
  struct stat info {};
  if (::geteuid() == 0 && !owner_of.empty() && ::stat(owner_of.c_str(), &info) == 0 &&
      (info.st_uid != 0 || info.st_gid != 0)) {
    (void)::fchown(fd, info.st_uid, info.st_gid);
  }
}

void require_regular(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    throw core::system_error(core::Outcome::unavailable, "look at", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    throw core::Error(core::Outcome::config, path + " is not a regular file", "name a file");
  }
}

} // namespace

std::optional<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  // O_NONBLOCK: a FIFO planted there must not make us wait for its writer.
  const UniqueFd fd(open_retry(path.c_str(), O_RDONLY | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    throw core::system_error(core::Outcome::unavailable, "read", path, errno);
  }
  require_regular(fd.get(), path);
  std::string content;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
    if (size < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw core::system_error(core::Outcome::unavailable, "read", path, errno);
    }
    if (size == 0) {
      return content;
    }
    content.append(buffer.data(), static_cast<std::size_t>(size));
    if (content.size() > max_bytes) {
      throw core::Error(core::Outcome::config,
                        path + " is larger than " + std::to_string(max_bytes) + " bytes");
    }
  }
}

int write_at(int fd, std::string_view data, off_t offset) noexcept {
  while (!data.empty()) {
    const ssize_t size = ::pwrite(fd, data.data(), data.size(), offset);
    if (size < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno;
    }
    if (size == 0) {
      return EIO;
    }
    data.remove_prefix(static_cast<std::size_t>(size));
    offset += size;
  }
  return 0;
}

void make_directories(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) {
      throw core::system_error(core::Outcome::unwritable, "make the folder", path, ENOTDIR);
    }
    return;
  }
  if (errno != ENOENT) {
    throw unwritable_error("look at the folder", path, errno);
  }
  const std::string parent = parent_of(path);
  if (parent != path) {
    make_directories(parent);
  }
  if (::mkdir(path.c_str(), k_directory_mode) != 0) {
    // EEXIST: another start was faster, or the name ends in a slash.
    if (errno != EEXIST) {
      throw unwritable_error("make the folder", path, errno);
    }
    return;
  }
  // What is kept in the new folder is durable only if the folder itself is.
  if (const int error = sync_directory(parent); error != 0) {
    throw unwritable_error("sync", parent, error);
  }
}

std::string parent_of(const std::string& path) {
  std::size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') {
    --end;
  }
  const std::size_t slash = end == 0 ? std::string::npos : path.rfind('/', end - 1);
  if (slash == std::string::npos) {
    return ".";
  }
  end = slash;
  while (end > 0 && path[end - 1] == '/') {
    --end;
  }
  return end == 0 ? "/" : path.substr(0, end);
}

std::string real_path(const std::string& path) {
  return resolve(path, k_max_links);
}

void refuse_planted_link(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) {
    return;
  }
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    throw core::Error(core::Outcome::config,
                      path + " is a symbolic link " + ownership(path) + ": not followed",
                      "name the file itself, or keep it in a folder that others cannot write to");
  }
}

bool is_mount_point(const std::string& path) {
  struct statx info {};
  if (::statx(AT_FDCWD, path.c_str(), AT_NO_AUTOMOUNT, STATX_TYPE, &info) != 0) {
    return false;
  }
  return (info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
         (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

UniqueFd open_or_create(const std::string& path, const std::string& owner_of, bool* created) {
  if (created != nullptr) {
    *created = false;
  }
  for (int i = 0; i < k_create_tries; ++i) {
    UniqueFd fd(open_retry(path.c_str(), O_RDWR | O_NOFOLLOW));
    if (fd) {
      require_regular(fd.get(), path);
      return fd;
    }
    if (errno != ENOENT) {
      throw unwritable_error("open", path, errno);
    }
    fd = UniqueFd(open_retry(path.c_str(), O_RDWR | O_NOFOLLOW | O_CREAT | O_EXCL, k_file_mode));
    if (fd) {
      // The umask may have taken our own bits away, never more than the mode asks for.
      (void)::fchmod(fd.get(), k_file_mode);
      give_to_owner_of(fd.get(), owner_of);
      if (created != nullptr) {
        *created = true;
      }
      return fd;
    }
    if (errno != EEXIST) {
      throw unwritable_error("make", path, errno);
    }
  }
  throw core::system_error(core::Outcome::unwritable, "open", path, EEXIST);
}

std::string ownership(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return {};
  }
  std::array<char, 4096> buffer{};
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::string text = "owned by ";
  if (::getpwuid_r(info.st_uid, &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    text += std::string(found->pw_name) + " (uid " + std::to_string(info.st_uid) + ")";
  } else {
    text += "uid " + std::to_string(info.st_uid);
  }
  text += ", mode 0";
  for (int shift = 6; shift >= 0; shift -= 3) {
    text.push_back(static_cast<char>('0' + ((info.st_mode >> shift) & 7U)));
  }
  return text;
}

core::Error unwritable_error(std::string_view what, const std::string& path, int error) {
  std::string seen = path;
  std::string owner = ownership(seen);
  while (owner.empty() && seen != "/" && seen != ".") {
    seen = parent_of(seen);
    owner = ownership(seen);
  }
  std::string shown = path;
  if (!owner.empty()) {
    shown += seen == path ? " (" + owner + ")" : " (folder " + seen + " " + owner + ")";
  }
  std::string hint;
  if (error == EACCES || error == EPERM) {
    hint = "run it as the owner of the file, or give each user a ledger of their own";
  } else if (error == EROFS) {
    hint = "keep the ledger and its lock files where they can be written";
  } else if (error == ENOSPC || error == EDQUOT) {
    hint = "free some space; nothing is run that cannot be recorded";
  }
  return core::system_error(core::Outcome::unwritable, what, shown, error, hint);
}

int sync_directory(const std::string& path) noexcept {
  const UniqueFd fd(open_retry(path.c_str(), O_RDONLY | O_DIRECTORY));
  if (!fd) {
    return errno;
  }
  while (::fsync(fd.get()) != 0) {
    // EINVAL, EROFS: a file system that knows no such thing has nothing to sync.
    if (errno != EINTR) {
      return errno == EINVAL || errno == EROFS ? 0 : errno;
    }
  }
  return 0;
}

} // namespace oncerun::os
