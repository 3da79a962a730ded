#include "component/child/supervised.hpp"

#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/syscall.h>

using namespace oncerun;
using namespace oncerun::test;

namespace {

core::Ending ending_of(std::vector<std::string> argv, Setting setting = {}) {
  return Supervised(std::move(argv), std::move(setting)).ending();
}

Setting with_path(const std::string& path) {
  Setting setting;
  setting.environment = {"PATH=" + path};
  return setting;
}

void require_exec_failed(const core::Ending& ending, int error) {
  CHECK_FALSE(ending.started);
  CHECK(ending.exec_failed);
  CHECK(ending.start_error == error);
  CHECK_FALSE(ending.exit_code);
  CHECK_FALSE(ending.signal);
}

/// What the command prints when nobody stands between.
std::string without_oncerun(const std::vector<std::string>& argv,
                            const std::function<void()>& before) {
  Pipe output;
  Fork command([&] {
    ::dup2(output.writer.get(), STDOUT_FILENO);
    before();
    std::vector<char*> pointers;
    for (const std::string& each : argv) {
      pointers.push_back(const_cast<char*>(each.c_str()));
    }
    pointers.push_back(nullptr);
    ::execvp(pointers[0], pointers.data());
    return 127;
  });
  output.writer.reset();
  return read_all(output.reader.get());
}

} // namespace

TEST_CASE("an exit code arrives as it is") {
  for (const int code : {0, 1, 3, 126, 127, 255}) {
    const core::Ending ending = ending_of(shell("exit " + std::to_string(code)));
    CHECK(ending.started);
    CHECK(ending.exit_code == code);
    CHECK_FALSE(ending.signal);
    CHECK_FALSE(ending.exec_failed);
    CHECK(ending.stop_signal == 0);
  }
}

TEST_CASE("execve's own error is told apart from every exit") {
  const Folder folder;
  require_exec_failed(ending_of({"/no/such"}), ENOENT);
  require_exec_failed(ending_of({"no-such-command-anywhere"}), ENOENT);
  require_exec_failed(ending_of({""}), ENOENT);
  require_exec_failed(ending_of({folder.path()}), EACCES);
  require_exec_failed(ending_of({folder.write("plain", "exit 0\n")}), EACCES);
  require_exec_failed(ending_of({folder.path("plain") + "/below"}), ENOTDIR);
  require_exec_failed(ending_of({folder.write("lost", "#!/no/such/sh\n", 0755)}), ENOENT);
  require_exec_failed(ending_of({std::string(300, 'x')}), ENAMETOOLONG);
}

TEST_CASE("PATH is searched as execvp does") {
  const Folder first;
  const Folder second;
  SECTION("a forbidden file is remembered over later misses") {
    static_cast<void>(first.write("tool", "exit 5\n", 0644));
    require_exec_failed(ending_of({"tool"}, with_path(first.path() + ":" + second.path())), EACCES);
  }
  SECTION("one further on that may be executed wins") {
    static_cast<void>(first.write("tool", "exit 5\n", 0644));
    static_cast<void>(second.write("tool", "#!/bin/sh\nexit 6\n", 0755));
    CHECK(ending_of({"tool"}, with_path(first.path() + ":/no/such:" + second.path())).exit_code ==
          6);
  }
  SECTION("an empty element is the working directory") {
    static_cast<void>(first.write("tool", "#!/bin/sh\nexit 8\n", 0755));
    Setting setting = with_path("/no/such:");
    setting.before = [&] { REQUIRE(::chdir(first.path().c_str()) == 0); };
    CHECK(ending_of({"tool"}, setting).exit_code == 8);
  }
  SECTION("without PATH the system's folders count") {
    Setting setting;
    setting.environment = {};
    CHECK(ending_of(shell("exit 9"), setting).exit_code == 9);
  }
}

TEST_CASE("a file without an interpreter line is run by sh, with its arguments") {
  const Folder folder;
  const std::string script = folder.write("plain", "echo \"$0|$1|$2|$#\"\nexit 4\n", 0755);
  SECTION("by its path") {
    Supervised run({script, "a b", ""});
    CHECK(run.rest() == script + "|a b||2\n");
    CHECK(run.ending().exit_code == 4);
  }
  SECTION("found in PATH") {
    Supervised run({"plain", "x"}, with_path("/no/such:" + folder.path()));
    CHECK(run.rest() == folder.path("plain") + "|x||1\n");
    CHECK(run.ending().exit_code == 4);
  }
}

TEST_CASE("arguments and environment arrive byte for byte") {
  Setting setting;
  setting.environment.push_back("ODD=a\nb \xc3\xbc=");
  Supervised run({"sh", "-c", "printf '%s;' \"$ODD\" \"$@\"", "sh", "a b", "", "*", "$HOME", "\n",
                  "--", "\xff"},
                 setting);
  CHECK(run.rest() == "a\nb \xc3\xbc=;a b;;*;$HOME;\n;--;\xff;");
  CHECK(run.ending().exit_code == 0);
}

TEST_CASE("stdin is passed through") {
  Pipe input;
  Setting setting;
  setting.before = [&] {
    ::dup2(input.reader.get(), STDIN_FILENO);
    input.writer.reset(); // or else cat would never see the end
  };
  Supervised run({"cat"}, setting);
  REQUIRE(::write(input.writer.get(), "a\nb\n", 4) == 4);
  input.writer.reset();
  CHECK(run.rest() == "a\nb\n");
  CHECK(run.ending().exit_code == 0);
}

