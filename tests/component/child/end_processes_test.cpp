#include "component/child/supervised.hpp"
#include "core/stop.hpp"

using namespace oncerun;
using namespace oncerun::test;

namespace {

/// A process that says "ready" once it does with TERM what the script says.
class Target {
 public:
  explicit Target(const std::string& script)
      : m_fork([&] {
          ::dup2(m_output.writer.get(), STDOUT_FILENO);
          ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
          return 127;
        }) {
    m_output.writer.reset();
    REQUIRE(read_line(m_output.reader.get()) == "ready");
  }
  [[nodiscard]] pid_t pid() const noexcept { return m_fork.pid(); }
  /// As the kernel sees it: a zombie has ended, although its parent has not looked yet.
  [[nodiscard]] bool lives() const {
    const auto process = os::find_process(pid());
    return process && process->state != 'Z';
  }
  [[nodiscard]] int wait() { return m_fork.wait(); }

 private:
  Pipe m_output;
  Fork m_fork;
};

const std::string k_deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
const std::string k_meek = "echo ready; exec sleep 60";

child::StillThere those_of(const std::vector<Target*>& targets) {
  return [targets] {
    std::vector<pid_t> pids;
    for (const Target* target : targets) {
      if (target->lives()) {
        pids.push_back(target->pid());
      }
    }
    return pids;
  };
}

const core::NoStopRequest k_nobody;

} // namespace

TEST_CASE("TERM is enough for most") {
  Target one(k_meek);
  Target two(k_meek);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(child::end_processes(those_of({&one, &two}), seconds(20), k_nobody));
  CHECK(std::chrono::steady_clock::now() - begin < seconds(5));
  CHECK(WTERMSIG(one.wait()) == SIGTERM);
  CHECK(WTERMSIG(two.wait()) == SIGTERM);
}

TEST_CASE("KILL ends who ignores TERM, and within a second") {
  Target deaf(k_deaf);
  Target meek(k_meek);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(child::end_processes(those_of({&deaf, &meek}), milliseconds(300), k_nobody));
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took >= milliseconds(300));
  CHECK(took < milliseconds(1'300));
  CHECK(WTERMSIG(deaf.wait()) == SIGKILL);
  CHECK(WTERMSIG(meek.wait()) == SIGTERM);
}

TEST_CASE("a stopped process acts on TERM") {
  Target target(k_meek);
  REQUIRE(::kill(target.pid(), SIGSTOP) == 0);
  CHECK(child::end_processes(those_of({&target}), seconds(20), k_nobody));
  CHECK(WTERMSIG(target.wait()) == SIGTERM);
}

TEST_CASE("asking to end never kills") {
  Target target(k_deaf);
  CHECK_FALSE(child::ask_processes_to_end(those_of({&target}), milliseconds(300), k_nobody));
  CHECK(target.lives());
}

TEST_CASE("a pid that is not seen any more right before the signal gets none") {
  Target target(k_meek);
  int looks = 0;
  const auto gone_at_the_second_look = [&] {
    return ++looks == 1 ? std::vector<pid_t>{target.pid()} : std::vector<pid_t>{};
  };
  CHECK(child::end_processes(gone_at_the_second_look, milliseconds(100), k_nobody));
  CHECK(target.lives());
}

TEST_CASE("who turns up later is ended, too") {
  Target first(k_meek);
  Target second(k_deaf);
  const auto one_after_the_other = [&]() -> std::vector<pid_t> {
    if (first.lives()) {
      return {first.pid()};
    }
    return second.lives() ? std::vector<pid_t>{second.pid()} : std::vector<pid_t>{};
  };
  CHECK(child::end_processes(one_after_the_other, milliseconds(400), k_nobody));
  CHECK(WTERMSIG(second.wait()) == SIGKILL);
}

TEST_CASE("nobody there is a success, and neither PID 1 nor oncerun itself is ever hit") {
  CHECK(child::end_processes([] { return std::vector<pid_t>{}; }, seconds(1), k_nobody));
  CHECK_FALSE(child::end_processes(
      [] {
        return std::vector<pid_t>{1, ::getpid(), 0, -1};
      },
      milliseconds(50), k_nobody));
}

TEST_CASE("a stop request ends the wait") {
  class Stop final : public core::StopRequest {
   public:
    [[nodiscard]] int pending() const noexcept override {
      return readable(m_pipe.reader.get(), milliseconds(0)) ? SIGTERM : 0;
    }
    [[nodiscard]] int poll_fd() const noexcept override { return m_pipe.reader.get(); }
    void request() { m_pipe.writer.reset(); }

   private:
    Pipe m_pipe;
  };
  Stop stop;
  Target target(k_deaf);
  int looks = 0;
  const auto look = [&]() -> std::vector<pid_t> {
    if (++looks == 2) {
      stop.request();
    }
    return {target.pid()};
  };
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(child::end_processes(look, seconds(20), stop));
  CHECK(std::chrono::steady_clock::now() - begin < seconds(1));
  CHECK(target.lives());
}
