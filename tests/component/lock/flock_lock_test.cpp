#include "core/error.hpp"
#include "core/uuid.hpp"
#include "lock/flock_lock.hpp"
#include "lock/lock_note.hpp"
#include "os/host.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

#include <sys/file.h>

#include <chrono>
#include <functional>

using namespace oncerun;
using namespace std::chrono_literals;
using test::Forked;
using test::Pipe;
using test::Scratch;

namespace {

constexpr uid_t k_nobody = 65534;
const core::NoStopRequest k_no_stop;

core::RunKey key(const std::string& date, const std::string& job = "settle") {
  return {core::JobName::parse(job), core::BizDate(date)};
}

std::unique_ptr<core::Lock> job_lock(const Scratch& folder, const std::string& job = "settle") {
  return lock::job_flock(folder / "led.db-locks", folder / "led.db", core::JobName::parse(job));
}

std::string job_file(const Scratch& folder, const std::string& job = "settle") {
  return folder / ("led.db-locks/" + core::name_uuid(job) + ".lock");
}

std::unique_ptr<core::HeldLock> take(core::Lock& lock, const std::string& date = "2026-10-26",
                                     std::chrono::milliseconds wait = 0ms) {
  return lock.acquire(key(date), wait, k_no_stop);
}

bool flock_says_free(const std::string& path) {
  return test::run({"flock", "-n", "-E", "7", path, "true"}) == 0;
}

template<typename Action>
std::string refusal_of(Action&& action, core::Outcome outcome) {
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

class TermAfter final : public core::StopRequest {
 public:
  explicit TermAfter(std::chrono::milliseconds time)
      : m_at(std::chrono::steady_clock::now() + time) {}
  [[nodiscard]] int pending() const noexcept override {
    return std::chrono::steady_clock::now() >= m_at ? SIGTERM : 0;
  }
  [[nodiscard]] int poll_fd() const noexcept override { return -1; }

 private:
  std::chrono::steady_clock::time_point m_at;
};

int as_nobody(const std::function<int()>& action) {
  return Forked([&] {
           if (setegid(k_nobody) != 0 || seteuid(k_nobody) != 0) {
             return 3;
           }
           return action();
         })
      .wait();
}

} // namespace

TEST_CASE("one run of a job at a time, and each job for itself") {
  const Scratch folder;
  const auto first = job_lock(folder);
  const auto second = job_lock(folder);
  const auto other_job = job_lock(folder, "süd/../x");
  std::unique_ptr<core::HeldLock> held = take(*first);
  REQUIRE(held);
  CHECK(held->covers_job());
  CHECK(held->inherited_fd() >= 3);
  CHECK(fcntl(held->inherited_fd(), F_GETFD) == FD_CLOEXEC);
  CHECK_FALSE(take(*second));
  CHECK_FALSE(take(*second, "2026-10-27", 50ms));
  CHECK(take(*other_job));
  held->release();
  CHECK(held->inherited_fd() == -1);
  CHECK(take(*second));
  CHECK(take(*first)); // the one before was given back by its destructor
}

TEST_CASE("the folder has mode 0700, the file 0600, and neither goes away") {
  const Scratch folder;
  const mode_t before = umask(GENERATE(mode_t{0000}, mode_t{0077}));
  (void)take(*job_lock(folder));
  umask(before);
  CHECK((test::status_of(folder / "led.db-locks").st_mode & 07777) == 0700);
  CHECK((test::status_of(job_file(folder)).st_mode & 07777) == 0600);
  CHECK(test::names_in(folder / "led.db-locks").size() == 1);
}

TEST_CASE("root gives folder and file to the ledger's owner") {
  const Scratch folder;
  test::write_text(folder / "led.db", "");
  REQUIRE(chown((folder / "led.db").c_str(), k_nobody, k_nobody) == 0);
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  (void)take(*job_lock(folder));
  CHECK(test::status_of(folder / "led.db-locks").st_uid == k_nobody);
  CHECK(test::status_of(job_file(folder)).st_uid == k_nobody);
  CHECK(as_nobody([&] { return take(*job_lock(folder)) ? 0 : 1; }) == 0);
}

TEST_CASE("another user's lock is refused with file and owner, never passed over") {
  const Scratch folder;
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  const auto refused = [&](const std::string& what) {
    return as_nobody([&] {
      const std::string text =
          refusal_of([&] { (void)take(*job_lock(folder)); }, core::Outcome::unwritable);
      return contains(text, what) && contains(text, "Permission denied") ? 0 : 1;
    });
  };
  (void)take(*job_lock(folder));
  SECTION("the folder") {
    CHECK(refused((folder / "led.db-locks") + " owned by root (uid 0), mode 0700") == 0);
  }
  SECTION("the file") {
    REQUIRE(chmod((folder / "led.db-locks").c_str(), 01777) == 0);
    CHECK(refused(job_file(folder) + " (owned by root (uid 0), mode 0600)") == 0);
  }
  CHECK(test::status_of(job_file(folder)).st_uid == 0);
}

TEST_CASE("a symbolic link that another user could have planted is refused") {
  const Scratch folder;
  REQUIRE(mkdir((folder / "trap").c_str(), 0777) == 0);
  test::write_text(folder / "victim", "");
  SECTION("for the folder") {
    REQUIRE(symlink("trap", (folder / "led.db-locks").c_str()) == 0);
    REQUIRE(lchown((folder / "led.db-locks").c_str(), k_nobody, k_nobody) == 0);
    CHECK(contains(refusal_of([&] { (void)take(*job_lock(folder)); }, core::Outcome::config),
                   folder / "led.db-locks"));
  }
  SECTION("for the file, whoever owns it") {
    REQUIRE(mkdir((folder / "led.db-locks").c_str(), 0700) == 0);
    REQUIRE(symlink("../victim", job_file(folder).c_str()) == 0);
    CHECK(contains(refusal_of([&] { (void)take(*job_lock(folder)); }, core::Outcome::unwritable),
                   job_file(folder)));
  }
  SECTION("for a path that the user named") {
    REQUIRE(symlink("victim", (folder / "l").c_str()) == 0);
    CHECK(take(*lock::path_flock(folder / "l")));
    REQUIRE(lchown((folder / "l").c_str(), k_nobody, k_nobody) == 0);
    CHECK(contains(
        refusal_of([&] { (void)take(*lock::path_flock(folder / "l")); }, core::Outcome::config),
        folder / "l"));
  }
  CHECK(test::names_in(folder / "trap").empty());
  CHECK(test::read_text(folder / "victim").empty());
}

TEST_CASE("who holds the lock is known while it is held, without trying it") {
  const Scratch folder;
  const auto mine = job_lock(folder);
  const auto other = job_lock(folder);
  CHECK_FALSE(other->is_held());
  CHECK_FALSE(other->holder());
  CHECK(test::names_in(folder.path()).empty()); // looking makes nothing
  std::unique_ptr<core::HeldLock> held = take(*mine, "2026-10-27");
  CHECK(other->is_held());
  const std::optional<core::LockNote> note = other->holder();
  REQUIRE(note);
  CHECK(note->job == "settle");
  CHECK(note->date == "2026-10-27");
  CHECK(note->pid == getpid());
  CHECK(note->host == os::this_process().host);
  CHECK(note->boot_id == os::this_process().boot_id);
  CHECK(note->pid_namespace == os::this_process().pid_namespace);
  CHECK(note->since.size() == std::string("2026-10-26T18:00:00.123Z").size());
  held->release();
  CHECK_FALSE(other->is_held());
  CHECK_FALSE(other->holder());
  // Nobody who reads the file takes an old note for a holder's.
  const std::string left = test::read_text(job_file(folder));
  CHECK(left.substr(0, left.find('\0')) == "free\n");
  CHECK(left.find_first_not_of('\0', 5) == std::string::npos);
}

TEST_CASE("an orphaned command keeps its job locked, and the note says whose it is") {
  const Scratch folder;
  Pipe ready;
  Pipe end;
  Pipe gone;
  Forked owner([&] {
    const auto lock = job_lock(folder);
    const auto held = take(*lock, "2026-10-27");
    if (fork() == 0) {
      ready.tell();
      (void)end.wait();
      _exit(0);
    }
    (void)pause();
    return 0;
  });
  const pid_t owner_pid = owner.pid();
  REQUIRE(ready.wait());
  (void)owner.kill();
  const auto lock = job_lock(folder);
  CHECK_FALSE(take(*lock));
  CHECK(lock->is_held());
  REQUIRE(lock->holder());
  CHECK(lock->holder()->date == "2026-10-27");
  CHECK(lock->holder()->pid == owner_pid);
  end.tell();
  CHECK_FALSE(gone.wait());
  CHECK_FALSE(lock->holder()); // the note still stands there and is not believed
  CHECK(take(*lock));
}

TEST_CASE("what a command left behind does not keep the lock after a release") {
  const Scratch folder;
  const auto lock = job_lock(folder);
  std::unique_ptr<core::HeldLock> held = take(*lock);
  Pipe end;
  Forked daemon([&] {
    (void)end.wait();
    return 0;
  });
  held->release();
  CHECK(take(*lock));
  end.tell();
  CHECK(daemon.wait() == 0);
}

TEST_CASE("a lock file that is deleted during a run does not let two wait for different files") {
  const Scratch folder;
  const auto lock = job_lock(folder);
  std::unique_ptr<core::HeldLock> held = take(*lock);
  REQUIRE(unlink(job_file(folder).c_str()) == 0);
  // A new file is another lock: that the first run lives is for the ledger to see. But all that
  // come after agree on the new one.
  const auto second = take(*job_lock(folder));
  CHECK(second);
  CHECK_FALSE(take(*job_lock(folder)));
  held->release();
  CHECK_FALSE(take(*job_lock(folder)));
}

TEST_CASE("TERM ends a wait within a second") {
  const Scratch folder;
  const auto lock = GENERATE(true, false) ? job_lock(folder) : lock::path_flock(folder / "l");
  const auto held = take(*lock);
  const auto begin = std::chrono::steady_clock::now();
  try {
    (void)lock->acquire(key("2026-10-26"), std::chrono::hours(1), TermAfter(100ms));
    FAIL("it did not wait");
  } catch (const core::Interrupted& stop) {
    CHECK(stop.signal() == SIGTERM);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 1s);
}

TEST_CASE("200 runs, 8 at a time, never overlap") {
  const Scratch folder;
  std::vector<std::unique_ptr<Forked>> runners;
  for (int i = 0; i < 8; ++i) {
    runners.push_back(std::make_unique<Forked>([&] {
      const auto lock = job_lock(folder);
      for (int run = 0; run < 25; ++run) {
        const auto held = take(*lock, "2026-10-26", 60s);
        if (!held) {
          return 1;
        }
        const os::UniqueFd inside(open((folder / "inside").c_str(), O_CREAT | O_EXCL, 0600));
        if (!inside) {
          return 2;
        }
        unlink((folder / "inside").c_str());
      }
      return 0;
    }));
  }
  for (const auto& runner : runners) {
    CHECK(runner->wait() == 0);
  }
}

TEST_CASE("a path that the user names is shared with flock(1), and never written") {
  const Scratch folder;
  const std::string path = folder / "l";
  SECTION("a file") {
    test::write_text(path, "its own content");
  }
  SECTION("a folder") {
    REQUIRE(mkdir(path.c_str(), 0755) == 0);
  }
  SECTION("a file that may not be written") {
    test::write_text(path, "its own content");
    REQUIRE(chmod(path.c_str(), 0444) == 0);
  }
  const struct stat before = test::status_of(path);
  const auto lock = lock::path_flock(path);
  CHECK_FALSE(lock->is_held());
  {
    const auto held = take(*lock);
    REQUIRE(held);
    CHECK(held->covers_job());
    CHECK_FALSE(flock_says_free(path));
    CHECK(lock->is_held());
    CHECK_FALSE(lock->holder());
  }
  CHECK(flock_says_free(path));
  test::Waiting other({"flock", path, "sh", "-c", "echo > '" + (folder / "held") + "'; read x"});
  test::wait_until([&] { return test::exists(folder / "held"); });
  CHECK(lock->is_held());
  CHECK_FALSE(take(*lock));
  (void)other.end();
  CHECK(take(*lock, "2026-10-26", 5s));
  const struct stat after = test::status_of(path);
  CHECK(after.st_ino == before.st_ino);
  CHECK(after.st_mode == before.st_mode);
  CHECK(after.st_mtim.tv_sec == before.st_mtim.tv_sec);
  CHECK(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
  if (S_ISREG(after.st_mode)) {
    CHECK(test::read_text(path) == "its own content");
  }
}

TEST_CASE("a path that may only be read, or only be written, is locked all the same") {
  const Scratch folder;
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  test::write_text(folder / "l", "");
  REQUIRE(chmod((folder / "l").c_str(), GENERATE(mode_t{0644}, mode_t{0602})) == 0);
  CHECK(as_nobody([&] { return take(*lock::path_flock(folder / "l")) ? 0 : 1; }) == 0);
}

TEST_CASE("a path that is missing is made, with mode 0600, or refused with the reason") {
  const Scratch folder;
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  CHECK(as_nobody([&] {
          const std::string text = refusal_of([&] { (void)take(*lock::path_flock(folder / "l")); },
                                              core::Outcome::unwritable);
          return contains(text, folder / "l") && contains(text, "owned by root (uid 0)") ? 0 : 1;
        }) == 0);
  CHECK_FALSE(test::exists(folder / "l"));
  CHECK(take(*lock::path_flock(folder / "l")));
  CHECK((test::status_of(folder / "l").st_mode & 07777) == 0600);
  CHECK(contains(refusal_of([&] { (void)take(*lock::path_flock(folder / "no/l")); },
                            core::Outcome::unwritable),
                 folder / "no/l"));
}

TEST_CASE("no lock keeps nobody out") {
  const auto lock = lock::no_lock();
  const auto first = take(*lock);
  const auto second = take(*lock);
  REQUIRE(second);
  CHECK(second->inherited_fd() == -1);
  CHECK_FALSE(second->covers_job());
  CHECK_FALSE(lock->is_held());
}

TEST_CASE("a note makes the round trip, and half a note is none") {
  const core::LockNote note{.job = "süd = x",
                            .date = "order=7 end",
                            .host = "a\nb",
                            .since = "2026-10-26T18:00:00.123Z",
                            .machine_id = "m",
                            .boot_id = "b",
                            .pid_namespace = 4026531836,
                            .pid = 123};
  const std::string text = lock::print_note(note);
  const std::optional<core::LockNote> read = lock::parse_note(text + "pid=7\nrest of a longer one");
  REQUIRE(read);
  CHECK(read->job == "süd = x");
  CHECK(read->date == "order=7 end");
  CHECK(read->host == "a b");
  CHECK(read->since == note.since);
  CHECK(read->pid_namespace == note.pid_namespace);
  CHECK(read->pid == 123);
  for (std::size_t size = 0; size < text.size(); ++size) {
    CHECK_FALSE(lock::parse_note(std::string_view(text).substr(0, size)));
  }
  CHECK_FALSE(lock::parse_note("oncerun lock 1\npid=x\nend\n"));
  CHECK_FALSE(lock::parse_note("something else\nend\n"));
}
