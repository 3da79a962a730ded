#include "core/error.hpp"
#include "os/file.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

using namespace oncerun;
using core::Outcome;

namespace {

class Folder {
 public:
  Folder() { m_path = std::filesystem::canonical(::mkdtemp(m_path.data())); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(m_path, ignored);
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return m_path + "/" + name; }
  [[nodiscard]] const std::string& path() const { return m_path; }

 private:
  std::string m_path = "/tmp/oncerun-file-XXXXXX";
};

Outcome outcome_of(const std::function<void()>& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const core::Error& error) {
    if (message != nullptr) {
      *message = error.what();
    }
    return error.outcome();
  }
  return Outcome::done;
}

void write(const std::string& path, const std::string& content, mode_t mode = 0600) {
  const os::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, mode));
  REQUIRE(os::write_at(fd.get(), content, 0) == 0);
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

/// The exit code of `action` in a child.
int in_child(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 255;
    try {
      code = action();
    } catch (const std::exception&) {
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr uid_t k_nobody = 65534;

} // namespace

TEST_CASE("a file is read as a whole, a missing one is none, others are errors") {
  const Folder folder;
  CHECK_FALSE(os::read_file(folder / "missing"));
  write(folder / "file", std::string("a\0b", 3));
  CHECK(os::read_file(folder / "file") == std::string("a\0b", 3));
  write(folder / "large", std::string(20'000, 'x'));
  CHECK(os::read_file(folder / "large")->size() == 20'000);
  CHECK(outcome_of([&] { (void)os::read_file(folder / "large", 10'000); }) == Outcome::config);
  CHECK(outcome_of([&] { (void)os::read_file(folder.path()); }) == Outcome::config);
  CHECK(outcome_of([&] { (void)os::read_file(folder / "file/below"); }) == Outcome::unavailable);
  // A FIFO without a writer makes nobody wait.
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(outcome_of([&] { (void)os::read_file(folder / "fifo"); }) == Outcome::config);
}

TEST_CASE("folders are made private, with their parents, whatever the umask") {
  const Folder folder;
  const mode_t old = ::umask(0);
  os::make_directories(folder / "a/b/c");
  ::umask(old);
  CHECK(mode_of(folder / "a") == 0700);
  CHECK(mode_of(folder / "a/b/c") == 0700);
  os::make_directories(folder / "a/b/c/");
  REQUIRE(::chmod((folder / "a").c_str(), 0755) == 0);
  os::make_directories(folder / "a/d");
  CHECK(mode_of(folder / "a") == 0755); // what was there stays as it is
  write(folder / "file", "");
  CHECK(outcome_of([&] { os::make_directories(folder / "file"); }) == Outcome::unwritable);
  CHECK(outcome_of([&] { os::make_directories(folder / "file/x"); }) == Outcome::unwritable);
}

TEST_CASE("the folder of a path") {
  CHECK(os::parent_of("name") == ".");
  CHECK(os::parent_of("/name") == "/");
  CHECK(os::parent_of("/") == "/");
  CHECK(os::parent_of("a/b") == "a");
  CHECK(os::parent_of("a//b//") == "a");
  CHECK(os::parent_of("/a/b") == "/a");
  CHECK(os::parent_of("") == ".");
}

TEST_CASE("a path is resolved as far as it exists") {
  const Folder folder;
  write(folder / "file", "");
  std::filesystem::create_directory(folder / "dir");
  std::filesystem::create_symlink("file", folder / "link");
  std::filesystem::create_symlink("dir/new", folder / "dangling");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(os::real_path(folder / "link") == folder / "file");
  CHECK(os::real_path(folder / "dir/../file") == folder / "file");
  CHECK(os::real_path(folder / "new") == folder / "new");
  CHECK(os::real_path(folder / "dangling") == folder / "dir/new");
  CHECK(os::real_path(folder / "x/y/z") == folder / "x/y/z");
  CHECK(outcome_of([&] { (void)os::real_path(folder / "loop"); }) == Outcome::unavailable);
}

TEST_CASE("a file is opened if it is there, and made private if it is not") {
  const Folder folder;
  bool created = false;
  const mode_t old = ::umask(0);
  CHECK(os::open_or_create(folder / "new", "", &created));
  ::umask(old);
  CHECK(created);
  CHECK(mode_of(folder / "new") == 0600);
  write(folder / "old", "content", 0640);
  CHECK(os::open_or_create(folder / "old", "", &created));
  CHECK_FALSE(created);
  CHECK(mode_of(folder / "old") == 0640);
  CHECK(os::read_file(folder / "old") == "content");
  std::filesystem::create_symlink("old", folder / "link");
  CHECK(outcome_of([&] { (void)os::open_or_create(folder / "link", ""); }) == Outcome::unwritable);
  CHECK(outcome_of([&] { (void)os::open_or_create(folder / "no/file", ""); }) ==
        Outcome::unwritable);
  const os::UniqueFd fd = os::open_or_create(folder / "new", "");
  CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("other users: owner kept, refusals that name file and owner") {
  if (::geteuid() != 0) {
    WARN("not root: nothing can be done as another user");
    return;
  }
  const Folder folder;
  write(folder / "ledger", "");
  REQUIRE(::chown((folder / "ledger").c_str(), k_nobody, k_nobody) == 0);
  CHECK(os::open_or_create(folder / "ledger-life", folder / "ledger"));
  struct stat info {};
  REQUIRE(::stat((folder / "ledger-life").c_str(), &info) == 0);
  CHECK(info.st_uid == k_nobody);

  write(folder / "roots", "");
  REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);
  const auto as_nobody = [](const std::function<int()>& action) {
    return in_child(
        [&] { return ::setgid(k_nobody) != 0 || ::setuid(k_nobody) != 0 ? 99 : action(); });
  };
  CHECK(as_nobody([&] {
          std::string message;
          const Outcome outcome =
              outcome_of([&] { (void)os::open_or_create(folder / "roots", ""); }, &message);
          const bool told = message.find("roots") != std::string::npos &&
                            message.find("owned by root (uid 0), mode 0600") != std::string::npos &&
                            message.find("Permission denied") != std::string::npos;
          return outcome == Outcome::unwritable && told ? 0 : 1;
        }) == 0);
  // fs.protected_regular refuses O_CREAT on another's file in a sticky folder, not a plain open.
  write(folder / "shared", "", 0666);
  REQUIRE(::chmod((folder / "shared").c_str(), 0666) == 0);
  CHECK(as_nobody([&] { return os::open_or_create(folder / "shared", "") ? 0 : 1; }) == 0);

  std::filesystem::create_symlink("shared", folder / "mine");
  std::filesystem::create_symlink("shared", folder / "theirs");
  REQUIRE(::lchown((folder / "theirs").c_str(), k_nobody, k_nobody) == 0);
  CHECK(outcome_of([&] { os::refuse_planted_link(folder / "mine"); }) == Outcome::done);
  CHECK(outcome_of([&] { os::refuse_planted_link(folder / "shared"); }) == Outcome::done);
  CHECK(outcome_of([&] { os::refuse_planted_link(folder / "missing"); }) == Outcome::done);
  CHECK(outcome_of([&] { os::refuse_planted_link(folder / "theirs"); }) == Outcome::config);
  CHECK(as_nobody([&] {
          os::refuse_planted_link(folder / "mine"); // root's
          os::refuse_planted_link(folder / "theirs");
          return 0;
        }) == 0);
}

TEST_CASE("ownership and refusals in words") {
  const Folder folder;
  write(folder / "file", "", 0640);
  REQUIRE(::chmod((folder / "file").c_str(), 0640) == 0);
  if (::geteuid() == 0) {
    CHECK(os::ownership(folder / "file") == "owned by root (uid 0), mode 0640");
    REQUIRE(::chown((folder / "file").c_str(), 54321, 0) == 0);
    CHECK(os::ownership(folder / "file") == "owned by uid 54321, mode 0640");
  }
  CHECK(os::ownership(folder / "missing").empty());
  const core::Error error = os::unwritable_error("open", folder / "no/file", EROFS);
  CHECK(error.outcome() == Outcome::unwritable);
  CHECK(std::string(error.what()).find("(folder " + folder.path() + " owned by") !=
        std::string::npos);
  CHECK(std::string(error.what()).find("Read-only file system") != std::string::npos);
  CHECK_FALSE(error.hint().empty());
}

TEST_CASE("network file systems are known by their type, FUSE ones by their name") {
  CHECK(os::network_file_system(0x6969, "") == "nfs");
  CHECK(os::network_file_system(static_cast<long>(0xFF534D42), "") == "cifs");
  // Where f_type is signed and 32 bits wide the same number is negative.
  CHECK(os::network_file_system(static_cast<long>(static_cast<std::int32_t>(0xFF534D42)), "") ==
        "cifs");
  CHECK(os::network_file_system(0x01021997, "") == "9p");
  CHECK(os::network_file_system(0x65735546, "fuse.sshfs") == "fuse.sshfs");
  CHECK_FALSE(os::network_file_system(0x65735546, "fuse.ext4"));
  CHECK_FALSE(os::network_file_system(0x65735546, "fuseblk"));
  CHECK_FALSE(os::network_file_system(0xEF53, "fuse.sshfs")); // ext4
  CHECK_FALSE(os::network_file_system(0x01021994, ""));       // tmpfs
  const Folder folder;
  CHECK(outcome_of([&] { os::refuse_network_file_system(folder / "a/b/c"); }) == Outcome::done);
}

TEST_CASE("a file that is mounted by itself is told from one that is not") {
  const Folder folder;
  write(folder / "file", "");
  write(folder / "source", "");
  CHECK_FALSE(os::is_mount_point(folder / "file"));
  CHECK_FALSE(os::is_mount_point(folder / "missing"));
  const int code = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount((folder / "source").c_str(), (folder / "file").c_str(), nullptr, MS_BIND,
                nullptr) != 0) {
      return 99;
    }
    return os::is_mount_point(folder / "file") && !os::is_mount_point(folder / "source") ? 0 : 1;
  });
  if (code == 99) {
    WARN("nothing may be mounted here: the mount point is not tested");
    return;
  }
  CHECK(code == 0);
}
