#include "child/launch.hpp"

#include <climits>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace oncerun::child {

namespace {

constexpr const char* k_shell = "/bin/sh";
/// Where execvp(3) searches without a PATH: confstr(3), _CS_PATH.
constexpr std::string_view k_default_path = "/bin:/usr/bin";
/// Inherited descriptors stay below: select(2) and old shells know no higher ones.
constexpr int k_fd_limit = 1024;

using Pointers = std::vector<char*>;

// What runs in the new process is left alone by the address sanitizer: it would mark frames on a
// stack that is the parent's memory and that execve(2) leaves without returning.

/// execve(2) takes char* for what it only reads.
char* unconst(const std::string& text) {
  return const_cast<char*>(text.c_str());
}

Pointers pointers_to(const std::vector<std::string>& texts) {
  Pointers pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(unconst(text));
  }
  pointers.push_back(nullptr);
  return pointers;
}

/// The file names that execvp(3) would try one after the other.
std::vector<std::string> candidates_for(const Command& command) {
  const std::string& name = command.argv.front();
  if (name.empty() || name.size() > NAME_MAX || name.find('/') != std::string::npos) {
    return {name};
  }
  std::string_view path = k_default_path;
  constexpr std::string_view k_variable = "PATH=";
  for (const std::string& entry : command.environment) {
    if (entry.starts_with(k_variable)) {
      path = std::string_view(entry).substr(k_variable.size());
      break;
    }
  }
  std::vector<std::string> candidates;
  while (true) {
    const std::string_view folder = path.substr(0, path.find(':'));
    // An empty element is the working directory. One that is too long cannot exist.
    if (folder.size() + 1 + name.size() < PATH_MAX) {
      candidates.push_back(folder.empty() ? name : std::string(folder).append("/").append(name));
    }
    if (folder.size() == path.size()) {
      return candidates;
    }
    path.remove_prefix(folder.size() + 1);
  }
}

/// All that the new process needs, laid out by the parent: it shares the parent's memory until
/// execve, so that it may neither allocate nor change anything but `result`.
struct Plan {
  Pointers candidates;
  Pointers argv;
  Pointers environment;
  Pointers script_argv; ///< [1] becomes the file's name
  const std::vector<int>* inherited_fds;
  const bool* closed;
  const sigset_t* mask;
  Streams streams;
  Parent parent;
  pid_t parent_pid;
  bool ignore_chld;
  int fd_limit;
  Launched result;
};

/// The kernel's own call: glibc's sigprocmask(3) silently leaves out the two signals that it uses
/// itself, and the command's mask is to be exactly the original one.
__attribute__((no_sanitize("address"))) int set_mask(const sigset_t* mask, sigset_t* previous) {
  constexpr std::size_t k_kernel_size = _NSIG / 8;
  return static_cast<int>(
      ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, previous, k_kernel_size));
}

/// Puts a copy without close-on-exec at the highest free number below `limit`, which is lowered.
__attribute__((no_sanitize("address"))) bool inherit(int fd, int& limit) {
  while (--limit > STDERR_FILENO) {
    if (::fcntl(limit, F_GETFD) < 0) {
      return ::dup3(fd, limit, 0) >= 0;
    }
  }
  errno = EMFILE;
  return false;
}

__attribute__((no_sanitize("address"))) bool streams_for_check() {
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
      // Descriptor 2 may be one that we put there, close-on-exec, because it was closed.
      ::fcntl(STDERR_FILENO, F_SETFD, 0) < 0) {
    return false;
  }
  if (::syscall(SYS_close_range, STDERR_FILENO + 1, UINT_MAX, 0) != 0) {
    for (int fd = STDERR_FILENO + 1; fd < k_fd_limit; ++fd) {
      ::close(fd);
    }
  }
  return true;
}

__attribute__((no_sanitize("address"))) bool prepare_descriptors(const Plan& plan) {
  if (plan.streams == Streams::for_check) {
    return streams_for_check();
  }
  int limit = plan.fd_limit;
  for (const int fd : *plan.inherited_fds) {
    if (!inherit(fd, limit)) {
      return false;
    }
  }
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (plan.closed[fd]) {
      ::close(fd);
    }
  }
  return true;
}

/// As execvp(3) goes about it: a file without a format of its own is a script of the shell, and a
/// file that may not be executed is remembered, but one further on that may wins.
__attribute__((no_sanitize("address"))) int search_and_exec(Plan& plan) {
  bool forbidden = false;
  int error = ENOENT;
  for (char* const file : plan.candidates) {
    ::execve(file, plan.argv.data(), plan.environment.data());
    if (errno == ENOEXEC) {
      plan.script_argv[1] = file;
      ::execve(k_shell, plan.script_argv.data(), plan.environment.data());
    }
    error = errno;
    switch (error) {
    case EACCES:
      forbidden = true;
      break;
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
    case ESTALE:
    case ETIMEDOUT:
      break;
    default:
      return error;
    }
  }
  return forbidden ? EACCES : error;
}

/// Runs in the new process, on a stack of its own in the parent's memory.
__attribute__((no_sanitize("address"))) int in_new_process(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  if (!prepare_descriptors(plan)) {
    plan.result.error = errno;
    ::_exit(127);
  }
  if (plan.parent == Parent::guardian) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
      plan.result.error = errno;
      ::_exit(127);
    }
    if (::getppid() != plan.parent_pid) { // it has died before that
      ::_exit(127);
    }
  }
  if (plan.ignore_chld) {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGCHLD, &ignore, nullptr);
  }
  if (set_mask(plan.mask, nullptr) != 0) {
    plan.result.error = errno;
    ::_exit(127);
  }
  const int error = search_and_exec(plan);
  plan.result.error = error;
  plan.result.exec_failed = true;
  ::_exit(127);
}

int fd_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return k_fd_limit;
  }
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, k_fd_limit));
}

} // namespace

Launched launch(const Command& command, const os::Signals& signals, Streams streams,
                Parent parent) {
  const std::vector<std::string> files = candidates_for(command);
  Plan plan{};
  plan.candidates.reserve(files.size());
  for (const std::string& file : files) {
    plan.candidates.push_back(unconst(file));
  }
  plan.argv = pointers_to(command.argv);
  plan.environment = pointers_to(command.environment);
  plan.script_argv = {const_cast<char*>(k_shell), nullptr};
  plan.script_argv.insert(plan.script_argv.end(), plan.argv.begin() + 1, plan.argv.end());
  plan.inherited_fds = &command.inherited_fds;
  plan.closed = command.standard_fds.closed;
  plan.mask = &signals.original_mask();
  plan.streams = streams;
  plan.parent = parent;
  plan.parent_pid = ::getpid();
  plan.ignore_chld = signals.was_ignored(SIGCHLD);
  plan.fd_limit = fd_limit();

  alignas(64) std::array<char, 32768> stack;
  // A handler that ran in the new process would work on the parent's memory, so everything is
  // blocked meanwhile. execve(2) resets handlers, and those that are left when the mask is set just
  // before it can only belong to the sanitizers: this program installs none that outlives a call.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  set_mask(&all, &before);
  const int pid =
      ::clone(in_new_process, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  const int clone_error = errno;
  set_mask(&before, nullptr);
  if (pid < 0) {
    return {-1, clone_error, false};
  }
  if (plan.result.error != 0) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return plan.result;
  }
  plan.result.pid = pid;
  return plan.result;
}

} // namespace oncerun::child
