#include "ledger_fixture.hpp"
#include "support/catch.hpp"

using namespace oncerun;
using namespace oncerun::test;
using core::Guarantee;
using core::Outcome;
using core::OwnerLife;
using core::Recorded;
using core::RowState;
using core::RunStatus;

namespace {

core::Settlement settlement(RunStatus to, const std::string& kind = "resolve") {
  return {.to = to, .kind = kind, .by = "op@host", .detail = "because", .period = {}, .zone = {}};
}

/// The projection, or an empty document.
core::StateDocument projection(core::Ledger& ledger, const std::string& job) {
  core::StateDocument seen;
  ledger.project(
      core::JobName::parse(job), [&](const core::StateDocument& document) { seen = document; },
      k_no_stop);
  return seen;
}

} // namespace

TEST_CASE("a verdict settles a dead owner's run, once, and closes its attempt") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  leave_dead_claim(path, request(run));
  const auto ledger = open(path);
  const core::Sighting seen = ledger->look(run);
  CHECK(ledger->settle(run, seen, settlement(RunStatus::done, "check"), k_no_stop));
  CHECK(ledger->look(run).row() == RowState::done);
  CHECK(ledger->look(run).run->end_recorded);
  const auto attempt = ledger->attempts({.job = run.job, .date = run.date}).front();
  CHECK(attempt.result == "done");
  CHECK_FALSE(attempt.ended_at.empty());
  const auto event = ledger->events({.job = run.job, .date = {}}).front();
  CHECK(event.kind == "check");
  CHECK(event.from_status == "pending");
  CHECK(event.to_status == "done");
  CHECK(event.by == "op@host");
  CHECK(event.run_id == attempt.run_id);
  // What was seen then is not what is there now.
  CHECK_FALSE(ledger->settle(run, seen, settlement(RunStatus::ready), k_no_stop));
  CHECK(ledger->look(run).row() == RowState::done);
}

TEST_CASE("a run with a live owner is not settled") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto ledger = open(path);
  const auto held = claim(*ledger, request(run));
  Child other([&] {
    const auto theirs = open(path);
    return theirs->settle(run, theirs->look(run), settlement(RunStatus::done), k_no_stop) ? 1 : 0;
  });
  CHECK(other.wait() == 0);
  CHECK(finish(*held, ended(RunStatus::done, 0)) == Recorded::recorded);
}

TEST_CASE("an operator makes a run ready, skips one, and takes it back") {
  const TemporaryFolder folder;
  const auto ledger = open(folder / "led.db");
  const auto run = key("settle", "2026-10-26");
  const auto never_seen = key("settle", "2026-10-20");
  CHECK(outcome_of([&] {
          (void)ledger->settle(never_seen, {}, settlement(RunStatus::skipped), k_no_stop);
        }) == Outcome::config); // the job is not known
  const auto held = claim(*ledger, request(run));
  REQUIRE(finish(*held, ended(RunStatus::unknown, 80)) == Recorded::recorded);
  CHECK_FALSE(claim(*ledger, request(run)));
  CHECK(ledger->settle(run, ledger->look(run), settlement(RunStatus::ready), k_no_stop));
  const auto again = claim(*ledger, request(run), Guarantee::at_most_once);
  REQUIRE(again);
  CHECK(again->run().previous == "ready");
  REQUIRE(finish(*again, ended(RunStatus::done, 0)) == Recorded::recorded);

  CHECK(ledger->settle(never_seen, ledger->look(never_seen), settlement(RunStatus::skipped),
                       k_no_stop));
  CHECK(ledger->look(never_seen).row() == RowState::skipped);
  CHECK(ledger->look(never_seen).run->attempts == 0);
  CHECK_FALSE(claim(*ledger, request(never_seen)));
  CHECK(ledger->settle(never_seen, ledger->look(never_seen), settlement(RunStatus::ready),
                       k_no_stop));
  CHECK(claim(*ledger, request(never_seen)));
}

TEST_CASE("a verdict may be the first that a ledger hears of a job") {
  const TemporaryFolder folder;
  const auto ledger = open(folder / "led.db");
  const auto run = key("settle", "2026-10-26");
  auto present = settlement(RunStatus::done, "check");
  present.period = "day";
  present.zone = "UTC";
  SECTION("without a state file") {
    CHECK(ledger->settle(run, ledger->look(run), present, k_no_stop));
    CHECK(ledger->look(run).row() == RowState::done);
    CHECK(ledger->jobs().front().period == "day");
  }
  SECTION("the state file's evidence is taken in with it") {
    present.evidence.emplace();
    present.evidence->last_published = core::BizDate("2026-10-20");
    CHECK(ledger->settle(run, ledger->look(run), present, k_no_stop));
    CHECK(ledger->look(key("settle", "2026-10-19")).at_or_below_floor);
    CHECK(ledger->look(key("settle", "2026-10-20")).row() == RowState::done);
  }
}

