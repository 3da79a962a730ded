#include "os/fd.hpp"
#include "os/process.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

using namespace oncerun;

namespace {

/// A process that runs `body`, which says that it is ready through a descriptor and then waits; its
/// end comes with this object's.
class Child {
 public:
  explicit Child(const std::function<void(int)>& body) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    m_pid = ::fork();
    if (m_pid == 0) {
      body(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    m_reader = os::UniqueFd(ends[0]);
    REQUIRE(m_pid > 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(m_pid, SIGKILL);
    while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  [[nodiscard]] pid_t pid() const noexcept { return m_pid; }
  /// What the body wrote, up to a newline.
  [[nodiscard]] std::string line() const {
    std::string text;
    char letter = '\0';
    while (::read(m_reader.get(), &letter, 1) == 1 && letter != '\n') {
      text += letter;
    }
    return text;
  }

 private:
  pid_t m_pid = -1;
  os::UniqueFd m_reader;
};

void ready(int fd, const std::string& word = "ready") {
  const std::string line = word + "\n";
  static_cast<void>(::write(fd, line.data(), line.size()));
}

void pause_for_ever() {
  while (true) {
    ::pause();
  }
}

/// A shell with this environment that says "ready".
Child with_environment(std::vector<std::string> environment) {
  return Child([&environment](int fd) {
    ::dup2(fd, STDOUT_FILENO);
    std::vector<char*> pointers;
    for (std::string& entry : environment) {
      pointers.push_back(entry.data());
    }
    pointers.push_back(nullptr);
    ::execle("/bin/sh", "sh", "-c", "echo ready; exec sleep 60", nullptr, pointers.data());
  });
}

bool has(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

bool shows(const std::vector<os::Process>& processes, pid_t pid) {
  return std::any_of(processes.begin(), processes.end(),
                     [pid](const os::Process& process) { return process.pid == pid; });
}

} // namespace

TEST_CASE("a stat line is parsed behind its last parenthesis") {
  const std::string tail = " S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n";
  for (const std::string name : {"sh", "a b", "a) S 1 (", "a\nb", ")", ""}) {
    const auto process = os::parse_stat("42 (" + name + ")" + tail);
    REQUIRE(process);
    CHECK(process->pid == 42);
    CHECK(process->state == 'S');
    CHECK(process->parent == 7);
    CHECK(process->start_ticks == 987654);
  }
  for (const std::string broken :
       {"", "42", "42 (sh", "x (sh) S 7", "42 (sh) S", "42 (sh) S 7 1"}) {
    CHECK_FALSE(os::parse_stat(broken));
  }
}

TEST_CASE("processes and their descendants are listed") {
  const Child child([](int fd) {
    ::prctl(PR_SET_NAME, "a) Z 1 (b\nc");
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      pause_for_ever();
    }
    ready(fd, std::to_string(grandchild));
    pause_for_ever();
  });
  const pid_t grandchild = std::stoi(child.line());
  const auto own = os::find_process(::getpid());
  REQUIRE(own);
  CHECK(own->parent == ::getppid());
  const auto found = os::find_process(child.pid());
  REQUIRE(found);
  CHECK(found->parent == ::getpid());
  CHECK(found->start_ticks >= own->start_ticks);

  const auto all = os::list_processes();
  CHECK(shows(all, ::getpid()));
  CHECK(shows(all, child.pid()));
  const auto below = os::descendants(::getpid());
  CHECK_FALSE(shows(below, ::getpid()));
  CHECK(shows(below, child.pid()));
  CHECK(shows(below, grandchild));
  CHECK(shows(os::descendants(child.pid()), grandchild));
  CHECK(os::descendants(grandchild).empty());
  ::kill(grandchild, SIGKILL);
}

TEST_CASE("descendants are found in any order and a circle does not hang") {
  const std::vector<os::Process> list{{5, 4, 0, 'S'}, {4, 3, 0, 'S'}, {3, 2, 0, 'S'},
                                      {9, 1, 0, 'S'}, {2, 1, 0, 'S'}, {7, 8, 0, 'S'},
                                      {8, 7, 0, 'S'}, {6, 3, 0, 'S'}};
  std::vector<pid_t> pids;
  for (const os::Process& process : os::descendants(2, list)) {
    pids.push_back(process.pid);
  }
  std::sort(pids.begin(), pids.end());
  CHECK(pids == std::vector<pid_t>{3, 4, 5, 6});
  CHECK(os::descendants(7, list).size() == 1);
}

TEST_CASE("what is gone is not found") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(0);
  }
  REQUIRE(::waitpid(pid, nullptr, 0) == pid);
  CHECK_FALSE(os::find_process(pid));
  CHECK(os::process_label(pid) == "pid " + std::to_string(pid));
  CHECK(os::pid_namespace_of(pid) == 0);
}

TEST_CASE("a process is found by a whole entry of its environment") {
  const std::string marker = "ONCERUN_TEST_MARK=" + std::to_string(::getpid());
  // Larger than any buffer, with the entry at its very end.
  std::vector<std::string> large(200, std::string("FILL=") + std::string(2'000, 'x'));
  large.push_back(marker);
  const Child last = with_environment(large);
  const Child first = with_environment({marker, "B=2"});
  const Child longer = with_environment({marker + "0"});
  const Child prefixed = with_environment({"X" + marker, "Y=" + marker});
  for (const Child* child : {&last, &first, &longer, &prefixed}) {
    REQUIRE(child->line() == "ready");
  }
  const auto pids = os::processes_with_environment(marker);
  CHECK(has(pids, last.pid()));
  CHECK(has(pids, first.pid()));
  CHECK_FALSE(has(pids, longer.pid()));
  CHECK_FALSE(has(pids, prefixed.pid()));
  CHECK(os::has_environment(last.pid(), marker));
  CHECK_FALSE(os::has_environment(longer.pid(), marker));
  CHECK(os::processes_with_environment("").empty());
}

TEST_CASE("a process whose main thread has ended is found by environment and by lock") {
  char name[] = "/tmp/oncerun-lock-XXXXXX";
  const os::UniqueFd file(::mkostemp(name, O_CLOEXEC));
  REQUIRE(file);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 4711;
  lock.l_len = 1;
  REQUIRE(::fcntl(file.get(), F_OFD_SETLK, &lock) == 0);
  struct stat status {};
  REQUIRE(::fstat(file.get(), &status) == 0);
  const Child child([](int fd) {
    static int out;
    out = fd;
    pthread_t thread{};
    ::pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          // Ready only when the main thread shows as a zombie.
          while (os::find_process(::getpid())->state != 'Z') {
            ::usleep(1'000);
          }
          ready(out);
          pause_for_ever();
          return nullptr;
        },
        nullptr);
    ::syscall(SYS_exit, 0); // this thread alone; pthread_exit(3) would unwind through the test
  });
  REQUIRE(child.line() == "ready");
  CHECK(has(os::processes_holding_byte(status.st_dev, status.st_ino, 4711), child.pid()));
  // The environment is the one that this test program was executed with.
  const char* path = std::getenv("PATH");
  REQUIRE(path != nullptr);
  CHECK(os::has_environment(child.pid(), std::string("PATH=") + path));
  ::unlink(name);
}

TEST_CASE("who holds a byte is found, and nobody else") {
  char name[] = "/tmp/oncerun-lock-XXXXXX";
  const os::UniqueFd file(::mkostemp(name, O_CLOEXEC));
  REQUIRE(file);
  struct stat status {};
  REQUIRE(::fstat(file.get(), &status) == 0);
  constexpr long long k_far = 1LL << 40;
  const auto holder = [&](off_t start, off_t length) {
    return Child([&name, start, length](int fd) {
      const int own = ::open(name, O_RDWR | O_CLOEXEC);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      lock.l_whence = SEEK_SET;
      lock.l_start = start;
      lock.l_len = length;
      if (own >= 0 && ::fcntl(own, F_OFD_SETLK, &lock) == 0) {
        ready(fd);
      }
      pause_for_ever();
    });
  };
  const Child one = holder(k_far, 1);
  const Child next = holder(k_far + 1, 1);
  const Child open_only([&](int fd) {
    static_cast<void>(::open(name, O_RDWR | O_CLOEXEC));
    ready(fd);
    pause_for_ever();
  });
  for (const Child* child : {&one, &next, &open_only}) {
    REQUIRE(child->line() == "ready");
  }
  CHECK(os::processes_holding_byte(status.st_dev, status.st_ino, k_far) ==
        std::vector<pid_t>{one.pid()});
  CHECK(os::processes_holding_byte(status.st_dev, status.st_ino, k_far + 1) ==
        std::vector<pid_t>{next.pid()});
  CHECK(os::processes_holding_byte(status.st_dev, status.st_ino, k_far + 2).empty());
  CHECK(os::processes_holding_byte(status.st_dev, status.st_ino + 1, k_far).empty());
  ::unlink(name);
}

TEST_CASE("a lock to the end of the file covers every byte behind its start") {
  char name[] = "/tmp/oncerun-lock-XXXXXX";
  const os::UniqueFd file(::mkostemp(name, O_CLOEXEC));
  REQUIRE(file);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 100;
  REQUIRE(::fcntl(file.get(), F_OFD_SETLK, &lock) == 0);
  struct stat status {};
  REQUIRE(::fstat(file.get(), &status) == 0);
  const Child child([](int fd) {
    ready(fd);
    pause_for_ever();
  });
  REQUIRE(child.line() == "ready");
  CHECK(has(os::processes_holding_byte(status.st_dev, status.st_ino, 1LL << 40), child.pid()));
  CHECK(os::processes_holding_byte(status.st_dev, status.st_ino, 99).empty());
  ::unlink(name);
}

TEST_CASE("a label has no control characters") {
  const Child child([](int fd) {
    ::prctl(PR_SET_NAME, "a\nb\x1b(");
    ready(fd);
    pause_for_ever();
  });
  REQUIRE(child.line() == "ready");
  CHECK(os::process_label(child.pid()) == "a?b?( (pid " + std::to_string(child.pid()) + ")");
  CHECK(os::pid_namespace_of(child.pid()) == os::pid_namespace_of(::getpid()));
  CHECK(os::pid_namespace_of(child.pid()) != 0);
}
