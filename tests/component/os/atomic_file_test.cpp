#include "core/error.hpp"
#include "os/atomic_file.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

#include <grp.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <cerrno>
#include <functional>
#include <iostream>

using namespace oncerun;
using os::AtomicFile;
using test::Forked;
using test::Scratch;

namespace {

using Names = std::vector<std::string>;
constexpr uid_t k_nobody = 65534;

mode_t mode_of(const std::string& path) {
  return test::status_of(path).st_mode & 07777;
}

/// The outcome and text of the error that `action` throws.
template<typename Action>
std::string refusal_of(Action&& action, core::Outcome outcome = core::Outcome::unwritable) {
  try {
    action();
  } catch (const core::Error& error) {
    CHECK(core::name_of(error.outcome()) == core::name_of(outcome));
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Runs `action` in a mount namespace of its own; 77 if that is not permitted here.
int in_mount_namespace(const std::function<int()>& action) {
  return Forked([&] {
           if (unshare(CLONE_NEWNS) != 0 ||
               mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
             return 77;
           }
           return action();
         })
      .wait();
}

bool was_skipped(int code) {
  if (code == 77) {
    std::cerr << "skipped: no mount namespace is permitted here\n";
  }
  return code == 77;
}

/// What happens in place of a call of flock(2), which then fails with the errno that this returns;
/// 0 lets the call through.
std::function<int()> g_instead_of_flock;

/// Runs `action` where no file without a name can be made: without /proc it would get none.
int where_files_have_names(const std::function<int()>& action) {
  return in_mount_namespace(
      [&] { return mount("none", "/proc", "tmpfs", 0, nullptr) != 0 ? 77 : action(); });
}

} // namespace

/// In place of the C library's, for this test program.
extern "C" int flock(int fd, int operation) noexcept {
  if (g_instead_of_flock) {
    if (const int error = g_instead_of_flock(); error != 0) {
      errno = error;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

TEST_CASE("a new file has mode 0600 whatever the umask is, and nothing else is left") {
  const Scratch folder;
  const mode_t before = umask(GENERATE(mode_t{0000}, mode_t{0022}, mode_t{0077}, mode_t{0777}));
  AtomicFile(folder / "st.json", 4096).commit("text");
  umask(before);
  CHECK(test::read_text(folder / "st.json") == "text");
  CHECK(mode_of(folder / "st.json") == 0600);
  CHECK(test::names_in(folder.path()) == Names{"st.json"});
}

TEST_CASE("an existing file keeps owner and mode") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, "a text that is longer than the new one");
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  REQUIRE(chown(path.c_str(), k_nobody, 4) == 0);
  AtomicFile(path).commit("new");
  CHECK(test::read_text(path) == "new");
  CHECK(mode_of(path) == 0640);
  CHECK(test::status_of(path).st_uid == k_nobody);
  CHECK(test::status_of(path).st_gid == 4);
}

TEST_CASE("what changed between taking the temporary file and the commit is kept too") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  AtomicFile file(path, 4096);
  test::write_text(path, "somebody else's");
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  file.commit("new");
  CHECK(test::read_text(path) == "new");
  CHECK(mode_of(path) == 0644);
}

TEST_CASE("a symbolic link stays and its target is replaced") {
  const Scratch folder;
  REQUIRE(mkdir((folder / "real").c_str(), 0700) == 0);
  REQUIRE(symlink("real/st.json", (folder / "st.json").c_str()) == 0);
  SECTION("with a target") {
    test::write_text(folder / "real/st.json", "old");
  }
  SECTION("dangling") {
  }
  AtomicFile(folder / "st.json").commit("new");
  CHECK(S_ISLNK(test::status_of(folder / "st.json").st_mode));
  CHECK(test::read_text(folder / "real/st.json") == "new");
  CHECK(test::names_in(folder / "real") == Names{"st.json"});
  CHECK(test::names_in(folder.path()) == Names{"real", "st.json"});
}

TEST_CASE("without a commit nothing happens") {
  const Scratch folder;
  test::write_text(folder / "st.json", "old");
  {
    AtomicFile first(folder / "st.json", 4096);
    const AtomicFile second(std::move(first));
    CHECK(test::names_in(folder.path()) == Names{"st.json"});
  }
  CHECK(test::read_text(folder / "st.json") == "old");
  CHECK(test::names_in(folder.path()) == Names{"st.json"});
}

TEST_CASE("the content may be shorter or longer than what was reserved") {
  const Scratch folder;
  const std::string content(
      GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{100'000}), 'x');
  AtomicFile(folder / "f", 4096).commit(content, GENERATE(true, false));
  CHECK(test::read_text(folder / "f") == content);
}

TEST_CASE("a commit is made once") {
  const Scratch folder;
  AtomicFile file(folder / "f");
  file.commit("first");
  CHECK(
      contains(refusal_of([&] { file.commit("second"); }, core::Outcome::internal), folder / "f"));
  CHECK(test::read_text(folder / "f") == "first");
}

TEST_CASE("what cannot be replaced is refused before anything is written") {
  const Scratch folder;
  SECTION("a missing folder") {
    const std::string path = folder / "no/st.json";
    CHECK(refusal_of([&] { AtomicFile file(path); }) ==
          "cannot open the folder " + (folder / "no") + ": No such file or directory");
  }
  SECTION("a folder") {
    REQUIRE(mkdir((folder / "d").c_str(), 0700) == 0);
    CHECK(refusal_of([&] { AtomicFile file(folder / "d"); }) ==
          "cannot write " + (folder / "d") + ": Is a directory");
  }
  SECTION("a FIFO") {
    REQUIRE(mkfifo((folder / "p").c_str(), 0600) == 0);
    CHECK(contains(refusal_of([&] { AtomicFile file(folder / "p"); }), "not a regular file"));
  }
  SECTION("links that go round") {
    REQUIRE(symlink("b", (folder / "a").c_str()) == 0);
    REQUIRE(symlink("a", (folder / "b").c_str()) == 0);
    CHECK(contains(refusal_of([&] { AtomicFile file(folder / "a"); }), folder / "a"));
  }
}

TEST_CASE("another user's file is never taken over") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, "root's");
  // A sticky folder, as /tmp is, in which nobody could make files but not replace ours; and an open
  // one, in which it could.
  REQUIRE(chmod(folder.path().c_str(), GENERATE(mode_t{01777}, mode_t{0777})) == 0);
  const int code = Forked([&] {
                     if (setegid(k_nobody) != 0 || seteuid(k_nobody) != 0) {
                       return 3;
                     }
                     const std::string text = refusal_of([&] { AtomicFile file(path); });
                     return contains(text, path + " (owned by root (uid 0), mode 06") ? 0 : 1;
                   }).wait();
  CHECK(code == 0);
  CHECK(test::read_text(path) == "root's");
  CHECK(test::status_of(path).st_uid == 0);
  CHECK(test::names_in(folder.path()) == Names{"st.json"});
}

TEST_CASE("a group that cannot be kept matters only where it may do something") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, "old");
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  REQUIRE(chown(path.c_str(), k_nobody, 4) == 0);
  const auto [mode, refused] =
      GENERATE(table<mode_t, bool>({{0600, false}, {0644, false}, {0640, true}, {0660, true}}));
  REQUIRE(chmod(path.c_str(), mode) == 0);
  const int code =
      Forked([&] {
        if (setgroups(0, nullptr) != 0 || setegid(k_nobody) != 0 || seteuid(k_nobody) != 0) {
          return 3;
        }
        try {
          AtomicFile(path).commit("new");
          return 0;
        } catch (const core::Error&) {
          return 1;
        }
      }).wait();
  CHECK(code == (refused ? 1 : 0));
  CHECK(test::read_text(path) == (refused ? "old" : "new"));
  CHECK(mode_of(path) == mode);
}

