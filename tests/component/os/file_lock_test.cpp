#include "core/error.hpp"
#include "os/file_lock.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

#include <pthread.h>
#include <sys/file.h>

#include <chrono>
#include <memory>

using namespace oncerun;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::Forked;
using test::Pipe;
using test::Scratch;

namespace {

/// As a signal that arrives after some time.
class StopAfter final : public core::StopRequest {
 public:
  explicit StopAfter(std::chrono::milliseconds time) : m_at(Clock::now() + time) {}
  [[nodiscard]] int pending() const noexcept override { return Clock::now() >= m_at ? SIGTERM : 0; }
  [[nodiscard]] int poll_fd() const noexcept override { return -1; }

 private:
  Clock::time_point m_at;
};

os::UniqueFd open_file(const std::string& path) {
  return os::UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

/// A process that holds the lock of a file until it is told to end.
class Holder {
 public:
  explicit Holder(const std::string& path)
      : m_process([this, path] {
          const os::UniqueFd fd = open_file(path);
          const bool taken = flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
          m_ready.tell();
          (void)m_end.wait();
          return taken ? 0 : 1;
        }) {
    REQUIRE(m_ready.wait());
  }
  int end() {
    m_end.tell();
    return m_process.wait();
  }

 private:
  Pipe m_ready;
  Pipe m_end;
  Forked m_process;
};

/// Until somebody is seen to wait for a flock on the file.
void wait_for_waiter(const std::string& path) {
  const std::string inode = ":" + std::to_string(test::status_of(path).st_ino) + " ";
  test::wait_until([&] {
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
      if (line.find("-> FLOCK") != std::string::npos && line.find(inode) != std::string::npos) {
        return true;
      }
    }
    return false;
  });
}

const core::NoStopRequest k_no_stop;

} // namespace

TEST_CASE("a free file is locked, also after a stop was requested") {
  const Scratch folder;
  const os::UniqueFd fd = open_file(folder / "l");
  CHECK(os::lock_file(fd.get(), os::Deadline::after(0ms), StopAfter(0ms), "l") ==
        os::FileLock::taken);
}

TEST_CASE("the lock and flock(1) exclude each other") {
  const Scratch folder;
  const std::string path = folder / "l";
  {
    const os::UniqueFd fd = open_file(path);
    REQUIRE(os::lock_file(fd.get(), os::Deadline::after(0ms), k_no_stop, path) ==
            os::FileLock::taken);
    CHECK(test::run({"flock", "-n", "-E", "7", path, "true"}) == 7);
  }
  CHECK(test::run({"flock", "-n", "-E", "7", path, "true"}) == 0);

  test::Waiting other({"flock", path, "sh", "-c", "echo > '" + (folder / "held") + "'; read x"});
  test::wait_until([&] { return test::exists(folder / "held"); });
  const os::UniqueFd fd = open_file(path);
  CHECK(os::lock_file(fd.get(), os::Deadline::after(0ms), k_no_stop, path) ==
        os::FileLock::held_by_other);
  (void)other.end();
  CHECK(os::lock_file(fd.get(), os::Deadline::after(5s), k_no_stop, path) == os::FileLock::taken);
}

TEST_CASE("whoever waits gets the lock when its holder ends") {
  const Scratch folder;
  const std::string path = folder / "l";
  Holder holder(path);
  Forked waiter([&] {
    const os::UniqueFd fd = open_file(path);
    const os::FileLock result = os::lock_file(fd.get(), os::Deadline::never(), k_no_stop, path);
    return result == os::FileLock::taken ? 0 : 1;
  });
  wait_for_waiter(path);
  CHECK(holder.end() == 0);
  CHECK(waiter.wait() == 0);
}

TEST_CASE("a wait ends at its deadline, and soon after a stop request") {
  const Scratch folder;
  const std::string path = folder / "l";
  const Holder holder(path);
  const os::UniqueFd fd = open_file(path);
  const auto begin = Clock::now();
  SECTION("deadline") {
    CHECK(os::lock_file(fd.get(), os::Deadline::after(150ms), k_no_stop, path) ==
          os::FileLock::held_by_other);
    CHECK(Clock::now() - begin >= 150ms);
  }
  SECTION("stop") {
    CHECK(os::lock_file(fd.get(), os::Deadline::never(), StopAfter(150ms), path) ==
          os::FileLock::stopped);
    CHECK(Clock::now() - begin >= 150ms);
  }
  SECTION("stop, asked for before") {
    CHECK(os::lock_file(fd.get(), os::Deadline::never(), StopAfter(0ms), path) ==
          os::FileLock::stopped);
  }
  CHECK(Clock::now() - begin < 1s);
}

