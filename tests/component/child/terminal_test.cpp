#include "component/child/supervised.hpp"

#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

using namespace oncerun;
using namespace oncerun::test;

namespace {

/// A pseudo terminal without echo, whose output is left alone.
struct Terminal {
  os::UniqueFd master;
  os::UniqueFd slave;
  Terminal() {
    int master_fd = -1;
    int slave_fd = -1;
    REQUIRE(::openpty(&master_fd, &slave_fd, nullptr, nullptr, nullptr) == 0);
    master = os::UniqueFd(master_fd);
    slave = os::UniqueFd(slave_fd);
    termios settings{};
    REQUIRE(::tcgetattr(slave_fd, &settings) == 0);
    settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    REQUIRE(::tcsetattr(slave_fd, TCSANOW, &settings) == 0);
  }
  void type(const std::string& keys) const {
    REQUIRE(::write(master.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  /// In a new process: makes it the leader of a session on this terminal.
  void become_leader() {
    ::setsid();
    ::ioctl(slave.get(), TIOCSCTTY, 0);
    ::dup2(slave.get(), STDIN_FILENO);
    master.reset();
    slave.reset();
  }
};

/// Gives the terminal to a process group, as a shell does, which must not be stopped by that.
void give_terminal(pid_t group) {
  ::signal(SIGTTOU, SIG_IGN);
  ::tcsetpgrp(STDIN_FILENO, group);
  ::signal(SIGTTOU, SIG_DFL);
}

std::string wait_word(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  if (WIFSTOPPED(status)) {
    return "stopped";
  }
  return "exited " + std::to_string(WEXITSTATUS(status));
}

void say(int fd, const std::string& word) {
  const std::string line = word + "\n";
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    ::_exit(91);
  }
}

} // namespace

TEST_CASE("the command reads from the terminal") {
  Terminal terminal;
  Setting setting;
  setting.limits.timeout = seconds(20);
  setting.before = [&] { terminal.become_leader(); };
  Supervised run(shell("echo ready; read x; echo got:$x"), setting);
  REQUIRE(run.line() == "ready");
  terminal.type("word\n");
  CHECK(run.line() == "got:word");
  const core::Ending ending = run.ending();
  CHECK(ending.exit_code == 0);
  CHECK_FALSE(ending.timed_out);
}

TEST_CASE("what a terminal sends to the group arrives once") {
  Terminal terminal;
  Setting setting;
  setting.limits.kill_after = milliseconds(100);
  setting.before = [&] { terminal.become_leader(); };
  Supervised run(shell("trap 'echo INT' INT; trap 'echo WINCH' WINCH; trap 'exit 7' USR1; "
                       "trap 'echo mark' USR2; echo ready; while :; do sleep 0.02; done"),
                 setting);
  REQUIRE(run.line() == "ready");
  terminal.type("\x03");
  CHECK(run.line() == "INT");
  const winsize size{30, 90, 0, 0};
  REQUIRE(::ioctl(terminal.master.get(), TIOCSWINSZ, &size) == 0);
  CHECK(run.line() == "WINCH");
  // A second one would have been sent before this and would stand before the end.
  run.send(SIGUSR2);
  CHECK(run.line() == "mark");
  run.send(SIGUSR1);
  CHECK(run.rest().empty());
  const core::Ending ending = run.ending();
  CHECK(ending.exit_code == 7);
  CHECK(ending.stop_signal == SIGINT);
}

TEST_CASE("a hangup that only the session's leader gets is passed on") {
  Terminal terminal;
  Setting setting;
  setting.before = [&] { terminal.become_leader(); };
  Supervised run(shell("trap 'echo HUP; exit 7' HUP; echo ready; while :; do sleep 0.02; done"),
                 setting);
  REQUIRE(run.line() == "ready");
  terminal.slave.reset();
  terminal.master.reset();
  CHECK(run.rest() == "HUP\n");
  CHECK(run.ending().exit_code == 7);
}

TEST_CASE("^Z stops the command and oncerun, fg continues both") {
  Terminal terminal;
  Pipe words;
  Pipe keys;
  Pipe output;
  // A shell with job control, as small as it can be: it starts oncerun in a group of its own.
  Fork leader([&] {
    terminal.become_leader();
    keys.writer.reset();
    const pid_t job = ::fork();
    if (job == 0) {
      ::setpgid(0, 0);
      give_terminal(::getpid());
      ::dup2(output.writer.get(), STDOUT_FILENO);
      os::Signals signals;
      child::Command command;
      command.argv = shell("trap 'echo CONT' CONT; trap 'exit 7' USR1; echo $$; "
                           "while :; do sleep 0.02; done");
      command.environment = {"PATH=/usr/bin:/bin"};
      const core::Ending ending = child::supervise(command, child::Limits{}, signals, nullptr);
      ::_exit(ending.exit_code.value_or(90));
    }
    ::setpgid(job, job);
    give_terminal(job);
    say(words.writer.get(), std::to_string(job));
    say(words.writer.get(), wait_word(job));
    give_terminal(::getpid());
    static_cast<void>(read_line(keys.reader.get()));
    give_terminal(job);
    ::kill(-job, SIGCONT);
    say(words.writer.get(), wait_word(job));
    return 0;
  });
  words.writer.reset();
  output.writer.reset();
  const pid_t job = std::stoi(read_line(words.reader.get()));
  const pid_t command = std::stoi(read_line(output.reader.get()));
  terminal.type("\x1a");
  CHECK(read_line(words.reader.get()) == "stopped");
  CHECK(eventually([&] {
    const auto process = os::find_process(command);
    // D: in the middle of a vfork whose child was stopped.
    return process && (process->state == 'T' || process->state == 'D');
  }));
  REQUIRE(::write(keys.writer.get(), "fg\n", 3) == 3);
  CHECK(read_line(output.reader.get()) == "CONT");
  REQUIRE(::kill(job, SIGUSR1) == 0);
  CHECK(read_line(words.reader.get()) == "exited 7");
  CHECK(read_all(output.reader.get()).empty());
}
