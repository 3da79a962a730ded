#include "ledger_fixture.hpp"
#include "support/catch.hpp"

using namespace oncerun;
using namespace oncerun::test;
using core::Action;
using core::Guarantee;
using core::Outcome;
using core::OwnerLife;
using core::Recorded;
using core::RowState;
using core::RunStatus;

TEST_CASE("a first claim makes the ledger, and its end is recorded") {
  const TemporaryFolder folder;
  const std::string path = folder / "new/led.db";
  const auto ledger = open(path);
  const auto run = key("settle", "2026-10-26");
  CHECK_FALSE(ledger->look(run).job);
  CHECK_FALSE(std::filesystem::exists(path));

  core::ClaimOutcome outcome =
      ledger->claim(k_no_lock, request(run), by(Guarantee::cautious), k_no_stop);
  REQUIRE(std::holds_alternative<core::Claimed>(outcome));
  const auto& claimed = std::get<core::Claimed>(outcome);
  CHECK(claimed.claim->run().serial == 1);
  CHECK(claimed.claim->run().number == 1);
  CHECK(claimed.claim->run().generation == 1);
  CHECK(claimed.claim->run().previous == "none");
  CHECK(claimed.claim->run().first_of_job);
  CHECK(claimed.claim->run().token.value > 1'700'000'000'000);
  CHECK(claimed.claim->inherited_fd() >= 0);
  CHECK(status_in(path, run) == "pending");

  claimed.claim->while_running();
  REQUIRE(finish(*claimed.claim, ended(RunStatus::done, 0)) == Recorded::recorded);
  Shell shell(path);
  CHECK(shell.query("SELECT status, attempts, exit_code, finished_at > started_at OR finished_at = "
                    "started_at FROM job_run") == "done|1|0|1");
  CHECK(shell.query("SELECT number, result, ended_by, ended_at IS NOT NULL FROM job_attempt") ==
        "1|done|owner|1");
  // The same again is recorded, and changes nothing.
  CHECK(finish(*claimed.claim, ended(RunStatus::failed, 3)) == Recorded::recorded);
  CHECK(status_in(path, run) == "done");

  for (const char* suffix : {"", "-guard", "-life", "-spool", "-wal", "-shm"}) {
    INFO(suffix);
    struct stat info {};
    REQUIRE(::stat((path + suffix).c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
  }
  struct stat info {};
  REQUIRE(::stat((folder / "new").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
}

TEST_CASE("a run that is not to be started writes nothing") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  const auto run = key("settle", "2026-10-26");
  const core::Decider hold = [](const core::Sighting&) {
    return core::Decision{Action::hold, core::Reason::in_doubt};
  };
  const auto outcome = ledger->claim(k_no_lock, request(run), hold, k_no_stop);
  REQUIRE(std::holds_alternative<core::NotClaimed>(outcome));
  CHECK(Shell(path).query("SELECT count(*) FROM sqlite_schema") == "0");
  // The same connection claims afterwards.
  CHECK(run_once(*ledger, run));
}

TEST_CASE("tokens and serials grow, numbers count the attempts of a run") {
  const TemporaryFolder folder;
  const auto ledger = open(folder / "led.db");
  const auto run = key("settle", "2026-10-26");
  core::Token last{0};
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto claimed = claim(*ledger, request(run));
    REQUIRE(claimed);
    CHECK(claimed->run().serial == attempt);
    CHECK(claimed->run().number == attempt);
    CHECK(claimed->run().previous == (attempt == 1 ? "none" : "failed"));
    CHECK(claimed->run().token > last);
    last = claimed->run().token;
    REQUIRE(finish(*claimed, ended(RunStatus::failed, 3)) == Recorded::recorded);
  }
  // A new generation of a done run, and what was before.
  REQUIRE(run_once(*ledger, run));
  const core::Decider rerun = [](const core::Sighting& seen) {
    CHECK(seen.row() == RowState::done);
    return core::Decision{Action::start_new_generation, core::Reason::rerun_asked};
  };
  auto outcome = ledger->claim(k_no_lock, request(run), rerun, k_no_stop);
  REQUIRE(std::holds_alternative<core::Claimed>(outcome));
  const core::ClaimedRun& again = std::get<core::Claimed>(outcome).claim->run();
  CHECK(again.generation == 2);
  CHECK(again.number == 5);
  CHECK(again.previous == "done");
}

TEST_CASE("one of many claimants gets the run, on no database and on an old one") {
  const TemporaryFolder folder;
  constexpr int k_claimants = 30;
  for (int round = 0; round < 5; ++round) {
    const std::string path = folder / ("led" + std::to_string(round % 3) + ".db");
    const auto run = key("settle", "2026-10-" + std::to_string(10 + round));
    Signpost gate;
    std::vector<Child> children;
    for (int i = 0; i < k_claimants; ++i) {
      children.emplace_back([&] {
        gate.wait();
        const auto ledger = open(path);
        const auto claimed = claim(*ledger, request(run));
        if (!claimed) {
          return 75;
        }
        return finish(*claimed, ended(RunStatus::done, 0)) == Recorded::recorded ? 0 : 1;
      });
    }
    gate.reached(k_claimants);
    int runs = 0;
    int others = 0;
    for (Child& child : children) {
      const int code = child.wait();
      runs += code == 0 ? 1 : 0;
      others += code == 75 ? 1 : 0;
    }
    CHECK(runs == 1);
    CHECK(others == k_claimants - 1);
    CHECK(Shell(path).query("SELECT attempts FROM job_run WHERE biz_date = '" + run.date.label() +
                            "'") == "1");
  }
}

TEST_CASE("many claimants of different jobs all run") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  constexpr int k_claimants = 30;
  Signpost gate;
  std::vector<Child> children;
  for (int i = 0; i < k_claimants; ++i) {
    children.emplace_back([&, i] {
      gate.wait();
      const auto ledger = open(path);
      return run_once(*ledger, key("job" + std::to_string(i), "2026-10-26")) ? 0 : 1;
    });
  }
  gate.reached(k_claimants);
  for (Child& child : children) {
    CHECK(child.wait() == 0);
  }
  Shell shell(path);
  CHECK(shell.query("SELECT count(*) FROM job_run WHERE status = 'done'") == "30");
  // Serials are never used twice.
  CHECK(shell.query("SELECT count(DISTINCT serial), max(serial) FROM job_attempt") == "30|30");
}

TEST_CASE("a live owner is seen, a dead one is taken over by the guarantee alone") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto mine = open(path);
  {
    Signpost claimed;
    Child owner([&] {
      const auto ledger = open(path);
      const auto held = claim(*ledger, request(run));
      claimed.reached();
      ::pause();
      return 0;
    });
    claimed.wait();
    const core::Sighting seen = mine->look(run);
    CHECK(seen.owner == OwnerLife::alive);
    CHECK(seen.pids == std::vector<pid_t>{owner.pid()});
    CHECK_FALSE(claim(*mine, request(run), Guarantee::at_least_once));
    owner.kill_and_wait();
  }
  CHECK(mine->look(run).owner == OwnerLife::dead);
  CHECK(mine->look(run).row() == RowState::pending);
  CHECK_FALSE(claim(*mine, request(run), Guarantee::cautious));
  CHECK_FALSE(claim(*mine, request(run), Guarantee::at_most_once));
  CHECK(status_in(path, run) == "pending");
  const auto taken = claim(*mine, request(run), Guarantee::at_least_once);
  REQUIRE(taken);
  CHECK(taken->run().previous == "unknown");
  CHECK(taken->run().number == 2);
  CHECK(Shell(path).query("SELECT result, ended_by FROM job_attempt WHERE number = 1") ==
        "unknown|next-claim");
}

