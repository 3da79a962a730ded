#include "ledger/spool.hpp"
#include "ledger_fixture.hpp"
#include "support/catch.hpp"

#include <fcntl.h>

using namespace oncerun;
using namespace oncerun::test;
using core::Guarantee;
using core::OwnerLife;
using core::Recorded;
using core::RowState;
using core::RunStatus;

namespace {

/// A child claims, puts `result` into the spool instead of the ledger, and ends.
void leave_in_spool(const std::string& path, const core::ClaimRequest& asked,
                    const core::AttemptResult& result) {
  Child child([&] {
    const auto ledger = open(path);
    const auto held = claim(*ledger, asked);
    return held && held->spool(result) == path + "-spool" ? 0 : 1;
  });
  REQUIRE(child.wait() == 0);
}

/// Any write posts what is in the spool.
void post(core::Ledger& ledger) {
  REQUIRE(run_once(ledger, key("another job", "2026-01-01")));
}

} // namespace

TEST_CASE("a run that was taken away is lost, and its late success is noted") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto ledger = open(path);
  const auto claimed = claim(*ledger, request(run));
  REQUIRE(claimed);
  // As a person with the sqlite3 shell would.
  Shell(path).exec("UPDATE job_run SET status = 'ready'");
  CHECK_FALSE(ledger->still_mine(run, claimed->run().run_id, claimed->run().token));
  SECTION("a failure changes nothing about the run") {
    const std::string before = Shell(path).query("SELECT * FROM job_run");
    CHECK(finish(*claimed, ended(RunStatus::failed, 3)) == Recorded::lost);
    CHECK(Shell(path).query("SELECT * FROM job_run") == before);
    CHECK(Shell(path).query("SELECT result, exit_code FROM job_attempt") == "failed|3");
  }
  SECTION("a success holds it") {
    CHECK(finish(*claimed, ended(RunStatus::done, 0)) == Recorded::lost);
    CHECK(Shell(path).query("SELECT status, late_success FROM job_run") == "unknown|1");
    CHECK(Shell(path).query("SELECT result, exit_code FROM job_attempt") == "done|0");
  }
}

TEST_CASE("a command finishes its own run in its own transaction") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto ledger = open(path);
  const auto asked = request(run);
  std::int64_t token = 0;
  const auto mark = [&] {
    Shell shell(path);
    const std::string update =
        "UPDATE job_run SET status='done', updated_at='2026-10-26T02:00:00Z' WHERE run_id='" +
        asked.run_id + "' AND fencing_token=" + std::to_string(token) + " AND status='pending'";
    // The documented statement finds its row by the partial index, whatever the size of the table.
    CHECK(shell.query("EXPLAIN QUERY PLAN " + update).find("job_run_pending") != std::string::npos);
    shell.exec(update);
    return shell.changes();
  };

  SECTION("and its oncerun ends afterwards, whatever the exit code") {
    const auto claimed = claim(*ledger, asked);
    token = claimed->run().token.value;
    CHECK(ledger->still_mine(run, asked.run_id, claimed->run().token));
    REQUIRE(mark() == 1);
    core::AttemptResult killed;
    killed.status = RunStatus::unknown;
    killed.signal = 9;
    CHECK(finish(*claimed, killed) == Recorded::marked_by_command);
    Shell shell(path);
    CHECK(shell.query("SELECT status, signal, finished_at IS NOT NULL FROM job_run") == "done|9|1");
    CHECK(shell.query("SELECT result, signal, ended_by FROM job_attempt") == "done|9|owner");
    CHECK(mark() == 0);
  }
  SECTION("and its oncerun dies: done, never run again") {
    leave_dead_claim(path, asked);
    token = std::stoll(Shell(path).query("SELECT fencing_token FROM job_run"));
    REQUIRE(mark() == 1);
    CHECK(ledger->look(run).row() == RowState::done);
    CHECK_FALSE(claim(*ledger, request(run), Guarantee::at_least_once));
    CHECK(status_in(path, run) == "done");
  }
}

TEST_CASE("between retries a run stays owned, by others' eyes only") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto ledger = open(path);
  auto first = claim(*ledger, request(run));
  REQUIRE(finish(*first, ended(RunStatus::failed, 3)) == Recorded::recorded);
  Child other([&] {
    const auto theirs = open(path);
    const core::Sighting seen = theirs->look(run);
    const bool claimed = claim(*theirs, request(run)) != nullptr;
    return seen.owner == OwnerLife::alive && seen.row() == RowState::failed && !claimed ? 0 : 1;
  });
  CHECK(other.wait() == 0);
  CHECK(ledger->look(run).owner == OwnerLife::settled);
  const auto second = claim(*ledger, request(run));
  REQUIRE(second);
  CHECK(second->run().number == 2);
  first.reset();
  CHECK(finish(*second, ended(RunStatus::done, 0)) == Recorded::recorded);
}

