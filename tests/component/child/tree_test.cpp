#include "component/child/supervised.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

using namespace oncerun;
using namespace oncerun::test;

namespace {

Setting limits(std::optional<milliseconds> timeout, milliseconds kill_after) {
  Setting setting;
  setting.limits.timeout = timeout;
  setting.limits.kill_after = kill_after;
  return setting;
}

std::string three_deaf() {
  const std::string deaf = "trap \"\" TERM HUP; echo deaf; while :; do sleep 0.2; done";
  return "(sh -c '" + deaf + "' & wait) & setsid sh -c '" + deaf + "' & (setsid sh -c '" + deaf +
         "' & ) ; ";
}

void require_deaf(const Supervised& run) {
  for (int i = 0; i < 3; ++i) {
    REQUIRE(run.line() == "deaf");
  }
}

} // namespace

TEST_CASE("a timeout ends the whole tree") {
  Supervised run(shell("trap '' TERM; " + three_deaf() + "while :; do sleep 0.2; done"),
                 limits(milliseconds(500), milliseconds(300)));
  const auto begin = std::chrono::steady_clock::now();
  require_deaf(run);
  const core::Ending ending = run.ending();
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(ending.timed_out);
  CHECK(ending.signal == SIGKILL);
  CHECK(ending.stop_signal == 0);
  CHECK_FALSE(ending.tree_left);
  CHECK(took < seconds(4));
  CHECK(run.left().empty());
  CHECK(run.rest().empty());
}

TEST_CASE("a command that ends at the timeout's TERM by itself has timed out all the same") {
  Supervised run(shell("trap 'exit 7' TERM; while :; do sleep 0.02; done"),
                 limits(milliseconds(200), seconds(10)));
  const core::Ending ending = run.ending();
  CHECK(ending.timed_out);
  CHECK(ending.exit_code == 7);
}

TEST_CASE("a timeout reaches a command that is stopped") {
  Supervised run(shell("echo ready; kill -STOP $$; exit 0"),
                 limits(milliseconds(300), seconds(20)));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run.ending().signal == SIGTERM);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(10));
}

TEST_CASE("after every cut-short end the rest of the tree is ended") {
  Setting setting = limits(std::nullopt, milliseconds(300));
  setting.limits.unknown_exit.set(82);
  Pipe gate;
  setting.before = [&] { ::dup2(gate.reader.get(), STDIN_FILENO); };
  std::string end;
  SECTION("a code of a shell whose child was killed") {
    end = "exit 137";
  }
  SECTION("a code that says unknown") {
    end = "exit 82";
  }
  SECTION("a signal") {
    end = "kill -KILL $$";
  }
  Supervised run(shell(three_deaf() + "read line; " + end), setting);
  require_deaf(run);
  REQUIRE(::write(gate.writer.get(), "\n", 1) == 1);
  const core::Ending ending = run.ending();
  CHECK(ending.stop_signal == 0);
  CHECK_FALSE(ending.tree_left);
  CHECK(run.left().empty());
}

TEST_CASE("the rest of the tree gets TERM before KILL, also when it is stopped") {
  Supervised run(shell("sh -c 'trap \"echo cleaned; exit\" TERM; echo ready; kill -STOP $$; "
                       "while :; do sleep 0.02; done' & wait"),
                 limits(std::nullopt, seconds(20)));
  REQUIRE(run.line() == "ready");
  const auto begin = std::chrono::steady_clock::now();
  run.send(SIGTERM);
  CHECK(run.ending().signal == SIGTERM);
  CHECK(run.rest() == "cleaned\n");
  CHECK(std::chrono::steady_clock::now() - begin < seconds(10));
}

TEST_CASE("what forks all the time is ended, too") {
  Supervised run(
      shell("trap '' TERM; echo ready; "
            "sh -c 'trap \"\" TERM; while :; do (sleep 0.01 &); done' & wait; wait; wait"),
      limits(std::nullopt, milliseconds(100)));
  REQUIRE(run.line() == "ready");
  run.send(SIGTERM);
  const core::Ending ending = run.ending();
  CHECK(ending.signal == SIGKILL);
  CHECK_FALSE(ending.tree_left);
  CHECK(run.left().empty());
}

TEST_CASE("after a normal end daemons live on") {
  for (const int code : {0, 3}) {
    Supervised run(shell("setsid sh -c 'echo daemon; exec >&- 2>&-; exec sleep 60' & "
                         "sleep 0.2; exit " +
                         std::to_string(code)));
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run.ending().exit_code == code);
    CHECK(std::chrono::steady_clock::now() - begin < seconds(2));
    CHECK(run.left().size() == 1);
    CHECK(run.line() == "daemon");
  }
}