TEST_CASE("an orphaned tree keeps its run, by its byte or by its environment") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const bool keeps_descriptor = GENERATE(true, false);
  INFO("descriptor kept: " << keeps_descriptor);
  const auto asked = request(run);
  Signpost started;
  int read_end[2];
  REQUIRE(::pipe(read_end) == 0);
  Child owner([&] {
    const auto ledger = open(path);
    const auto held = claim(*ledger, asked);
    const pid_t tree = ::fork();
    if (tree == 0) {
      if (keeps_descriptor) {
        // As the launcher does it: at another number, not close-on-exec.
        (void)::dup(held->inherited_fd());
      }
      const std::string id = "ONCERUN_RUN_ID=" + asked.run_id;
      const std::string none = "NOTHING=1";
      char* const environment[] = {const_cast<char*>(keeps_descriptor ? none.c_str() : id.c_str()),
                                   nullptr};
      // Ends when the test closes the pipe that is its standard input.
      ::dup2(read_end[0], 0);
      ::close(read_end[1]);
      ::close(started.write_end());
      ::execle("/bin/cat", "cat", nullptr, environment);
      ::_exit(127);
    }
    (void)!::write(started.write_end(), "x", 1);
    ::pause();
    return 0;
  });
  ::close(read_end[0]);
  started.wait();
  const auto mine = open(path);
  // The child has called execve when its environment is the one given.
  core::Sighting seen;
  owner.kill_and_wait();
  for (int i = 0; i < 500; ++i) {
    seen = mine->look(run);
    if (seen.owner == OwnerLife::orphaned && !seen.pids.empty()) {
      break;
    }
    ::usleep(10'000);
  }
  CHECK(seen.owner == OwnerLife::orphaned);
  CHECK(seen.pids.size() == 1);
  CHECK_FALSE(claim(*mine, request(run), Guarantee::at_least_once));

  SECTION("another date is kept out by a lock that covers the job") {
    const auto other = key("settle", "2026-10-27");
    auto outcome = mine->claim(k_job_lock, request(other), by(Guarantee::cautious), k_no_stop);
    REQUIRE(std::holds_alternative<core::OtherDateLives>(outcome));
    CHECK(std::get<core::OtherDateLives>(outcome).run.key == run);
    CHECK(std::get<core::OtherDateLives>(outcome).owner == OwnerLife::orphaned);
    CHECK(status_in(path, other).empty());
  }
  ::close(read_end[1]);
  for (int i = 0; i < 500 && mine->look(run).owner != OwnerLife::dead; ++i) {
    ::usleep(10'000);
  }
  CHECK(mine->look(run).owner == OwnerLife::dead);
  CHECK(claim(*mine, request(run), Guarantee::at_least_once));
}
