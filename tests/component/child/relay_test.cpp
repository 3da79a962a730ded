#include "component/child/supervised.hpp"

using namespace oncerun;
using namespace oncerun::test;

namespace {

/// A shell that prints the name of each signal it gets, once it said "ready", until USR2 comes.
std::string recorder(const std::string& names) {
  std::string script;
  std::string rest = names;
  while (!rest.empty()) {
    const std::string name = rest.substr(0, rest.find(' '));
    rest.erase(0, name.size() + 1);
    script += "trap 'echo " + name + "' " + name + "; ";
  }
  return script + "trap 'exit 7' USR2; echo ready; while :; do sleep 0.02; done";
}

Setting kill_after(milliseconds time) {
  Setting setting;
  setting.limits.kill_after = time;
  return setting;
}

constexpr bool is_stop(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT;
}

} // namespace

TEST_CASE("a signal ends a command without a handler") {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    INFO("signal " << signal);
    Supervised run(shell("ulimit -c 0; echo ready; exec sleep 60"));
    REQUIRE(run.line() == "ready");
    run.send(signal);
    const core::Ending ending = run.ending();
    CHECK(ending.signal == signal);
    CHECK_FALSE(ending.exit_code);
    CHECK(ending.stop_signal == (is_stop(signal) ? signal : 0));
    CHECK(run.left().empty());
  }
}

TEST_CASE("each signal reaches a handler once") {
  Supervised run(shell(recorder("TERM INT HUP QUIT USR1 WINCH CONT")));
  REQUIRE(run.line() == "ready");
  // WINCH and CONT end nothing by default, so that a loss would not be seen otherwise.
  const std::array<std::pair<int, const char*>, 7> sent{{{SIGHUP, "HUP"},
                                                         {SIGUSR1, "USR1"},
                                                         {SIGWINCH, "WINCH"},
                                                         {SIGCONT, "CONT"},
                                                         {SIGINT, "INT"},
                                                         {SIGQUIT, "QUIT"},
                                                         {SIGTERM, "TERM"}}};
  for (const auto& [signal, name] : sent) {
    run.send(signal);
    CHECK(run.line() == name);
  }
  run.send(SIGUSR2);
  CHECK(run.rest().empty());
  const core::Ending ending = run.ending();
  CHECK(ending.exit_code == 7);
  CHECK(ending.stop_signal == SIGINT);
}

TEST_CASE("a handler of TERM cleans up and says its own code") {
  Supervised run(shell("trap 'sleep 0.3; exit 7' TERM; echo ready; while :; do sleep 0.02; done"));
  REQUIRE(run.line() == "ready");
  run.send(SIGTERM);
  const core::Ending ending = run.ending();
  CHECK(ending.exit_code == 7);
  CHECK(ending.stop_signal == SIGTERM);
  CHECK_FALSE(ending.timed_out);
}

TEST_CASE("TERM and QUIT escalate to KILL of the whole tree") {
  for (const int signal : {SIGTERM, SIGQUIT}) {
    INFO("signal " << signal);
    Supervised run(shell("trap '' TERM QUIT; (sleep 60) & echo ready; while :; do sleep 1; done"),
                   kill_after(milliseconds(200)));
    REQUIRE(run.line() == "ready");
    run.send(signal);
    const core::Ending ending = run.ending();
    CHECK(ending.signal == SIGKILL);
    CHECK(ending.stop_signal == signal);
    CHECK_FALSE(ending.timed_out);
    CHECK_FALSE(ending.tree_left);
    CHECK(run.left().empty());
  }
}

TEST_CASE("INT and HUP never escalate") {
  for (const int signal : {SIGINT, SIGHUP}) {
    INFO("signal " << signal);
    Supervised run(shell("trap 'echo seen' INT HUP; trap 'exit 7' USR1; echo ready; while :; do "
                         "sleep 0.02; done"),
                   kill_after(milliseconds(50)));
    REQUIRE(run.line() == "ready");
    run.send(signal);
    REQUIRE(run.line() == "seen");
    CHECK_FALSE(run.has_ended(milliseconds(400)));
    run.send(SIGUSR1);
    CHECK(run.ending().exit_code == 7);
  }
}