TEST_CASE("a wait leaves signals as they were and no timer behind") {
  const Scratch folder;
  const std::string path = folder / "l";
  const Holder holder(path);
  const int outcome = Forked([&] {
                        sigset_t all;
                        sigset_t mask;
                        sigfillset(&all);
                        pthread_sigmask(SIG_SETMASK, &all, nullptr);
                        for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
                          ::signal(signal, SIG_DFL);
                        }
                        const os::UniqueFd fd = open_file(path);
                        (void)os::lock_file(fd.get(), os::Deadline::after(200ms), k_no_stop, path);
                        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
                        sigset_t pending;
                        sigpending(&pending);
                        for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
                          struct sigaction action {};
                          sigaction(signal, nullptr, &action);
                          if (action.sa_handler != SIG_DFL || sigismember(&mask, signal) != 1 ||
                              sigismember(&pending, signal) != 0) {
                            return 1;
                          }
                        }
                        return test::read_text("/proc/self/timers").empty() ? 0 : 2;
                      }).wait();
  CHECK(outcome == 0);
}

TEST_CASE("what cannot be locked is an error and not a lost race") {
  const Scratch folder;
  const os::UniqueFd fd(open(folder.path().c_str(), O_PATH | O_CLOEXEC));
  try {
    (void)os::lock_file(fd.get(), os::Deadline::after(0ms), k_no_stop, "/the/file");
    FAIL("it was locked");
  } catch (const core::Error& error) {
    CHECK(error.outcome() == core::Outcome::unavailable);
    CHECK(std::string(error.what()) == "cannot lock /the/file: Bad file descriptor");
  }
}

TEST_CASE("a lock file that was replaced while somebody waited is opened and locked anew") {
  const Scratch folder;
  const std::string path = folder / "l";
  Holder holder(path);
  Pipe ready;
  Pipe end;
  Forked waiter([&] {
    const os::UniqueFd fd = os::lock_path(
        path, [&] { return open_file(path); }, os::Deadline::never(), k_no_stop);
    ready.tell();
    (void)end.wait();
    return os::is_same_file(fd.get(), path) ? 0 : 1;
  });
  wait_for_waiter(path);
  REQUIRE(unlink(path.c_str()) == 0);
  CHECK(holder.end() == 0);
  REQUIRE(ready.wait());
  // A third one must find the new file locked.
  const os::UniqueFd third = os::lock_path(
      path, [&] { return open_file(path); }, os::Deadline::after(0ms), k_no_stop);
  CHECK_FALSE(third);
  end.tell();
  CHECK(waiter.wait() == 0);
}

TEST_CASE("a released lock is free although a child still has the descriptor") {
  const Scratch folder;
  const std::string path = folder / "l";
  os::HeldFlock lock(
      os::lock_path(
          path, [&] { return open_file(path); }, os::Deadline::after(0ms), k_no_stop),
      path, true);
  Pipe end;
  Forked child([&] {
    (void)end.wait();
    return 0;
  });
  const os::UniqueFd other = open_file(path);
  CHECK(os::is_marked_held(other.get(), path));
  CHECK(os::lock_file(other.get(), os::Deadline::after(0ms), k_no_stop, path) ==
        os::FileLock::held_by_other);
  lock.release();
  CHECK_FALSE(os::is_marked_held(other.get(), path));
  CHECK(os::lock_file(other.get(), os::Deadline::after(0ms), k_no_stop, path) ==
        os::FileLock::taken);
  end.tell();
  CHECK(child.wait() == 0);
}

TEST_CASE("the lock of a killed process stays with who inherited it") {
  const Scratch folder;
  const std::string path = folder / "l";
  Pipe ready;
  Pipe end;
  Pipe gone;
  Forked owner([&] {
    os::HeldFlock lock(
        os::lock_path(
            path, [&] { return open_file(path); }, os::Deadline::after(0ms), k_no_stop),
        path, true);
    if (fork() == 0) {
      ready.tell();
      (void)end.wait();
      _exit(0); // the last writer of `gone`
    }
    (void)pause();
    return 0;
  });
  REQUIRE(ready.wait());
  CHECK(owner.kill() == -SIGKILL);
  const os::UniqueFd fd = open_file(path);
  CHECK(os::is_marked_held(fd.get(), path));
  CHECK(os::lock_file(fd.get(), os::Deadline::after(0ms), k_no_stop, path) ==
        os::FileLock::held_by_other);
  end.tell();
  CHECK_FALSE(gone.wait());
  CHECK(os::lock_file(fd.get(), os::Deadline::after(5s), k_no_stop, path) == os::FileLock::taken);
  CHECK_FALSE(os::is_marked_held(fd.get(), path));
}