TEST_CASE("a slot makes the round trip, and torn or foreign content is none") {
  ledger::SpooledResult spooled;
  spooled.ledger_id = "0d6f9d0e-5a52-4a83-8d0e-0f1f4b6a9a11";
  spooled.run_id = "6f9b1c1e-1111-4222-8333-444455556666";
  spooled.serial = 77;
  spooled.token = {1'800'000'000'123};
  spooled.ended_at = "2026-10-26T02:00:00.000Z";
  spooled.result.status = RunStatus::failed;
  spooled.result.exit_code = 3;
  spooled.result.usage = {std::chrono::microseconds(5), std::chrono::microseconds(6), 7};
  spooled.result.note = "two\nlines, and " + std::string(600, 'x');
  std::string bytes = ledger::print_slot(spooled);
  REQUIRE(bytes.size() == 512);
  const auto back = ledger::parse_slot(bytes);
  REQUIRE(back);
  CHECK(back->ledger_id == spooled.ledger_id);
  CHECK(back->run_id == spooled.run_id);
  CHECK(back->serial == 77);
  CHECK(back->token == spooled.token);
  CHECK(back->ended_at == spooled.ended_at);
  CHECK(back->result.status == RunStatus::failed);
  CHECK(back->result.exit_code == 3);
  CHECK_FALSE(back->result.signal);
  CHECK(back->result.usage.system.count() == 6);
  CHECK(back->result.note.substr(0, 14) == "two lines, and");
  for (const std::size_t at : {0U, 20U, 100U, 511U}) {
    std::string torn = bytes;
    torn[at] = static_cast<char>(torn[at] ^ 1);
    CHECK_FALSE(ledger::parse_slot(torn));
  }
  CHECK_FALSE(ledger::parse_slot(bytes.substr(0, 256)));
  CHECK_FALSE(ledger::parse_slot(bytes.substr(0, 256) + std::string(256, '\0')));
}

TEST_CASE("a slot that contradicts itself is none") {
  ledger::SpooledResult spooled;
  spooled.serial = 1;
  spooled.result.never_started = true;
  for (const RunStatus status : {RunStatus::done, RunStatus::unknown}) {
    spooled.result.status = status;
    CHECK_FALSE(ledger::parse_slot(ledger::print_slot(spooled)));
  }
  spooled.result.status = RunStatus::failed;
  CHECK(ledger::parse_slot(ledger::print_slot(spooled)));
}

TEST_CASE("a result in the spool is posted to its own attempt before anything is decided") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto ledger = open(path);
  leave_in_spool(path, request(run), ended(RunStatus::done, 0));
  CHECK(status_in(path, run) == "pending");
  // At-least-once would start a dead owner's run again.
  CHECK_FALSE(claim(*ledger, request(run), Guarantee::at_least_once));
  Shell shell(path);
  CHECK(shell.query("SELECT status, attempts, exit_code FROM job_run") == "done|1|0");
  CHECK(shell.query("SELECT result, ended_by FROM job_attempt") == "done|spool");
  CHECK(shell.query("SELECT kind, from_status, to_status FROM job_event") ==
        "late-result|pending|done");
  CHECK(ledger::Spool(path + "-spool", "").entries().empty());
  post(*ledger);
  CHECK(shell.query("SELECT count(*) FROM job_event") == "1");
}

TEST_CASE("torn and foreign results are kept and said, and never block") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  post(*ledger);
  const int fd = ::open((path + "-spool").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(fd >= 0);
  const std::string torn = "oncerun-result 1 half a record";
  REQUIRE(::pwrite(fd, torn.data(), torn.size(), 512) == static_cast<ssize_t>(torn.size()));
  ledger::SpooledResult foreign;
  foreign.ledger_id = "another";
  foreign.result.status = RunStatus::done;
  const std::string bytes = ledger::print_slot(foreign);
  REQUIRE(::pwrite(fd, bytes.data(), bytes.size(), 1024) == 512);
  ::close(fd);
  REQUIRE(run_once(*ledger, key("settle", "2026-10-26")));
  const auto notices = ledger->take_notices();
  REQUIRE(notices.size() == 2);
  CHECK(notices[0].find("at byte 512 cannot be read") != std::string::npos);
  CHECK(notices[1].find("at byte 1024 belongs to another ledger") != std::string::npos);
  CHECK(ledger->take_notices().empty());
  CHECK(ledger::Spool(path + "-spool", "").entries().size() == 2);
}

TEST_CASE("a result of an attempt that is not there is kept, unless it was never started") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  post(*ledger);
  ledger::SpooledResult unknown;
  unknown.ledger_id = Shell(path).query("SELECT ledger_id FROM oncerun_meta");
  unknown.run_id = "6f9b1c1e-1111-4222-8333-444455556666";
  unknown.serial = 77;
  unknown.result.status = RunStatus::done;
  ledger::SpooledResult given_back = unknown;
  given_back.result.status = RunStatus::failed;
  given_back.result.never_started = true;
  const int fd = ::open((path + "-spool").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(::pwrite(fd, ledger::print_slot(unknown).data(), 512, 512) == 512);
  REQUIRE(::pwrite(fd, ledger::print_slot(given_back).data(), 512, 1024) == 512);
  ::close(fd);
  REQUIRE(run_once(*ledger, key("settle", "2026-10-26")));
  const auto notices = ledger->take_notices();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].find("an attempt that the ledger does not know") != std::string::npos);
  const auto left = ledger::Spool(path + "-spool", "").entries();
  REQUIRE(left.size() == 1);
  CHECK(left[0].offset == 512);
  CHECK(Shell(path).query("SELECT count(*) FROM job_attempt WHERE run_id = '" + unknown.run_id +
                          "'") == "0");
}