TEST_CASE("a second TERM shortens nothing") {
  Supervised run(shell("trap 'echo seen' TERM; echo ready; while :; do sleep 0.02; done"),
                 kill_after(milliseconds(1'000)));
  REQUIRE(run.line() == "ready");
  const auto begin = std::chrono::steady_clock::now();
  run.send(SIGTERM);
  REQUIRE(run.line() == "seen");
  run.send(SIGTERM);
  CHECK(run.ending().signal == SIGKILL);
  CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(1'000));
}

TEST_CASE("what the tree sends to the group is not passed on, and starts no clock") {
  Setting setting = kill_after(milliseconds(50));
  setting.before = [] { ::setpgid(0, 0); };
  SECTION("by the command itself") {
    Supervised run(shell("trap 'echo term' TERM; kill -TERM 0; sleep 0.4; echo on; exit 4"),
                   setting);
    CHECK(run.rest() == "term\non\n");
    const core::Ending ending = run.ending();
    CHECK(ending.exit_code == 4);
    CHECK(ending.stop_signal == SIGTERM);
  }
  SECTION("by what it started and left alone") {
    Supervised run(shell("trap 'echo usr1' USR1; trap 'exit 4' USR2; echo ready; "
                         "(sh -c 'trap \"\" USR1 USR2; kill -USR1 0; sleep 0.3; kill -USR2 0; "
                         "sleep 0.3' &); while :; do sleep 0.02; done"),
                   setting);
    CHECK(run.line() == "ready");
    CHECK(run.line() == "usr1");
    CHECK(run.ending().exit_code == 4);
  }
}

TEST_CASE("TERM reaches a command that is stopped") {
  Supervised run(shell("echo $$; exec sleep 60"));
  const pid_t command = std::stoi(run.line());
  REQUIRE(::kill(command, SIGSTOP) == 0);
  REQUIRE(eventually([&] {
    const auto process = os::find_process(command);
    return process && process->state == 'T';
  }));
  run.send(SIGTERM);
  CHECK(run.ending().signal == SIGTERM);
}

TEST_CASE("CONT continues a command that is stopped") {
  Supervised run(shell("echo $$; kill -STOP $$; echo went on; exit 3"));
  const pid_t command = std::stoi(run.line());
  REQUIRE(eventually([&] {
    const auto process = os::find_process(command);
    return process && process->state == 'T';
  }));
  run.send(SIGCONT);
  CHECK(run.rest() == "went on\n");
  CHECK(run.ending().exit_code == 3);
}

TEST_CASE("a stop request that came before the start starts nothing") {
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
    INFO("signal " << signal);
    Setting setting;
    setting.before = [signal] {
      sigset_t set;
      ::sigemptyset(&set);
      ::sigaddset(&set, signal);
      ::sigprocmask(SIG_BLOCK, &set, nullptr);
      ::raise(signal);
    };
    Supervised run(shell("echo started"), setting);
    CHECK(run.rest().empty());
    const core::Ending ending = run.ending();
    CHECK_FALSE(ending.started);
    CHECK(ending.stop_signal == signal);
    CHECK(ending.start_error == 0);
    CHECK_FALSE(ending.exec_failed);
  }
}

TEST_CASE("what else came before the start is not passed on") {
  Setting setting;
  setting.before = [] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::raise(SIGUSR1);
    // The command's mask is the original one: unblocked here, but only behind oncerun's back.
  };
  Supervised run(shell("sleep 0.1; exit 6"), setting);
  CHECK(run.ending().exit_code == 6);
}

TEST_CASE("an ignored HUP, INT or QUIT is nothing to oncerun") {
  Setting setting = kill_after(milliseconds(50));
  setting.before = [] {
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) {
      ::signal(signal, SIG_IGN);
    }
    ::raise(SIGHUP);
  };
  Supervised run(shell("echo ready; read line; exit 5"), [&] {
    setting.after_start = [] {
      for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) {
        ::raise(signal);
      }
    };
    return setting;
  }());
  CHECK(run.line() == "ready");
  const core::Ending ending = run.ending();
  CHECK(ending.started);
  CHECK(ending.exit_code == 5);
  CHECK(ending.stop_signal == 0);
}

TEST_CASE("a command that ends itself by a signal was not stopped by us") {
  for (const auto& [name, signal] : {std::pair("KILL", SIGKILL), std::pair("SEGV", SIGSEGV)}) {
    Setting setting;
    setting.limits.timeout = seconds(30);
    Supervised run(shell(std::string("ulimit -c 0; kill -") + name + " $$; sleep 60"), setting);
    const core::Ending ending = run.ending();
    CHECK(ending.signal == signal);
    CHECK_FALSE(ending.timed_out);
    CHECK(ending.stop_signal == 0);
  }
}