TEST_CASE("children that oncerun had before are left alone") {
  // As after `sh -c 'sleep 60 & exec oncerun …'`: a child, a grandchild that loses its parent while
  // the command runs, and one that is started and orphaned only then.
  Pipe pids;
  Pipe gate;
  Setting setting = limits(std::nullopt, milliseconds(200));
  setting.before = [&] {
    if (::fork() == 0) {
      ::dup2(pids.writer.get(), STDOUT_FILENO);
      ::dup2(gate.reader.get(), STDIN_FILENO);
      ::execl("/bin/sh", "sh", "-c",
              "sleep 60 & echo $!; (sleep 60 & echo $!; read line; (sleep 60 & echo $!)); sleep 60",
              nullptr);
      ::_exit(127);
    }
  };
  Supervised run(shell("(setsid sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 0.2; done' &); "
                       "sleep 60"),
                 setting);
  std::vector<pid_t> strangers;
  strangers.push_back(std::stoi(read_line(pids.reader.get())));
  strangers.push_back(std::stoi(read_line(pids.reader.get())));
  REQUIRE(run.line() == "deaf");
  REQUIRE(::write(gate.writer.get(), "\n", 1) == 1);
  strangers.push_back(std::stoi(read_line(pids.reader.get())));
  run.send(SIGTERM);
  const core::Ending ending = run.ending();
  CHECK(ending.signal == SIGTERM);
  CHECK_FALSE(ending.tree_left);
  CHECK(run.left().empty());
  for (const pid_t pid : strangers) {
    CHECK(os::find_process(pid).has_value());
    ::kill(pid, SIGKILL);
  }
}

TEST_CASE("a tree that may not be killed is given up and told") {
  if (::geteuid() != 0) {
    WARN("skipped: needs root, to make a program that becomes root");
    return;
  }
  const Folder folder;
  const std::string program = folder.path("setpriv");
  std::filesystem::copy("/usr/bin/setpriv", program);
  REQUIRE(::chmod(program.c_str(), 04755) == 0);
  Setting setting = limits(std::nullopt, milliseconds(100));
  setting.before = [] {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) {
      ::_exit(96);
    }
  };
  Supervised run(shell(program + " --reuid=0 --regid=0 --clear-groups sh -c "
                                 "'echo up; exec sleep 60' & wait"),
                 setting);
  const std::string first = run.line();
  if (first != "up") {
    WARN("skipped: this file system does not honour set-user-id programs");
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  run.send(SIGTERM);
  const core::Ending ending = run.ending();
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(ending.signal == SIGTERM);
  CHECK(ending.tree_left);
  CHECK(took >= seconds(5));
  CHECK(took < seconds(8));
}

TEST_CASE("as PID 1 it reaps and passes on") {
  if (::geteuid() != 0) {
    WARN("skipped: needs root, to make a pid namespace");
    return;
  }
  Pipe output;
  Pipe result;
  Fork outer([&] {
    if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return 95;
    }
    const pid_t init = ::fork();
    if (init == 0) {
      if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) {
        ::_exit(94);
      }
      ::dup2(output.writer.get(), STDOUT_FILENO);
      os::Signals signals;
      child::Command command;
      // Orphans that end while the command runs must not stay as zombies.
      command.argv = shell("for i in 1 2 3 4 5; do (true &) ; done; sleep 0.2; "
                           "grep -l '^State:.Z' /proc/[0-9]*/status; (setsid sleep 60 &); "
                           "trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done");
      command.environment = {"PATH=/usr/bin:/bin"};
      child::Limits no_limits;
      const core::Ending ending = child::supervise(command, no_limits, signals, nullptr);
      const bool told = ::write(result.writer.get(), &ending, sizeof ending) == sizeof ending;
      ::_exit(told && os::descendants(1).empty() ? 0 : 93);
    }
    const std::string pid = std::to_string(init) + "\n";
    static_cast<void>(::write(result.writer.get(), pid.data(), pid.size()));
    int status = 0;
    ::waitpid(init, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 92;
  });
  output.writer.reset();
  result.writer.reset();
  const std::string pid = read_line(result.reader.get());
  if (pid.empty()) {
    const int refused = outer.wait();
    REQUIRE(WIFEXITED(refused));
    REQUIRE(WEXITSTATUS(refused) == 95);
    WARN("skipped: no pid and mount namespace can be had here");
    return;
  }
  CHECK(read_line(output.reader.get()) == "ready");
  REQUIRE(::kill(std::stoi(pid), SIGTERM) == 0);
  core::Ending ending{};
  REQUIRE(readable(result.reader.get()));
  REQUIRE(::read(result.reader.get(), &ending, sizeof ending) == sizeof ending);
  CHECK(ending.exit_code == 7);
  CHECK(ending.stop_signal == SIGTERM);
  const int status = outer.wait();
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
