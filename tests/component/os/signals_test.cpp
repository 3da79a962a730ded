#include "os/signals.hpp"
#include "support/catch.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

using namespace oncerun;

namespace {

/// The exit code of `body` in a process of its own, since what Signals changes stays changed: 0, or
/// the number of the line that did not hold.
template<typename Body>
int in_child(const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(body());
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

bool polls(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

} // namespace

TEST_CASE("a stop request is seen and stays in the queue") {
  const int code = in_child([] {
    os::Signals signals;
    if (signals.pending() != 0 || polls(signals.poll_fd())) {
      return 1;
    }
    for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
      ::raise(signal);
      if (signals.pending() != signal || signals.pending() != signal) {
        return 2;
      }
      if (!polls(signals.poll_fd()) || !polls(signals.read_fd())) {
        return 3;
      }
      const auto info = signals.read();
      if (!info || static_cast<int>(info->ssi_signo) != signal ||
          static_cast<pid_t>(info->ssi_pid) != ::getpid()) {
        return 4;
      }
      if (signals.pending() != 0 || polls(signals.poll_fd()) || signals.read()) {
        return 5;
      }
    }
    return 0;
  });
  CHECK(code == 0);
}

TEST_CASE("a wait for a stop request is not woken by other signals") {
  const int code = in_child([] {
    os::Signals signals;
    for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT}) {
      ::raise(signal);
    }
    if (::fork() == 0) {
      ::_exit(0);
    }
    siginfo_t ended{};
    ::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT); // its SIGCHLD is queued by now
    if (signals.pending() != 0 || polls(signals.poll_fd())) {
      return 1;
    }
    int seen = 0;
    while (const auto info = signals.read()) {
      ++seen;
    }
    return seen == 5 ? 0 : 10 + seen;
  });
  CHECK(code == 0);
}

TEST_CASE("what is ignored stays ignored, except CHLD") {
  const int code = in_child([] {
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGCHLD, SIGPIPE}) {
      ::signal(signal, SIG_IGN);
    }
    os::Signals signals;
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) {
      ::raise(signal);
      if (signals.is_stop(signal) || !signals.was_ignored(signal)) {
        return 1;
      }
    }
    if (signals.pending() != 0 || polls(signals.poll_fd()) || signals.read()) {
      return 2;
    }
    if (!signals.was_ignored(SIGCHLD) || !signals.was_ignored(SIGPIPE) ||
        signals.was_ignored(SIGTERM)) {
      return 3;
    }
    struct sigaction now {};
    ::sigaction(SIGCHLD, nullptr, &now);
    if (now.sa_handler != SIG_DFL) {
      return 4;
    }
    ::raise(SIGTERM);
    return signals.pending() == SIGTERM ? 0 : 5;
  });
  CHECK(code == 0);
}

TEST_CASE("an ignored HUP that is blocked, too, is no request") {
  const int code = in_child([] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGHUP);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGHUP, SIG_IGN);
    os::Signals signals;
    ::raise(SIGHUP);
    return signals.pending() == 0 && !polls(signals.poll_fd()) ? 0 : 1;
  });
  CHECK(code == 0);
}

TEST_CASE("the original mask is remembered") {
  const int code = in_child([] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGUSR2);
    ::sigaddset(&set, SIGRTMIN + 3);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    const os::Signals signals;
    const sigset_t& mask = signals.original_mask();
    if (::sigismember(&mask, SIGUSR2) != 1 || ::sigismember(&mask, SIGRTMIN + 3) != 1) {
      return 1;
    }
    return ::sigismember(&mask, SIGTERM) == 0 && ::sigismember(&mask, SIGCHLD) == 0 ? 0 : 2;
  });
  CHECK(code == 0);
}

TEST_CASE("a closed pipe or a file size limit is an error of write, not the end") {
  const int code = in_child([] {
    const os::Signals signals;
    int ends[2];
    if (::pipe(ends) != 0) {
      return 1;
    }
    ::close(ends[0]);
    if (::write(ends[1], "x", 1) != -1 || errno != EPIPE) {
      return 2;
    }
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    std::FILE* file = std::tmpfile();
    return file != nullptr && ::write(::fileno(file), "x", 1) == -1 && errno == EFBIG ? 0 : 3;
  });
  CHECK(code == 0);
}
