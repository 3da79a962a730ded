#include "os/life_bytes.hpp"

#include "core/error.hpp"
#include "os/byte_lock.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/retry.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

namespace oncerun::os {

namespace {

// The file's text. Every field stands at a fixed place within the first 512 bytes, so that it is
// changed in place, needs no new block on a full disk, and is not torn by a power cut.
constexpr std::string_view k_magic = "oncerun-life 1\n";
constexpr std::size_t k_id_at = k_magic.size();
constexpr std::size_t k_id_size = 36;
constexpr std::size_t k_token_at = k_id_at + k_id_size + 1;
constexpr std::size_t k_token_size = 20;
constexpr std::size_t k_header_size = k_token_at + k_token_size + 1;
constexpr std::string_view k_explanation =
    "Bytes far beyond the end of this file are locked by living runs. Do not delete it.\n";

/// Where the locked bytes begin: beyond any size that the file could have.
constexpr std::int64_t k_first_byte = std::int64_t{1} << 40;
/// Held for the moment in which a new file gets its id; no serial reaches it.
constexpr std::int64_t k_making_byte = k_first_byte - 1;

constexpr std::chrono::milliseconds k_patience{200};

constexpr std::int64_t owner_byte(std::int64_t serial) noexcept {
  return k_first_byte + 2 * serial;
}
constexpr std::int64_t tree_byte(std::int64_t serial) noexcept {
  return owner_byte(serial) + 1;
}

std::string token_text(std::int64_t token) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%020lld", static_cast<long long>(token));
  return {text.data(), k_token_size};
}

std::string read_header(int fd, const std::string& path) {
  std::array<char, k_header_size> buffer{};
  ssize_t size = 0;
  do {
    size = ::pread(fd, buffer.data(), buffer.size(), 0);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    throw core::system_error(core::Outcome::unavailable, "read", path, errno);
  }
  return {buffer.data(), static_cast<std::size_t>(size)};
}

bool is_header(std::string_view text) noexcept {
  return text.size() == k_header_size && text.substr(0, k_id_at) == k_magic &&
         text[k_id_at + k_id_size] == '\n';
}

void write_durably(int fd, std::string_view text, std::size_t at, const std::string& path) {
  int error = write_at(fd, text, static_cast<off_t>(at));
  if (error == 0 && retry([&] { return ::fdatasync(fd); }) != 0) {
    error = errno;
  }
  if (error != 0) {
    throw unwritable_error("write", path, error);
  }
}

void append_new(std::vector<pid_t>& pids, const std::vector<pid_t>& more) {
  for (const pid_t pid : more) {
    if (std::find(pids.begin(), pids.end(), pid) == pids.end()) {
      pids.push_back(pid);
    }
  }
}

bool same(const std::string& left, const std::string& right) noexcept {
  return !left.empty() && left == right;
}

/// The id in the file and the file's inode: locks belong to the inode, so a copy of the file,
/// however exact, proves nothing about who holds bytes of the original.
std::string identity(int fd, const std::string& id, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    throw core::system_error(core::Outcome::unavailable, "look at", path, errno);
  }
  return id + "@" + std::to_string(info.st_ino);
}

} // namespace

LifeFile LifeFile::open(const std::string& path, const std::string& owner_of) {
  LifeFile file;
  file.m_path = path;
  file.m_fd = open_or_create(path, owner_of);
  file.read_or_make_id();
  return file;
}

void LifeFile::read_or_make_id() {
  std::string header = read_header(m_fd.get(), m_path);
  if (header.empty()) {
    // New, or its maker died before it wrote. Two makers at once must agree on one id.
    while (!try_lock_byte(m_fd.get(), k_making_byte, m_path)) {
      (void)::poll(nullptr, 0, 1);
    }
    header = read_header(m_fd.get(), m_path);
    if (header.empty()) {
      header.append(k_magic).append(random_uuid()).append("\n").append(token_text(0)).append("\n");
      write_durably(m_fd.get(), header + std::string(k_explanation), 0, m_path);
    }
    unlock_byte(m_fd.get(), k_making_byte);
  }
  if (!is_header(header)) {
    throw core::Error(core::Outcome::config, m_path + " is not a liveness file of oncerun",
                      "move it away if it is not needed; runs that are open then cannot be judged");
  }
  m_id = identity(m_fd.get(), header.substr(k_id_at, k_id_size), m_path);
}

LifeFile LifeFile::look(const std::string& path) {
  LifeFile file;
  file.m_path = path;
  file.m_fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.m_fd) {
    // Missing, or not ours to read, or a link: nothing can be proven by it. A fault is no such
    // case.
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != ELOOP) {
      throw core::system_error(core::Outcome::unavailable, "read", path, errno);
    }
    return file;
  }
  const std::string header = read_header(file.m_fd.get(), path);
  if (is_header(header)) {
    file.m_id = identity(file.m_fd.get(), header.substr(k_id_at, k_id_size), path);
  } else {
    file.m_fd.reset();
  }
  return file;
}

