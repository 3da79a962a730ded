#include "lock/flock_lock.hpp"

#include "core/error.hpp"
#include "core/uuid.hpp"
#include "lock/lock_note.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/file_lock.hpp"
#include "os/host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

namespace oncerun::lock {

namespace {

int open_retry(const std::string& path, int flags, mode_t mode = 0) noexcept {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

/// What the file says once its lock is free. Not truncated: that costs twenty times as much.
constexpr std::string_view k_free = "free\n";

/// The lock of our own file, with the note that says who we are.
class HeldJobFlock final : public os::HeldFlock {
 public:
  HeldJobFlock(os::UniqueFd fd, const std::string& path, const core::LockNote& note)
      : os::HeldFlock(std::move(fd), path, true) {
    // Only a help for people and losers: a full disk costs the note, not the lock.
    const std::string text = print_note(note);
    m_size = text.size();
    if (os::write_at(inherited_fd(), text, 0) != 0) {
      (void)::ftruncate(inherited_fd(), 0);
    }
  }
  ~HeldJobFlock() override { HeldJobFlock::release(); }

  void release() noexcept override {
    if (inherited_fd() >= 0) {
      // Before the unlock: the next holder must not be taken for us until it has written its own.
      std::string text(k_free);
      text.resize(std::max(m_size, text.size()), '\0');
      (void)os::write_at(inherited_fd(), text, 0);
    }
    os::HeldFlock::release();
  }

 private:
  std::size_t m_size = 0; ///< of the note
};

class JobFlock final : public core::Lock {
 public:
  JobFlock(std::string folder, std::string owner_of, core::JobName job)
      : m_folder(std::move(folder)), m_owner_of(std::move(owner_of)), m_job(std::move(job)),
        m_path(m_folder + "/" + core::name_uuid(m_job.text()) + ".lock") {}

  [[nodiscard]] std::unique_ptr<core::HeldLock> acquire(const core::RunKey& run,
                                                        std::chrono::milliseconds wait,
                                                        const core::StopRequest& stop) override {
    os::UniqueFd fd = os::lock_path(
        m_path, [this] { return open_file(); }, os::Deadline::after(wait), stop);
    if (!fd) {
      return nullptr;
    }
    const core::OwnerIdentity self = os::this_process();
    const core::LockNote note{.job = run.job.text(),
                              .date = run.date.label(),
                              .host = self.host,
                              .since = os::now_text(),
                              .machine_id = self.machine_id,
                              .boot_id = self.boot_id,
                              .pid_namespace = self.pid_namespace,
                              .pid = self.pid};
    return std::make_unique<HeldJobFlock>(std::move(fd), m_path, note);
  }

  [[nodiscard]] bool is_held() override {
    const os::UniqueFd fd(open_retry(m_path, O_RDONLY | O_NOFOLLOW));
    return fd && os::is_marked_held(fd.get(), m_path);
  }

  [[nodiscard]] std::optional<core::LockNote> holder() override {
    const os::UniqueFd fd(open_retry(m_path, O_RDONLY | O_NOFOLLOW));
    if (!fd || !os::is_marked_held(fd.get(), m_path)) {
      return std::nullopt;
    }
    std::array<char, 4096> text{};
    ssize_t size = 0;
    do {
      size = ::pread(fd.get(), text.data(), text.size(), 0);
    } while (size < 0 && errno == EINTR);
    return size <= 0 ? std::nullopt : parse_note({text.data(), static_cast<std::size_t>(size)});
  }

  [[nodiscard]] std::string describe() const override { return "flock " + m_path; }

 private:
  [[nodiscard]] os::UniqueFd open_file() const {
    // The usual case costs one system call; whatever is unusual is told apart below.
    os::UniqueFd fd(open_retry(m_path, O_RDWR | O_NOFOLLOW));
    if (!fd || !is_our_folder()) {
      os::refuse_planted_link(m_folder);
      make_folder();
      fd = os::open_or_create(m_path, m_owner_of);
    }
    return fd;
  }

  /// A link in place of the folder is left to refuse_planted_link.
  [[nodiscard]] bool is_our_folder() const {
    struct stat info {};
    return ::lstat(m_folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  void make_folder() const {
    struct stat info {};
    if (::stat(m_folder.c_str(), &info) == 0) {
      return;
    }
    os::make_directories(m_folder);
    struct stat owner {};
    if (::geteuid() == 0 && ::stat(m_owner_of.c_str(), &owner) == 0 && owner.st_uid != 0) {
      // By descriptor, so that what is given away is the folder itself and not what a link names.
      const os::UniqueFd fd(open_retry(m_folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
      (void)::fchown(fd.get(), owner.st_uid, owner.st_gid);
    }
  }

  std::string m_folder;
  std::string m_owner_of;
  core::JobName m_job;
  std::string m_path;
};

/// Whether /proc/locks (proc_locks(5)) has a flock on this file, of anybody.
bool is_in_proc_locks(const std::string& path) {
  struct stat info {};
  const os::UniqueFd fd(open_retry("/proc/locks", O_RDONLY));
  if (!fd || ::stat(path.c_str(), &info) != 0) {
    return false;
  }
  std::string text;
  std::array<char, 16384> buffer;
  ssize_t size = 0;
  while ((size = ::read(fd.get(), buffer.data(), buffer.size())) != 0) {
    if (size > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(size));
    } else if (errno != EINTR) {
      break;
    }
  }
  std::array<char, 64> file{};
  (void)std::snprintf(file.data(), file.size(), " %02x:%02x:%llu ", major(info.st_dev),
                      minor(info.st_dev), static_cast<unsigned long long>(info.st_ino));
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const bool waiting = line.find(" -> ") != std::string_view::npos;
    if (!waiting && line.find(" FLOCK ") != std::string_view::npos &&
        line.find(file.data()) != std::string_view::npos) {
      return true;
    }
    at = end + 1;
  }
  return false;
}

class PathFlock final : public core::Lock {
 public:
  explicit PathFlock(std::string path) : m_path(std::move(path)) {}

  [[nodiscard]] std::unique_ptr<core::HeldLock> acquire(const core::RunKey& /*run*/,
                                                        std::chrono::milliseconds wait,
                                                        const core::StopRequest& stop) override {
    os::UniqueFd fd = os::lock_path(
        m_path, [this] { return open_file(); }, os::Deadline::after(wait), stop);
    return fd ? std::make_unique<os::HeldFlock>(std::move(fd), m_path, false) : nullptr;
  }

  [[nodiscard]] bool is_held() override { return is_in_proc_locks(m_path); }
  [[nodiscard]] std::optional<core::LockNote> holder() override { return std::nullopt; }
  [[nodiscard]] std::string describe() const override { return "flock " + m_path; }

 private:
  /// As flock(1) does, except that an existing file is opened without O_CREAT: with it,
  /// fs.protected_regular (proc_sys_fs(5)) refuses another user's file in a sticky folder.
  [[nodiscard]] os::UniqueFd open_file() const {
    os::refuse_planted_link(m_path);
    // O_NONBLOCK: a FIFO must not make us wait for its writer.
    constexpr int flags = O_RDONLY | O_NOCTTY | O_NONBLOCK;
    os::UniqueFd fd(open_retry(m_path, flags));
    if (!fd && errno == EACCES) {
      fd = os::UniqueFd(open_retry(m_path, O_WRONLY | O_NOCTTY | O_NONBLOCK));
    }
    if (!fd && errno == ENOENT) {
      fd = os::UniqueFd(open_retry(m_path, flags | O_CREAT, 0600));
    }
    if (!fd) {
      throw os::unwritable_error("open the lock file", m_path, errno);
    }
    return fd;
  }

  std::string m_path;
};

class HeldNothing final : public core::HeldLock {
 public:
  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  [[nodiscard]] bool covers_job() const noexcept override { return false; }
  void release() noexcept override {}
};

class NoLock final : public core::Lock {
 public:
  [[nodiscard]] std::unique_ptr<core::HeldLock> acquire(const core::RunKey& /*run*/,
                                                        std::chrono::milliseconds /*wait*/,
                                                        const core::StopRequest& stop) override {
    if (const int signal = stop.pending(); signal != 0) {
      throw core::Interrupted(signal);
    }
    return std::make_unique<HeldNothing>();
  }
  [[nodiscard]] bool is_held() override { return false; }
  [[nodiscard]] std::optional<core::LockNote> holder() override { return std::nullopt; }
  [[nodiscard]] std::string describe() const override { return "no lock"; }
};

} // namespace

std::unique_ptr<core::Lock> job_flock(std::string folder, std::string owner_of, core::JobName job) {
  return std::make_unique<JobFlock>(std::move(folder), std::move(owner_of), std::move(job));
}

std::unique_ptr<core::Lock> path_flock(std::string path) {
  return std::make_unique<PathFlock>(std::move(path));
}

std::unique_ptr<core::Lock> no_lock() {
  return std::make_unique<NoLock>();
}

} // namespace oncerun::lock