TEST_CASE("the command inherits the named descriptors at the highest free numbers, and no other") {
  const Folder folder;
  const std::string first = folder.write("first", "");
  const std::string second = folder.write("second", "");
  const os::UniqueFd one(::open(first.c_str(), O_RDONLY | O_CLOEXEC));
  const os::UniqueFd two(::open(second.c_str(), O_RDONLY | O_CLOEXEC));
  Setting setting;
  setting.inherited_fds = {one.get(), two.get()};
  // The shell's glob opens the folder itself, at a number that is closed again before echo.
  const auto list = shell("for fd in /proc/$$/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && [ -e $fd ] && "
                          "echo $n=$(readlink $fd); done; exit 0");
  const auto limit_to = [](rlim_t soft) {
    // The test may have inherited some itself.
    ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = soft;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  };
  SECTION("below 1024") {
    setting.before = [&] { limit_to(1024); };
    Supervised run(list, setting);
    CHECK(run.rest() == "1022=" + second + "\n1023=" + first + "\n");
    CHECK(run.ending().exit_code == 0);
  }
  SECTION("also where more are allowed") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max < 4096) {
      WARN("skipped: the hard limit of descriptors is below 4096");
      return;
    }
    setting.before = [&] { limit_to(4096); };
    Supervised run(list, setting);
    CHECK(run.rest() == "1022=" + second + "\n1023=" + first + "\n");
  }
  SECTION("below the soft limit") {
    setting.before = [&] { limit_to(40); };
    Supervised run(list, setting);
    CHECK(run.rest() == "38=" + second + "\n39=" + first + "\n");
  }
  SECTION("a number that the caller's own descriptor has is left alone") {
    setting.before = [&] {
      limit_to(1024);
      ::dup2(STDERR_FILENO, 1023);
    };
    Supervised run({"sh", "-c", "readlink /proc/$$/fd/1022; readlink /proc/$$/fd/1021"}, setting);
    CHECK(run.rest() == first + "\n" + second + "\n");
  }
}

TEST_CASE("descriptors 0 to 2 that were closed are closed for the command") {
  const auto probe = shell("for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && echo $n; done; exit 5");
  Setting setting;
  setting.before = [] {
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
  };
  Supervised run(probe, setting);
  CHECK(run.rest() == "1\n");
  CHECK(run.ending().exit_code == 5);
}

TEST_CASE("mask and dispositions are those of a start without oncerun") {
  const std::vector<std::string> probe{"grep", "-E",
                                       "^(ShdPnd|Sig(Pnd|Blk|Ign|Cgt)):", "/proc/self/status"};
  const auto block_raw = [](std::initializer_list<int> signals) {
    unsigned long mask = 0;
    for (const int signal : signals) {
      mask |= 1UL << static_cast<unsigned>(signal - 1);
    }
    // glibc's sigprocmask(3) would leave 32 and 33 out.
    ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, nullptr, sizeof mask);
  };
  struct State {
    const char* name;
    std::function<void()> set;
  };
  const std::array<State, 6> states{{
      {"nothing special", [] {}},
      {"env --ignore-signal=HUP,PIPE --block-signal=USR2",
       [&] {
         ::signal(SIGHUP, SIG_IGN);
         ::signal(SIGPIPE, SIG_IGN);
         block_raw({SIGUSR2});
       }},
      {"everything that oncerun reads, ignored",
       [] {
         for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH,
                                  SIGCONT, SIGCHLD, SIGXFSZ}) {
           ::signal(signal, SIG_IGN);
         }
       }},
      {"everything that oncerun reads, blocked",
       [&] {
         block_raw({SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGCHLD,
                    SIGPIPE, SIGXFSZ});
       }},
      {"ignored SIGCHLD alone", [] { ::signal(SIGCHLD, SIG_IGN); }},
      {"real-time signals, glibc's own among them",
       [&] {
         block_raw({32, 33, 34, 50, 64});
         ::signal(40, SIG_IGN);
         ::signal(SIGTSTP, SIG_IGN);
       }},
  }};
  for (const State& state : states) {
    INFO(state.name);
    // An ignored SIGCHLD would let the test wait for a command that nobody may reap.
    const std::string expected = without_oncerun(probe, state.set);
    REQUIRE(expected.find("SigBlk") != std::string::npos);
    Setting setting;
    setting.before = state.set;
    Supervised run(probe, setting);
    CHECK(run.rest() == expected);
    CHECK(run.ending().exit_code == 0);
  }
}

TEST_CASE("an ignored SIGCHLD hides no exit code") {
  Setting setting;
  setting.before = [] { ::signal(SIGCHLD, SIG_IGN); };
  CHECK(ending_of(shell("exit 3"), setting).exit_code == 3);
}

TEST_CASE("a process that cannot be made is no error of execve") {
  if (::geteuid() != 0) {
    WARN("skipped: needs root, which can become a user at its limit");
    return;
  }
  Setting setting;
  setting.before = [] {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NPROC, &none);
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) {
      ::_exit(96);
    }
  };
  const core::Ending ending = ending_of(shell("exit 0"), setting);
  CHECK_FALSE(ending.started);
  CHECK_FALSE(ending.exec_failed);
  CHECK(ending.start_error == EAGAIN);
}

TEST_CASE("the usage is the command's") {
  const core::Ending ending = ending_of(shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"));
  CHECK(ending.usage.user.count() > 10'000);
  CHECK(ending.usage.user < seconds(20));
  CHECK(ending.usage.max_rss_kib > 100);
}