TEST_CASE("a file that is a mount point is found out at once, and nothing is left behind") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, "old");
  test::write_text(folder / "elsewhere", "mounted");
  const int code = in_mount_namespace([&] {
    if (mount((folder / "elsewhere").c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      return 77;
    }
    const std::string text = refusal_of([&] { AtomicFile file(path); });
    return text == "cannot replace " + path + ": the file itself is a mount point" &&
                   test::names_in(folder.path()) == Names{"elsewhere", "st.json"}
               ? 0
               : 1;
  });
  if (!was_skipped(code)) {
    CHECK(code == 0);
  }
}

TEST_CASE("what was reserved is there when the disk is full, and the old file is safe") {
  const Scratch folder;
  const int code = in_mount_namespace([&] {
    if (mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      return 77;
    }
    const std::string path = folder / "st.json";
    test::write_text(path, "old");
    AtomicFile reserved(path, 8192);
    AtomicFile bare(path);
    test::write_text(folder / "ballast", std::string(2 << 20, 'x'));
    const std::string at_once = refusal_of([&] { AtomicFile file(path, 8192); });
    const std::string later = refusal_of([&] { bare.commit(std::string(8192, 'y')); });
    if (!contains(at_once, "No space left") || !contains(later, "No space left") ||
        test::read_text(path) != "old") {
      return 1;
    }
    reserved.commit(std::string(8192, 'z'));
    return test::read_text(path) == std::string(8192, 'z') &&
                   test::names_in(folder.path()) == Names{"ballast", "st.json"}
               ? 0
               : 2;
  });
  if (!was_skipped(code)) {
    CHECK(code == 0);
  }
}

