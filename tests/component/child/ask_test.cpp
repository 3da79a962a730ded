#include "component/child/supervised.hpp"

#include <cstring>

using namespace oncerun;
using namespace oncerun::test;

namespace {

/// What came of a check: its answer and detail, or the signal that interrupted it.
struct Asked {
  core::CheckAnswer answer = core::CheckAnswer::unclear;
  int interrupted = 0;
  bool still_pending = false;
  std::array<char, 128> detail{};
};

/// Asks in a process of its own. Its stderr is read here.
class Asking {
 public:
  explicit Asking(const std::string& script, child::Check check = {},
                  std::function<void()> before = {})
      : m_marker("SUPERVISED=" + os::random_uuid()), m_fork([&] {
          ::dup2(m_output.writer.get(), STDERR_FILENO);
          if (before) {
            before();
          }
          check.command = script;
          check.environment = {"PATH=/usr/bin:/bin", m_marker};
          os::Signals signals;
          Asked asked;
          try {
            const child::CheckResult result = child::ask(check, signals);
            asked.answer = result.answer;
            result.detail.copy(asked.detail.data(), asked.detail.size() - 1);
          } catch (const core::Interrupted& stop) {
            asked.interrupted = stop.signal();
            asked.still_pending = signals.pending() != 0;
          }
          return ::write(m_result.writer.get(), &asked, sizeof asked) == sizeof asked ? 0 : 97;
        }) {
    m_output.writer.reset();
    m_result.writer.reset();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() {
    for (const pid_t pid : left()) {
      ::kill(pid, SIGKILL);
    }
  }
  [[nodiscard]] pid_t pid() const noexcept { return m_fork.pid(); }
  [[nodiscard]] std::string line() const { return read_line(m_output.reader.get()); }
  [[nodiscard]] std::string rest() const { return read_all(m_output.reader.get()); }
  [[nodiscard]] Asked result() {
    Asked asked;
    REQUIRE(readable(m_result.reader.get()));
    REQUIRE(::read(m_result.reader.get(), &asked, sizeof asked) == sizeof asked);
    CHECK(m_fork.wait() == 0);
    return asked;
  }
  [[nodiscard]] std::vector<pid_t> left() const { return os::processes_with_environment(m_marker); }

 private:
  std::string m_marker;
  Pipe m_output;
  Pipe m_result;
  Fork m_fork;
};

} // namespace

TEST_CASE("the exit code of a check is its answer") {
  using core::CheckAnswer;
  const std::array<std::pair<const char*, CheckAnswer>, 6> table{{
      {"exit 0", CheckAnswer::present},
      {"exit 10", CheckAnswer::absent},
      {"exit 1", CheckAnswer::unclear},
      {"exit 77", CheckAnswer::unclear},
      {"no-such-tool", CheckAnswer::unclear},
      {"kill -KILL $$", CheckAnswer::unclear},
  }};
  for (const auto& [script, answer] : table) {
    INFO(script);
    CHECK(Asking(script).result().answer == answer);
  }
  CHECK(std::string(Asking("exit 10").result().detail.data()) == "exit 10");
  CHECK(std::string(Asking("kill -9 $$").result().detail.data()) == "killed by signal 9 (KILL)");
}

TEST_CASE("the codes of a check can be chosen") {
  child::Check check;
  check.absent_code = 4;
  check.present_code = 3;
  CHECK(Asking("exit 3", check).result().answer == core::CheckAnswer::present);
  CHECK(Asking("exit 4", check).result().answer == core::CheckAnswer::absent);
  CHECK(Asking("exit 0", check).result().answer == core::CheckAnswer::unclear);
}

TEST_CASE("a check sees its three descriptors and no other, and prints to stderr") {
  Asking asking("echo out; echo err >&2; cat; for fd in /proc/$$/fd/*; do "
                "n=${fd##*/}; [ -e $fd ] && echo $n; done; readlink /proc/$$/fd/0",
                {}, [] {
                  // One of the user's own and one of ours.
                  static_cast<void>(::fcntl(STDERR_FILENO, F_DUPFD, 40));
                  static_cast<void>(::open("/dev/null", O_RDONLY | O_CLOEXEC));
                });
  CHECK(asking.rest() == "out\nerr\n0\n1\n2\n/dev/null\n");
  CHECK(asking.result().answer == core::CheckAnswer::present);
}

TEST_CASE("a check has its stderr also when oncerun has none") {
  child::Check check;
  // The answer is all that can be heard of it.
  Asking asking("[ -e /proc/$$/fd/1 ] && [ -e /proc/$$/fd/2 ] && echo x >&2 && exit 10", check, [] {
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
    static_cast<void>(os::reserve_standard_fds());
  });
  CHECK(asking.result().answer == core::CheckAnswer::absent);
}

TEST_CASE("a check that takes too long is ended with its whole tree, and nothing else is") {
  Pipe pids;
  child::Check check;
  check.timeout = milliseconds(400);
  check.kill_after = milliseconds(200);
  Asking asking("trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 0.1; "
                "done' &); while :; do sleep 0.1; done",
                check, [&] {
                  // A daemon that the command left behind.
                  const pid_t daemon = ::fork();
                  if (daemon == 0) {
                    ::execl("/bin/sleep", "sleep", "60", nullptr);
                    ::_exit(127);
                  }
                  const std::string line = std::to_string(daemon) + "\n";
                  static_cast<void>(::write(pids.writer.get(), line.data(), line.size()));
                });
  const pid_t daemon = std::stoi(read_line(pids.reader.get()));
  CHECK(asking.line() == "deaf");
  const Asked asked = asking.result();
  CHECK(asked.answer == core::CheckAnswer::unclear);
  CHECK(std::string(asked.detail.data()) == "timed out after 400 ms");
  CHECK(asking.left().empty());
  CHECK(os::find_process(daemon).has_value());
  ::kill(daemon, SIGKILL);
}

TEST_CASE("a check that exits 0 only after its timeout proves nothing") {
  child::Check check;
  check.timeout = seconds(1);
  Asking asking("trap 'exit 0' TERM; while :; do sleep 0.02; done", check);
  const Asked asked = asking.result();
  CHECK(asked.answer == core::CheckAnswer::unclear);
  CHECK(std::string(asked.detail.data()) == "timed out after 1 s");
}

TEST_CASE("a stop request ends a check within a second") {
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
    INFO("signal " << signal);
    Asking asking("trap '' TERM INT QUIT HUP; (setsid sleep 60 &); echo ready >&2; "
                  "while :; do sleep 0.1; done");
    REQUIRE(asking.line() == "ready");
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(::kill(asking.pid(), signal) == 0);
    const Asked asked = asking.result();
    CHECK(asked.interrupted == signal);
    CHECK_FALSE(asked.still_pending);
    CHECK(std::chrono::steady_clock::now() - begin < seconds(1));
    CHECK(asking.left().empty());
  }
}

TEST_CASE("a stop request that came before asks nothing") {
  Asking asking("echo asked >&2", {}, [] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::raise(SIGTERM);
  });
  CHECK(asking.rest().empty());
  const Asked asked = asking.result();
  CHECK(asked.interrupted == SIGTERM);
  CHECK_FALSE(asked.still_pending);
}

TEST_CASE("other signals do not disturb a check") {
  Asking asking("echo ready >&2; sleep 0.3; exit 10");
  REQUIRE(asking.line() == "ready");
  for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT}) {
    REQUIRE(::kill(asking.pid(), signal) == 0);
  }
  CHECK(asking.result().answer == core::CheckAnswer::absent);
}
