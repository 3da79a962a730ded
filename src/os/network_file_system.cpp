#include "core/error.hpp"
#include "os/file.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace oncerun::os {

namespace {

struct KnownType {
  std::uint32_t magic; ///< statfs(2), f_type
  std::string_view name;
};

// From statfs(2) and linux/magic.h; those that are missing there come from the file systems' own
// documentation. Shared-disk cluster file systems count: SQLite's shared memory is not shared
// there.
constexpr std::array<KnownType, 17> k_network_types{{
    {0x6969, "nfs"},
    {0x517B, "smb"},
    {0xFF534D42, "cifs"},
    {0xFE534D42, "smb2"},
    {0x00C36400, "ceph"},
    {0x5346414F, "afs"},
    {0x6B414653, "afs"},
    {0x73757245, "coda"},
    {0x564C, "ncp"},
    {0x01021997, "9p"},
    {0x7461636F, "ocfs2"},
    {0x01161970, "gfs2"},
    {0x0BD00BD0, "lustre"},
    {0x47504653, "gpfs"},
    {0x19830326, "beegfs"},
    {0x20030528, "orangefs"},
    {0xAAD7AAEA, "panfs"},
}};

constexpr std::uint32_t k_fuse_magic = 0x65735546;

constexpr std::array<std::string_view, 21> k_network_fuse{
    "sshfs",     "s3fs",     "glusterfs", "ceph-fuse", "ceph",     "rclone",    "gcsfuse",
    "goofys",    "juicefs",  "mfs",       "moosefs",   "lizardfs", "davfs",     "davfs2",
    "curlftpfs", "smbnetfs", "blobfuse",  "blobfuse2", "nfs",      "seaweedfs", "mount-s3"};

/// The file system type of the mount with that device number, from proc(5), mountinfo: field 3 is
/// major:minor, the type stands behind the lone "-".
std::string mounted_type(dev_t device) {
  const auto table = read_file("/proc/self/mountinfo", std::size_t{16} << 20);
  if (!table) {
    return {};
  }
  const std::string wanted =
      " " + std::to_string(major(device)) + ":" + std::to_string(minor(device)) + " ";
  std::size_t begin = 0;
  while (begin < table->size()) {
    std::size_t end = table->find('\n', begin);
    end = end == std::string::npos ? table->size() : end;
    const std::string line = table->substr(begin, end - begin);
    begin = end + 1;
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos || line.find(wanted) == std::string::npos) {
      continue;
    }
    const std::size_t type = dash + 3;
    return line.substr(type, line.find(' ', type) - type);
  }
  return {};
}

} // namespace

std::optional<std::string> network_file_system(long type, std::string_view fuse_name) {
  const auto magic = static_cast<std::uint32_t>(static_cast<unsigned long>(type) & 0xFFFFFFFFUL);
  for (const KnownType& known : k_network_types) {
    if (known.magic == magic) {
      return std::string(known.name);
    }
  }
  if (magic != k_fuse_magic) {
    return std::nullopt;
  }
  std::string_view name = fuse_name;
  if (const std::size_t dot = name.find('.'); dot != std::string_view::npos) {
    name.remove_prefix(dot + 1);
  }
  for (const std::string_view known : k_network_fuse) {
    if (name == known) {
      return std::string(fuse_name);
    }
  }
  return std::nullopt;
}

void refuse_network_file_system(const std::string& path) {
  std::string seen = path;
  struct statfs info {};
  while (::statfs(seen.c_str(), &info) != 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno != ENOENT || seen == "/" || seen == ".") {
      throw core::system_error(core::Outcome::unavailable, "look at the file system of", path,
                               errno);
    }
    seen = parent_of(seen);
  }
  const auto type = static_cast<long>(info.f_type);
  std::string fuse_name;
  struct stat file {};
  if (static_cast<std::uint32_t>(type) == k_fuse_magic && ::stat(seen.c_str(), &file) == 0) {
    fuse_name = mounted_type(file.st_dev);
  }
  if (const auto name = network_file_system(type, fuse_name)) {
    throw core::Error(
        core::Outcome::config,
        path + " lies on a network file system (" + *name +
            "), where file locks and shared memory cannot be relied on",
        "keep it on a local disk of one host; a ledger for many hosts is to be PostgreSQL, which "
        "this version does not have yet");
  }
}

} // namespace oncerun::os