std::int64_t LifeFile::highest_token() const {
  const std::string header = read_header(m_fd.get(), m_path);
  std::int64_t token = 0;
  if (is_header(header)) {
    const char* begin = header.data() + k_token_at;
    std::from_chars(begin, begin + k_token_size, token);
  }
  return token;
}

void LifeFile::remember_token(std::int64_t token) {
  if (token <= highest_token()) {
    return;
  }
  if (const int error = write_at(m_fd.get(), token_text(token), k_token_at); error != 0) {
    throw unwritable_error("write", m_path, error);
  }
}

void LifeFile::renew_id() {
  const std::string id = random_uuid();
  write_durably(m_fd.get(), id, k_id_at, m_path);
  m_id = identity(m_fd.get(), id, m_path);
}

bool LifeFile::owner_byte_held(std::int64_t serial) const {
  return exists() && is_byte_locked(m_fd.get(), owner_byte(serial), m_path);
}

std::vector<pid_t> LifeFile::tree_of(std::int64_t serial, const std::string& run_id, bool same_boot,
                                     bool byte_held) const {
  std::vector<pid_t> pids;
  struct stat info {};
  if (byte_held && ::fstat(m_fd.get(), &info) == 0) {
    pids = processes_holding_byte(info.st_dev, info.st_ino, tree_byte(serial));
  }
  // A program may close what it inherits; its environment still tells. Only here: a row that
  // another host wrote must never lead to a look at a local process.
  if (same_boot && !run_id.empty()) {
    append_new(pids, processes_with_environment("ONCERUN_RUN_ID=" + run_id));
  }
  return pids;
}

core::OwnerLife LifeFile::judge(const core::OwnerIdentity& attempt, std::int64_t serial,
                                const std::string& run_id, const core::OwnerIdentity& self,
                                std::vector<pid_t>& pids) const {
  pids.clear();
  // A boot id is random: the same one means the same kernel, in whatever container, also where
  // there is no machine id or each container has its own.
  const bool same_boot = same(attempt.boot_id, self.boot_id);
  if (owner_byte_held(serial)) {
    const bool same_pids =
        attempt.pid_namespace != 0 && attempt.pid_namespace == self.pid_namespace;
    if (same_boot && same_pids && attempt.pid > 0) {
      pids.push_back(attempt.pid);
    }
    return core::OwnerLife::alive;
  }
  const bool tree_held = exists() && is_byte_locked(m_fd.get(), tree_byte(serial), m_path);
  pids = tree_of(serial, run_id, same_boot, tree_held);
  if (tree_held || !pids.empty()) {
    return core::OwnerLife::orphaned;
  }
  if (same_boot) {
    // Bytes of another file, or of none, prove nothing about this attempt.
    return same(attempt.life_id, m_id) ? core::OwnerLife::dead : core::OwnerLife::not_provable;
  }
  const bool rebooted = same(attempt.machine_id, self.machine_id) && !attempt.boot_id.empty() &&
                        !self.boot_id.empty();
  return rebooted ? core::OwnerLife::dead : core::OwnerLife::not_provable;
}

HeldLife HeldLife::take(const LifeFile& file, std::int64_t serial) {
  HeldLife held;
  held.m_serial = serial;
  const auto take_byte = [&](std::int64_t offset) {
    UniqueFd fd(::open(file.m_path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) {
      throw unwritable_error("open", file.m_path, errno);
    }
    // A claimant that was killed before its commit leaves the serial to the next one, and the
    // kernel may still be closing its descriptors, in an order that nobody promises.
    const Deadline patience = Deadline::after(k_patience);
    bool taken = try_lock_byte(fd.get(), offset, file.m_path);
    while (!taken && !patience.passed()) {
      (void)::poll(nullptr, 0, 1);
      taken = try_lock_byte(fd.get(), offset, file.m_path);
    }
    if (!taken) {
      throw core::Error(core::Outcome::unwritable,
                        "the bytes of attempt " + std::to_string(serial) + " in " + file.m_path +
                            " are locked by somebody else",
                        "only one ledger may use that file; see `oncerun ledger accept`");
    }
    return fd;
  };
  held.m_owner = take_byte(owner_byte(serial));
  held.m_tree = take_byte(tree_byte(serial));
  // What is locked must be what others look at: the file may have been replaced meanwhile.
  struct stat known {};
  struct stat owner {};
  struct stat tree {};
  if (::fstat(file.m_fd.get(), &known) != 0 || ::fstat(held.m_owner.get(), &owner) != 0 ||
      ::fstat(held.m_tree.get(), &tree) != 0) {
    throw unwritable_error("look at", file.m_path, errno);
  }
  if (known.st_ino != owner.st_ino || known.st_dev != owner.st_dev || known.st_ino != tree.st_ino ||
      known.st_dev != tree.st_dev) {
    throw core::Error(core::Outcome::unwritable, file.m_path + " was replaced while it was in use",
                      "leave the files beside the ledger alone while runs go on");
  }
  return held;
}

void HeldLife::release_tree() noexcept {
  if (m_tree) {
    unlock_byte(m_tree.get(), tree_byte(m_serial));
    m_tree.reset();
  }
}

} // namespace oncerun::os
