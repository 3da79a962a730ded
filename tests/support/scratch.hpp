#pragma once

// A folder of a test's own, and processes of a test's own, both gone when the test is over.

#include "os/fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace oncerun::test {

class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::temp_directory_path().string() + "/oncerun-test-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot make a folder for the test");
    }
    m_path = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(m_path, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return m_path + "/" + name; }

 private:
  std::string m_path;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

inline struct stat status_of(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    throw std::runtime_error("cannot stat " + path);
  }
  return info;
}

/// Sorted names in a folder.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Pipe {
 public:
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe");
    }
    m_read = os::UniqueFd(ends[0]);
    m_write = os::UniqueFd(ends[1]);
  }
  /// Waits for somebody to tell(); false at the end of the pipe, which comes only when no process
  /// forked meanwhile has its other end.
  [[nodiscard]] bool wait() {
    m_write.reset();
    char byte = 0;
    return read(m_read.get(), &byte, 1) == 1;
  }
  void tell() { (void)!write(m_write.get(), "x\n", 2); }
  [[nodiscard]] int read_fd() const noexcept { return m_read.get(); }
  [[nodiscard]] int write_fd() const noexcept { return m_write.get(); }
  void close_write() { m_write.reset(); }
  void close_read() { m_read.reset(); }
  void put_read_end_on(int fd) { (void)dup2(m_read.get(), fd); }

 private:
  os::UniqueFd m_read;
  os::UniqueFd m_write;
};

/// A forked process that runs a function and exits with what it returns, 99 after an exception.
class Forked {
 public:
  template<typename Function>
  explicit Forked(Function&& function) {
    std::fflush(nullptr);
    m_pid = fork();
    if (m_pid == 0) {
      int code = 99;
      try {
        code = function();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "in a forked process: %s\n", error.what());
      }
      std::fflush(nullptr);
      _exit(code);
    }
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  ~Forked() {
    if (m_pid > 0) {
      kill();
    }
  }
  [[nodiscard]] pid_t pid() const noexcept { return m_pid; }
  /// Its exit code, or minus the signal that ended it.
  [[nodiscard]] int wait() {
    int status = 0;
    while (waitpid(m_pid, &status, 0) < 0 && errno == EINTR) {
    }
    m_pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int kill(int signal = SIGKILL) {
    ::kill(m_pid, signal);
    return wait();
  }

 private:
  pid_t m_pid = -1;
};

/// Replaces the process by a command, in a forked one.
inline int exec(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return 127;
}

/// Runs a command; its exit code, or minus its signal.
inline int run(const std::vector<std::string>& command) {
  return Forked([&command] { return exec(command); }).wait();
}

/// A command that runs until it has read a line, or the test ends.
class Waiting {
 public:
  explicit Waiting(const std::vector<std::string>& command)
      : m_process([&] {
          m_input.put_read_end_on(0);
          return exec(command);
        }) {
    m_input.close_read();
  }
  [[nodiscard]] pid_t pid() const noexcept { return m_process.pid(); }
  int end() {
    m_input.tell();
    m_input.close_write();
    return m_process.wait();
  }

 private:
  Pipe m_input;
  Forked m_process;
};

/// Looks until it is so; a test that hangs here has failed.
template<typename Condition>
void wait_until(Condition&& condition) {
  while (!condition()) {
    (void)poll(nullptr, 0, 2);
  }
}

} // namespace oncerun::test
