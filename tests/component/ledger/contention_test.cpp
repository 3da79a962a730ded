#include "ledger/guard.hpp"
#include "ledger_fixture.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <map>

using namespace oncerun;
using namespace oncerun::test;
using core::Outcome;
using core::Recorded;
using core::RowState;
using core::RunStatus;
using Clock = std::chrono::steady_clock;

namespace {

/// Holds BEGIN IMMEDIATE in another process, as an operator's shell would, until told to let go.
class ForeignWriter {
 public:
  explicit ForeignWriter(const std::string& path, std::chrono::milliseconds held_for)
      : m_child([this, path, held_for] {
          sqlite3* db = nullptr;
          sqlite3_open(path.c_str(), &db);
          const int code = sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
          m_holds.reached();
          if (held_for.count() == 0) {
            m_let_go.wait();
          } else {
            ::usleep(static_cast<useconds_t>(held_for.count() * 1000));
          }
          sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
          sqlite3_close(db);
          return code;
        }) {
    m_holds.wait();
  }
  int let_go() {
    m_let_go.reached();
    return m_child.wait();
  }
  int wait() { return m_child.wait(); }

 private:
  Signpost m_holds;
  Signpost m_let_go;
  Child m_child;
};

std::string text_of_error(const std::function<void()>& action) {
  std::string message;
  (void)outcome_of(action, &message);
  return message;
}

class StopAfter final : public core::StopRequest {
 public:
  explicit StopAfter(std::chrono::milliseconds wait) : m_at(Clock::now() + wait) {}
  [[nodiscard]] int pending() const noexcept override { return Clock::now() >= m_at ? SIGTERM : 0; }
  [[nodiscard]] int poll_fd() const noexcept override { return -1; }

 private:
  Clock::time_point m_at;
};

std::map<std::string, std::string> state_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    struct stat info {};
    REQUIRE(::stat(entry.path().c_str(), &info) == 0);
    files[entry.path()] = std::to_string(info.st_mtim.tv_sec) + "." +
                          std::to_string(info.st_mtim.tv_nsec) + " " +
                          std::to_string(info.st_ctim.tv_nsec) + " " +
                          std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

} // namespace

TEST_CASE("a foreign transaction is waited for, at a claim and at a result") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-25")));
  const auto ledger = open(path);
  {
    ForeignWriter writer(path, std::chrono::milliseconds(1500));
    CHECK(ledger->look(key("settle", "2026-10-25")).row() == RowState::done);
    const auto held = claim(*ledger, request(key("settle", "2026-10-26")));
    CHECK(held);
    CHECK(writer.wait() == 0);
  }
  const auto held = claim(*ledger, request(key("settle", "2026-10-27")));
  ForeignWriter writer(path, std::chrono::milliseconds(1500));
  CHECK(finish(*held, ended(RunStatus::failed, 3)) == Recorded::recorded);
  CHECK(writer.wait() == 0);
  CHECK(status_in(path, key("settle", "2026-10-27")) == "failed");
}

TEST_CASE(
    "a foreign transaction held longer than the limit is unavailable, and nothing is started") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-25")));
  const auto ledger = open(path);
  ForeignWriter writer(path, {});
  auto asked = request(key("settle", "2026-10-26"));
  asked.timeout = std::chrono::milliseconds(1000);
  const auto begin = Clock::now();
  const std::string message = text_of_error([&] { (void)claim(*ledger, asked); });
  CHECK(message.find("locked by another process for 1 s") != std::string::npos);
  CHECK(message.find("database is locked") == std::string::npos);
  CHECK(Clock::now() - begin >= std::chrono::milliseconds(900));
  CHECK(outcome_of([&] { (void)claim(*ledger, asked); }) == Outcome::unavailable);
  CHECK(writer.let_go() == 0);
  CHECK(status_in(path, asked.key).empty());
  CHECK(claim(*ledger, asked));
}

TEST_CASE("waiting for the guard or for SQLite ends soon after a stop request") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-25")));
  const auto ledger = open(path);
  const auto held = claim(*ledger, request(key("settle", "2026-10-26")));
  auto asked = request(key("settle", "2026-10-27"));
  asked.timeout = std::chrono::seconds(20);
  const auto check = [&] {
    const auto begin = Clock::now();
    const StopAfter stop(std::chrono::milliseconds(200));
    CHECK_THROWS_AS(ledger->claim(k_no_lock, asked, by(core::Guarantee::cautious), stop),
                    core::Interrupted);
    const StopAfter again(std::chrono::milliseconds(200));
    CHECK_THROWS_AS(held->finish(ended(RunStatus::done, 0), std::chrono::seconds(20), again),
                    core::Interrupted);
    CHECK(Clock::now() - begin < std::chrono::seconds(5));
  };
  SECTION("SQLite") {
    ForeignWriter writer(path, {});
    check();
    CHECK(writer.let_go() == 0);
  }
  SECTION("the guard") {
    Signpost holds;
    Child other([&] {
      ledger::Guard guard(path + "-guard", path);
      const auto taken = guard.lock(os::Deadline::never(), k_no_stop);
      holds.reached();
      ::pause();
      return 0;
    });
    holds.wait();
    check();
    other.kill_and_wait();
  }
  CHECK(finish(*held, ended(RunStatus::done, 0)) == Recorded::recorded);
}