TEST_CASE("a start names older unsettled dates once a day, and closes what is dead") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  leave_dead_claim(path, request(key("settle", "2026-10-20")));
  const auto ledger = open(path);
  for (const int day : {21, 22, 23, 24}) {
    const auto held = claim(*ledger, request(key("settle", "2026-10-" + std::to_string(day))));
    REQUIRE(finish(*held, ended(day == 24 ? RunStatus::done : RunStatus::failed, 3)) ==
            Recorded::recorded);
  }
  Shell(path).exec("UPDATE oncerun_job SET unsettled_told_on = '2000-01-01'");
  const auto start = [&](const std::string& date) {
    auto outcome =
        ledger->claim(k_job_lock, request(key("settle", date)), by(Guarantee::cautious), k_no_stop);
    REQUIRE(std::holds_alternative<core::Claimed>(outcome));
    return std::get<core::Claimed>(outcome).unsettled;
  };
  const auto told = start("2026-10-26");
  REQUIRE(told);
  CHECK(told->count == 4);
  REQUIRE(told->oldest.size() == 3);
  CHECK(told->oldest[0].date.label() == "2026-10-20");
  CHECK(told->oldest[2].date.label() == "2026-10-22");
  CHECK_FALSE(start("2026-10-27"));
  // The dead attempt was closed; its row waits for its own claim or verdict.
  Shell shell(path);
  CHECK(shell.query("SELECT result, ended_by FROM job_attempt WHERE biz_date = '2026-10-20'") ==
        "unknown|next-claim");
  CHECK(status_in(path, key("settle", "2026-10-20")) == "pending");
  CHECK(ledger->look(key("settle", "2026-10-20")).owner == OwnerLife::dead);
}

TEST_CASE("the projection names the newest done date and the oldest that is not settled") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  using Status = core::StateDocument::Status;
  const auto ledger = open(path);
  CHECK_FALSE(projection(*ledger, "settle").last_published);
  REQUIRE(run_once(*ledger, key("settle", "2026-10-24")));
  REQUIRE(run_once(*ledger, key("settle", "2026-10-23")));
  CHECK(projection(*ledger, "settle").last_published == core::BizDate("2026-10-24"));
  CHECK(projection(*ledger, "settle").status == Status::done);
  CHECK(projection(*ledger, "settle").every == "day");
  CHECK(projection(*ledger, "settle").job == "settle");

  const auto held = claim(*ledger, request(key("settle", "2026-10-26")));
  CHECK(projection(*ledger, "settle").pending_date == core::BizDate("2026-10-26"));
  CHECK(projection(*ledger, "settle").status == Status::pending);
  REQUIRE(finish(*held, ended(RunStatus::failed, 3)) == Recorded::recorded);
  CHECK(projection(*ledger, "settle").status == Status::failed);
  leave_dead_claim(path, request(key("settle", "2026-10-25")));
  const auto last = projection(*ledger, "settle");
  CHECK(last.pending_date == core::BizDate("2026-10-25"));
  CHECK(last.status == Status::unknown); // a dead owner's
  CHECK(last.last_published == core::BizDate("2026-10-24"));
}

TEST_CASE("looking for people: jobs, overview, attempts") {
  const TemporaryFolder folder;
  const auto ledger = open(folder / "led.db");
  for (const int day : {20, 21, 22}) {
    REQUIRE(run_once(*ledger, key("a", "2026-10-" + std::to_string(day))));
  }
  const auto failed = claim(*ledger, request(key("a", "2026-10-19")));
  core::AttemptResult result = ended(RunStatus::failed, 3);
  result.usage = {std::chrono::microseconds(11), std::chrono::microseconds(12), 13};
  result.note = "exit 3";
  REQUIRE(finish(*failed, result) == Recorded::recorded);
  auto keyed = request(key("orders", "z first"));
  keyed.period = "key";
  keyed.sortable_labels = false;
  keyed.check_verdict = "absent";
  const auto first = claim(*ledger, keyed);
  REQUIRE(finish(*first, ended(RunStatus::done, 0)) == Recorded::recorded);
  keyed.key = key("orders", "a later");
  keyed.run_id = os::random_uuid();
  keyed.zone = "Europe/Berlin"; // keys are cut in no zone
  const auto second = claim(*ledger, keyed);
  REQUIRE(second);
  core::AttemptResult never;
  never.status = RunStatus::failed;
  never.never_started = true;
  REQUIRE(finish(*second, never) == Recorded::recorded);

  REQUIRE(ledger->jobs().size() == 2);
  CHECK(ledger->jobs()[1].job.text() == "orders");
  std::vector<std::string> named;
  for (const core::Sighting& seen : ledger->overview(core::JobName::parse("a"))) {
    named.push_back(seen.run->key.date.label());
  }
  CHECK(named == std::vector<std::string>{"2026-10-19", "2026-10-22"});
  const auto orders = ledger->overview(core::JobName::parse("orders"));
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].run->key.date.label() == "a later");
  CHECK(orders[0].row() == RowState::never_started);
  CHECK(ledger->overview(std::nullopt).size() == 3);

  const auto attempts =
      ledger->attempts({.job = core::JobName::parse("a"), .date = {}, .limit = 2});
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[0].key.date.label() == "2026-10-19");
  CHECK(attempts[0].exit_code == 3);
  CHECK(attempts[0].note == "exit 3");
  CHECK(attempts[0].guarantee == "cautious");
  REQUIRE(attempts[0].usage);
  CHECK(attempts[0].usage->user.count() == 11);
  CHECK(attempts[0].usage->max_rss_kib == 13);
  CHECK(attempts[0].owner.pid == ::getpid());
  CHECK(attempts[1].key.date.label() == "2026-10-22");
  const auto all = ledger->attempts({.job = {}, .date = {}, .limit = 0});
  REQUIRE(all.size() == 6);
  CHECK(all[1].check_verdict == "absent");
  CHECK_FALSE(all[0].usage); // never started
}
