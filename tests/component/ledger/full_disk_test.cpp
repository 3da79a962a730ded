#include "ledger_fixture.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <csignal>
#include <cstdio>

using namespace oncerun;
using namespace oncerun::test;
using core::Outcome;
using core::Recorded;
using core::RunStatus;

namespace {

constexpr int k_not_permitted = 99;

/// Fills the file system to the last block.
void fill(const std::string& folder) {
  const int fd = ::open((folder + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  ::close(fd);
}

/// Runs `action` in a child with a small tmpfs of its own at `folder`; returns its exit code.
int on_small_disk(const std::string& folder, const std::function<int()>& action) {
  Child child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.c_str(), "tmpfs", 0, "size=1m") != 0) {
      return k_not_permitted;
    }
    return action();
  });
  return child.wait();
}

} // namespace

TEST_CASE("a full disk is unwritable, never a signal, and nothing is claimed") {
  const TemporaryFolder folder;
  const bool used_before = GENERATE(true, false);
  INFO("a ledger was there: " << used_before);
  const int code = on_small_disk(folder.path(), [&] {
    const std::string path = folder / "led.db";
    if (used_before && !run_once(*open(path), key("settle", "2026-10-25"))) {
      return 1;
    }
    fill(folder.path());
    const auto ledger = open(path);
    for (int i = 0; i < 5; ++i) {
      // A kept WAL may have room; then the claim is whole.
      const auto run = key("settle", "2026-11-" + std::to_string(10 + i));
      bool claimed = false;
      const Outcome outcome =
          outcome_of([&] { claimed = claim(*ledger, request(run)) != nullptr; });
      if (outcome != (claimed ? Outcome::done : Outcome::unwritable)) {
        return 2;
      }
      if (!used_before && claimed) {
        return 3;
      }
    }
    // Once there is space again everything goes on.
    std::filesystem::remove(folder / "filler");
    return run_once(*open(path), key("settle", "2026-10-26")) ? 0 : 4;
  });
  if (code == k_not_permitted) {
    WARN("no tmpfs may be mounted here: the full disk is not tested");
    return;
  }
  CHECK(code == 0);
}

TEST_CASE("a command that fills the disk still gets its result recorded, or at least spooled") {
  const TemporaryFolder folder;
  const bool had_time = GENERATE(true, false);
  INFO("while_running was called: " << had_time);
  const int code = on_small_disk(folder.path(), [&] {
    const std::string path = folder / "led.db";
    const auto run = key("settle", "2026-10-26");
    auto ledger = open(path);
    auto held = claim(*ledger, request(run));
    if (had_time) {
      held->while_running();
    }
    fill(folder.path());
    const auto result = ended(RunStatus::done, 0);
    const Outcome outcome = outcome_of([&] {
      if (held->finish(result, std::chrono::milliseconds(300), k_no_stop) != Recorded::recorded) {
        throw core::Error(Outcome::internal, "not recorded");
      }
    });
    if (outcome == Outcome::unwritable && !had_time) {
      if (held->spool(result) != path + "-spool") {
        return 1;
      }
    } else if (outcome != Outcome::done) {
      return 2;
    }
    held.reset();
    ledger.reset();
    std::filesystem::remove(folder / "filler");
    ledger = open(path);
    // Never a second start.
    if (claim(*ledger, request(run), core::Guarantee::at_least_once)) {
      return 3;
    }
    return status_in(path, run) == "done" ? 0 : 4;
  });
  if (code == k_not_permitted) {
    WARN("no tmpfs may be mounted here: the full disk is not tested");
    return;
  }
  CHECK(code == 0);
}

TEST_CASE("a ledger that may not be written is unwritable, and says whose it is") {
  if (::geteuid() != 0) {
    WARN("not root: another user's ledger cannot be made");
    return;
  }
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-25")));
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  const bool readable = GENERATE(true, false);
  REQUIRE(::chmod(path.c_str(), readable ? 0644 : 0600) == 0);
  Child other([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) {
      return 1;
    }
    const auto ledger = open(path);
    std::string message;
    const Outcome outcome = outcome_of(
        [&] {
          (void)ledger->look(key("settle", "2026-10-26"));
          (void)claim(*ledger, request(key("settle", "2026-10-26")));
        },
        &message);
    if (outcome != Outcome::unwritable) {
      return 2;
    }
    return message.find("led.db") != std::string::npos &&
                   message.find("owned by root") != std::string::npos
               ? 0
               : 3;
  });
  CHECK(other.wait() == 0);
}

TEST_CASE("root leaves a user's ledger usable by that user") {
  if (::geteuid() != 0) {
    WARN("not root: nothing can be done as another user");
    return;
  }
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(::chown(folder.path().c_str(), 65534, 65534) == 0);
  REQUIRE(run_once(*open(path), key("settle", "2026-10-25")));
  for (const char* suffix : {"", "-guard", "-life", "-spool", "-wal", "-shm"}) {
    INFO(suffix);
    struct stat info {};
    REQUIRE(::stat((path + suffix).c_str(), &info) == 0);
    CHECK(info.st_uid == 65534);
  }
  Child user([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) {
      return 1;
    }
    return run_once(*open(path), key("settle", "2026-10-26")) ? 0 : 2;
  });
  CHECK(user.wait() == 0);
}