TEST_CASE("without O_TMPFILE a named temporary file does the same") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, "old");
  const int code = in_mount_namespace([&] {
    // A nameless file could not be named without /proc.
    if (mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
      return 77;
    }
    {
      AtomicFile file(path, 4096);
      const Names names = test::names_in(folder.path());
      if (names.size() != 2 || !names[0].starts_with(".st.json.oncerun-") ||
          names[0].size() != std::string(".st.json.oncerun-XXXXXX").size()) {
        return 1;
      }
      // It belongs to somebody who lives.
      os::remove_stale_temporaries(path);
      if (test::names_in(folder.path()) != names) {
        return 2;
      }
      file.commit("new");
    }
    { const AtomicFile forgotten(path); }
    return test::read_text(path) == "new" && test::names_in(folder.path()) == Names{"st.json"} ? 0
                                                                                               : 3;
  });
  if (!was_skipped(code)) {
    CHECK(code == 0);
  }
}

TEST_CASE("a named temporary file that cannot be locked is refused with its reason, and removed") {
  const Scratch folder;
  const int code = where_files_have_names([&] {
    int calls = 0;
    g_instead_of_flock = [&] {
      ++calls;
      return ENOLCK;
    };
    const std::string text = refusal_of([&] { AtomicFile file(folder / "st.json"); });
    return calls == 1 && contains(text, "No locks available") &&
                   test::names_in(folder.path()).empty()
               ? 0
               : 1;
  });
  if (!was_skipped(code)) {
    CHECK(code == 0);
  }
}

TEST_CASE("who clears leftovers away and is faster than the lock costs a name, not the file") {
  const Scratch folder;
  // He has removed it already, or holds its lock and is about to.
  const bool removed = GENERATE(true, false);
  const int code = where_files_have_names([&] {
    int calls = 0;
    g_instead_of_flock = [&] {
      if (++calls > 1) {
        return 0;
      }
      if (!removed) {
        return EWOULDBLOCK;
      }
      const Names names = test::names_in(folder.path());
      return unlink((folder / names.at(0)).c_str()) == 0 ? 0 : EIO;
    };
    AtomicFile(folder / "st.json").commit("text");
    return calls == 2 && test::read_text(folder / "st.json") == "text" &&
                   test::names_in(folder.path()) == Names{"st.json"}
               ? 0
               : 1;
  });
  if (!was_skipped(code)) {
    CHECK(code == 0);
  }
}

TEST_CASE("what a killed writer left is cleared away, and nothing else") {
  const Scratch folder;
  for (const char* name : {".st.json.oncerun-abc123", ".st.json.oncerun-abc1234", "st.json",
                           ".other.json.oncerun-abc123", "st.json.oncerun-abc123"}) {
    test::write_text(folder / name, "x");
  }
  os::remove_stale_temporaries(folder / "st.json");
  CHECK(test::names_in(folder.path()) == Names{".other.json.oncerun-abc123",
                                               ".st.json.oncerun-abc1234", "st.json",
                                               "st.json.oncerun-abc123"});
}

TEST_CASE("a name of the greatest length still has a temporary one") {
  const Scratch folder;
  const std::string path = folder / std::string(255, 'n');
  AtomicFile(path).commit("text");
  CHECK(test::read_text(path) == "text");
}