TEST_CASE("a late success of an older attempt holds the run, but never touches done or live ones") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto ledger = open(path);
  // The first attempt's result lies in a spool that cannot be read when the second starts.
  const auto asked = request(run);
  leave_in_spool(path, asked, ended(RunStatus::done, 0));
  std::filesystem::rename(path + "-spool", folder / "away");
  auto second = claim(*ledger, request(run), Guarantee::at_least_once);
  REQUIRE(second);
  std::filesystem::rename(folder / "away", path + "-spool");

  SECTION("done stays done") {
    REQUIRE(finish(*second, ended(RunStatus::done, 0)) == Recorded::recorded);
    post(*ledger);
    CHECK(ledger->look(run).row() == RowState::done);
  }
  SECTION("a failed one becomes unknown with that noted") {
    REQUIRE(finish(*second, ended(RunStatus::failed, 3)) == Recorded::recorded);
    second.reset();
    post(*ledger);
    CHECK(ledger->look(run).row() == RowState::late_success);
    CHECK_FALSE(claim(*ledger, request(run), Guarantee::at_least_once));
  }
  SECTION("a live claim goes on, and only its failure is held") {
    post(*ledger);
    CHECK(status_in(path, run) == "pending");
    CHECK(ledger->still_mine(run, second->run().run_id, second->run().token));
    REQUIRE(finish(*second, ended(RunStatus::failed, 3)) == Recorded::recorded);
    second.reset();
    CHECK(ledger->look(run).row() == RowState::late_success);
    CHECK_FALSE(claim(*ledger, request(run), Guarantee::at_least_once));
  }
  SECTION("a live claim that succeeds is done") {
    post(*ledger);
    REQUIRE(finish(*second, ended(RunStatus::done, 0)) == Recorded::recorded);
    CHECK(ledger->look(run).row() == RowState::done);
  }
  SECTION("an owner that dies afterwards leaves it held") {
    second.reset(); // its bytes go, as at a death
    post(*ledger);
    CHECK(ledger->look(run).row() == RowState::late_success);
    core::Settlement absent{.to = RunStatus::ready,
                            .kind = "resolve",
                            .by = {},
                            .detail = {},
                            .period = {},
                            .zone = {}};
    CHECK(ledger->settle(run, ledger->look(run), absent, k_no_stop));
    CHECK(claim(*ledger, request(run)));
  }
  CHECK(Shell(path).query("SELECT result, ended_by FROM job_attempt WHERE serial = 1") ==
        "done|spool");
}

TEST_CASE("a result in a spool elsewhere is posted by starts that know nothing of that spool") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const std::string elsewhere = folder / "spool";
  Child child([&] {
    const auto theirs = ledger::open_sqlite(
        {.path = path, .spool = elsewhere, .must_exist = false, .stop = nullptr});
    const auto held = claim(*theirs, request(run));
    return held && held->spool(ended(RunStatus::done, 0)).starts_with(elsewhere + "/") ? 0 : 1;
  });
  REQUIRE(child.wait() == 0);
  CHECK_FALSE(claim(*open(path), request(run), Guarantee::at_least_once));
  CHECK(status_in(path, run) == "done");
}

TEST_CASE("every live attempt has a slot of its own, and the spool grows by blocks") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  std::vector<std::unique_ptr<core::Claim>> claims;
  for (int i = 0; i < 70; ++i) {
    claims.push_back(claim(*ledger, request(key("job" + std::to_string(i), "2026-10-26"))));
    REQUIRE(claims.back());
  }
  CHECK(std::filesystem::file_size(path + "-spool") == 2 * 64 * 512);
  for (const auto& held : claims) {
    (void)held->spool(ended(RunStatus::failed, 3));
  }
  CHECK(ledger::Spool(path + "-spool", "").entries().size() == 70);
  claims.clear();
  post(*ledger);
  CHECK(Shell(path).query("SELECT count(*) FROM job_run WHERE status = 'failed'") == "70");
  CHECK(ledger::Spool(path + "-spool", "").entries().empty());
}

TEST_CASE("without a spool a claim works, and a result cannot be kept") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = ledger::open_sqlite({.path = path, .spool = "none"});
  const auto claimed = claim(*ledger, request(key("settle", "2026-10-26")));
  REQUIRE(claimed);
  CHECK(outcome_of([&] { (void)claimed->spool(ended(RunStatus::done, 0)); }) ==
        core::Outcome::unwritable);
  CHECK_FALSE(std::filesystem::exists(path + "-spool"));
}
