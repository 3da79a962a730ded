#include "os/host.hpp"

#include "core/error.hpp"
#include "os/fd.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

namespace oncerun::os {

namespace {

/// The first line of a small file; empty if there is none or it may not be read. Anything else is
/// an error (unavailable): a run that does not know its own boot could never be proven dead.
std::string first_line(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) {
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != EPERM) {
      throw core::system_error(core::Outcome::unavailable, "read", path, errno);
    }
    return {};
  }
  std::array<char, 128> buffer{};
  ssize_t count = 0;
  do {
    count = ::read(fd.get(), buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    throw core::system_error(core::Outcome::unavailable, "read", path, errno);
  }
  const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
  return std::string(text.substr(0, text.find('\n')));
}

/// machine-id(5): 32 lowercase hexadecimal digits. "uninitialized" (a first boot that is not over)
/// and anything else identifies nothing.
std::string machine_id() {
  std::string id = first_line("/etc/machine-id");
  const bool valid =
      id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string::npos;
  return valid ? id : std::string();
}

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? std::string(names.nodename) : std::string();
}

} // namespace

core::OwnerIdentity this_process() {
  // Read once: nothing of it changes while a process lives, but its pid in a fork.
  static const core::OwnerIdentity s_read = [] {
    core::OwnerIdentity identity;
    identity.host = host_name();
    identity.machine_id = machine_id();
    identity.boot_id = first_line("/proc/sys/kernel/random/boot_id");
    struct stat status {};
    if (::stat("/proc/self/ns/pid", &status) == 0) {
      identity.pid_namespace = status.st_ino;
    } else if (errno == ENOMEM || errno == EIO) {
      throw core::system_error(core::Outcome::unavailable, "look at", "/proc/self/ns/pid", errno);
    }
    return identity;
  }();
  core::OwnerIdentity identity = s_read;
  identity.pid = ::getpid();
  return identity;
}

std::string who_am_i() {
  const uid_t uid = ::getuid();
  std::string user = std::to_string(uid);
  std::vector<char> buffer(1024);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  // A line of passwd(5) may be of any length (NSS); getpwuid_r says ERANGE when it is too long.
  while ((error = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < (1U << 20)) {
    buffer.resize(buffer.size() * 2);
  }
  if (error == 0 && found != nullptr) {
    user = entry.pw_name;
  }
  return user + "@" + host_name();
}

std::string random_uuid() {
  std::array<unsigned char, 16> bytes{};
  // Up to 256 bytes come whole once the pool is initialised; before that a signal may interrupt.
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) {
      throw core::system_error(core::Outcome::unavailable, "read", "random bytes", errno);
    }
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0fU) | 0x40U); // RFC 9562, 5.4: version
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3fU) | 0x80U); // and variant
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    text += k_digits[bytes[i] >> 4U];
    text += k_digits[bytes[i] & 0x0fU];
  }
  return text;
}

} // namespace oncerun::os