TEST_CASE("the guard goes with its holder, and a deleted guard file is noticed") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  REQUIRE(run_once(*ledger, key("settle", "2026-10-25")));
  std::filesystem::remove(path + "-guard");
  REQUIRE(run_once(*ledger, key("settle", "2026-10-26")));
  CHECK(std::filesystem::exists(path + "-guard"));
  // Killed within its transaction, under the guard: nothing of it is there, nobody is kept waiting.
  Child dying([&] {
    const auto theirs = open(path);
    (void)theirs->claim(
        k_no_lock, request(key("settle", "2026-10-27")),
        [](const core::Sighting&) -> core::Decision {
          ::raise(SIGKILL);
          return {};
        },
        k_no_stop);
    return 0;
  });
  CHECK(dying.wait() == 128 + SIGKILL);
  CHECK_FALSE(ledger->look(key("settle", "2026-10-27")).run);
  CHECK(run_once(*ledger, key("settle", "2026-10-27")));
}

TEST_CASE("looking at a done date changes no file") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  REQUIRE(run_once(*open(path), run));
  const auto before = state_of(folder.path());
  for (int i = 0; i < 20; ++i) {
    const auto ledger = open(path);
    CHECK(ledger->look(run).row() == RowState::done);
    CHECK(ledger->look(key("settle", "2026-10-27")).row() == RowState::none);
    CHECK(ledger->overview(std::nullopt).size() == 1);
  }
  const auto after = state_of(folder.path());
  REQUIRE(after.size() == before.size());
  for (const auto& [name, state] : after) {
    INFO(name);
    CHECK((before.count(name) == 1 && state == before.at(name)));
  }
  // An operator's shell removes -wal and -shm when it is the last to close: looking still works.
  for (const char* suffix : {"-wal", "-shm"}) {
    Shell(path).exec("PRAGMA wal_checkpoint(TRUNCATE)");
    std::filesystem::remove(path + suffix);
    CHECK(open(path)->look(run).row() == RowState::done);
  }
}

TEST_CASE("a path with characters that mean something in a URI is taken as it is") {
  const TemporaryFolder folder;
  const std::string path = folder / "a b%20?x=1#ü.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-26")));
  CHECK(std::filesystem::exists(path + "-life"));
  CHECK(open(path)->look(key("settle", "2026-10-26")).row() == RowState::done);
}

TEST_CASE("the write-ahead log stays short over many runs") {
  const TemporaryFolder folder("/dev/shm"); // thousands of syncs of a disk prove nothing more
  const std::string path = folder / "led.db";
  constexpr int k_runs = 2000;
  const bool has_time = GENERATE(true, false);
  const bool has_a_moment = GENERATE(true, false);
  std::uintmax_t longest = 0;
  for (int i = 0; i < k_runs; ++i) {
    // A process each, as at the command line, would take too long: what a process is to SQLite is
    // its connection.
    const auto ledger = open(path);
    const auto held = claim(*ledger, request(key("settle", "run " + std::to_string(i))));
    REQUIRE(held);
    if (has_time) {
      held->while_running();
    }
    if (has_a_moment) {
      held->while_waiting();
    }
    REQUIRE(finish(*held, ended(RunStatus::failed, 3)) == Recorded::recorded);
    longest = std::max(longest, std::filesystem::file_size(path + "-wal"));
  }
  INFO("longest: " << longest);
  // 100 frames, or 200 where no command ran, and what one run adds; a run of its own where there is
  // a moment in each.
  CHECK(longest < (has_a_moment ? 200'000 : has_time ? 600'000 : 1'000'000));
}

TEST_CASE("a killed owner leaves what it had committed, and no more") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  SECTION("after the claim") {
    leave_dead_claim(path, request(run));
    CHECK(open(path)->look(run).owner == core::OwnerLife::dead);
  }
  SECTION("after the result") {
    Child child([&] {
      const auto ledger = open(path);
      const auto held = claim(*ledger, request(run));
      (void)finish(*held, ended(RunStatus::done, 0));
      ::raise(SIGKILL);
      return 0;
    });
    CHECK(child.wait() == 128 + SIGKILL);
    CHECK(open(path)->look(run).owner == core::OwnerLife::settled);
    CHECK(status_in(path, run) == "done");
  }
  SECTION("while it writes the projection, under the guard") {
    Child child([&] {
      const auto ledger = open(path);
      (void)run_once(*ledger, run);
      ledger->project(
          run.job, [](const core::StateDocument&) { ::raise(SIGKILL); }, k_no_stop);
      return 0;
    });
    CHECK(child.wait() == 128 + SIGKILL);
    CHECK(run_once(*open(path), key("settle", "2026-10-27")));
  }
}
