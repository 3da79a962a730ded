#pragma once

#include "child/supervise.hpp"
#include "core/error.hpp"
#include "os/fd.hpp"
#include "os/host.hpp"
#include "os/process.hpp"
#include "os/signals.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

// Supervising changes the process (mask, dispositions, subreaper) and reaps every child, so each
// test does it in a process of its own and hears of the ending through a pipe.

namespace oncerun::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// No wait of a test lasts longer; a test that gets there has failed.
constexpr seconds k_patience{20};

struct Pipe {
  os::UniqueFd reader;
  os::UniqueFd writer;
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    reader = os::UniqueFd(ends[0]);
    writer = os::UniqueFd(ends[1]);
  }
};

/// Whether the descriptor becomes readable, or ends, in time.
inline bool readable(int fd, milliseconds limit = k_patience) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    pollfd polled{fd, POLLIN, 0};
    const int count = ::poll(&polled, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (count >= 0 || errno != EINTR) {
      return count > 0;
    }
  }
}

/// One line without its newline; what there is at the end of file.
inline std::string read_line(int fd) {
  std::string line;
  char letter = '\0';
  while (readable(fd) && ::read(fd, &letter, 1) == 1 && letter != '\n') {
    line += letter;
  }
  return line;
}

/// Everything until all who could write have closed it.
inline std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (readable(fd)) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count <= 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  FAIL("nothing to read and nobody closed it: " << text);
  return text;
}

/// Looks again and again until it holds, or patience ends.
inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + k_patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "oncerun-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    m_path = name;
    std::filesystem::permissions(m_path, std::filesystem::perms(0755));
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(m_path, ignored);
  }
  [[nodiscard]] std::string path() const { return m_path.string(); }
  [[nodiscard]] std::string path(const std::string& name) const { return (m_path / name).string(); }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text,
                                  unsigned mode = 0644) const {
    std::ofstream(m_path / name) << text;
    std::filesystem::permissions(m_path / name, std::filesystem::perms(mode));
    return path(name);
  }

 private:
  std::filesystem::path m_path;
};

/// A process that calls `body` and ends with what that returns; killed when it goes out of scope,
/// together with everything whose environment has its marker.
class Fork {
 public:
  explicit Fork(const std::function<int()>& body) : m_pid(::fork()) {
    if (m_pid == 0) {
      int code = 99;
      try {
        code = body();
      } catch (const std::exception&) {
        code = 98;
      }
      ::_exit(code);
    }
    REQUIRE(m_pid > 0);
  }
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;
  ~Fork() {
    if (m_pid > 0) {
      ::kill(m_pid, SIGKILL);
      static_cast<void>(wait());
    }
  }
  [[nodiscard]] pid_t pid() const noexcept { return m_pid; }
  /// The status of waitpid(2).
  int wait() {
    int status = -1;
    while (m_pid > 0 && ::waitpid(m_pid, &status, 0) < 0 && errno == EINTR) {
    }
    m_pid = -1;
    return status;
  }

 private:
  pid_t m_pid;
};

/// What a test says about a start beside the command.
struct Setting {
  child::Limits limits{};
  std::vector<int> inherited_fds{};
  std::vector<std::string> environment{"PATH=/usr/bin:/bin"};
  std::function<void()> before{};         ///< in oncerun's place, before it looks at its signals
  std::function<void()> after_start{};    ///< after execve, before anything is waited for
  std::function<void()> after_a_moment{}; ///< when the command still runs then
  std::function<void()> at_the_end{};     ///< when supervise() has returned
};

inline std::vector<std::string> shell(const std::string& script) {
  return {"sh", "-c", script};
}

/// A supervised command whose stdout is read here.
class Supervised {
 public:
  explicit Supervised(std::vector<std::string> argv, Setting setting = {})
      : m_marker("SUPERVISED=" + os::random_uuid()),
        m_fork([&] { return run(std::move(argv), std::move(setting)); }) {
    m_output.writer.reset();
    m_result.writer.reset();
  }
  Supervised(const Supervised&) = delete;
  Supervised& operator=(const Supervised&) = delete;
  ~Supervised() { end_what_is_left(); }

  [[nodiscard]] pid_t pid() const noexcept { return m_fork.pid(); }
  void send(int signal) const { REQUIRE(::kill(m_fork.pid(), signal) == 0); }
  [[nodiscard]] std::string line() const { return read_line(m_output.reader.get()); }
  /// Everything that is printed until nobody holds stdout any more.
  [[nodiscard]] std::string rest() const { return read_all(m_output.reader.get()); }
  [[nodiscard]] bool has_ended(milliseconds limit) const {
    return readable(m_result.reader.get(), limit);
  }
  [[nodiscard]] core::Ending ending() {
    static_assert(std::is_trivially_copyable_v<core::Ending>);
    core::Ending ending{};
    REQUIRE(readable(m_result.reader.get()));
    REQUIRE(::read(m_result.reader.get(), &ending, sizeof ending) == sizeof ending);
    const int status = m_fork.wait();
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    return ending;
  }
  /// The processes of the command that still live.
  [[nodiscard]] std::vector<pid_t> left() const { return os::processes_with_environment(m_marker); }
  void end_what_is_left() const {
    for (const pid_t pid : left()) {
      ::kill(pid, SIGKILL);
    }
  }

 private:
  int run(std::vector<std::string> argv, Setting setting) const {
    ::dup2(m_output.writer.get(), STDOUT_FILENO);
    if (setting.before) {
      setting.before();
    }
    child::Command command;
    command.argv = std::move(argv);
    command.environment = std::move(setting.environment);
    command.environment.push_back(m_marker);
    command.environment.push_back("ONCERUN_RUN_ID=" + m_marker);
    command.inherited_fds = std::move(setting.inherited_fds);
    command.standard_fds = os::reserve_standard_fds();
    os::Signals signals;
    const core::Ending ending = child::supervise(command, setting.limits, signals,
                                                 setting.after_start, setting.after_a_moment);
    if (setting.at_the_end) {
      setting.at_the_end();
    }
    return ::write(m_result.writer.get(), &ending, sizeof ending) == sizeof ending ? 0 : 97;
  }

  std::string m_marker;
  Pipe m_output;
  Pipe m_result;
  Fork m_fork;
};

} // namespace oncerun::test
