#include "ops/history.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::ops {
namespace {

using test::key_of;
using test::Written;

core::AttemptRecord attempt(std::int64_t serial, const std::string& claimed_at) {
  core::AttemptRecord record = test::blank_attempt(key_of("settle", "2026-10-26"));
  record.serial = serial;
  record.number = static_cast<int>(serial);
  record.run_id = "id-" + std::to_string(serial);
  record.token = {1000 + serial};
  record.owner.host = "alpha";
  record.owner.pid = 4711;
  record.claimed_at = claimed_at;
  return record;
}

/// Killed, resolved, failed, never started, and running now.
void fill(test::FakeLedger& ledger) {
  core::AttemptRecord killed = attempt(1, "2026-10-26T02:00:00.000Z");
  killed.ended_at = "2026-10-26T02:03:12.000Z";
  killed.result = "unknown";
  killed.signal = 9;
  killed.note = "killed by signal 9 (KILL)";
  ledger.put_attempt(killed);
  ledger.put_event({key_of("settle", "2026-10-26"), "2026-10-26T03:00:00.000Z", "resolve",
                    "unknown", "ready", "id-1", "ann@alpha", "the bank has nothing"});
  core::AttemptRecord failed = attempt(2, "2026-10-26T03:00:00.000Z");
  failed.ended_at = "2026-10-26T03:00:00.250Z";
  failed.result = "failed";
  failed.exit_code = 3;
  failed.note = "exit 3";
  ledger.put_attempt(failed);
  core::AttemptRecord missing = attempt(3, "2026-10-26T03:10:00.000Z");
  missing.ended_at = "2026-10-26T03:10:00.001Z";
  missing.result = "failed";
  missing.never_started = true;
  missing.note = "could not be started: No such file or directory";
  ledger.put_attempt(missing);
  core::AttemptRecord running = attempt(4, "2026-10-26T03:20:00.000Z");
  ledger.put_attempt(running);
  core::RunRecord run = test::open_run("settle", "2026-10-26");
  run.run_id = "id-4";
  ledger.put_run(run);
  ledger.set_life("id-4", core::OwnerLife::alive);
}

TEST_CASE("history merges attempts and events, newest first", "[ops][history]") {
  test::FakeLedger ledger;
  fill(ledger);
  Written written;
  CHECK(history(ledger, {}, written.output) == 0);
  CHECK(written.out ==
        "WHEN                  JOB     DATE        #  RESULT                     EXIT  TOOK    "
        "WHERE      NOTE\n"
        "2026-10-26 03:20:00Z  settle  2026-10-26  4  running                    -     -       "
        "alpha      -\n"
        "2026-10-26 03:10:00Z  settle  2026-10-26  3  failed                     -     -       "
        "alpha      never started: could not be started: No such file or directory\n"
        "2026-10-26 03:00:00Z  settle  2026-10-26  -  resolve: unknown -> ready  -     -       "
        "ann@alpha  the bank has nothing\n"
        "2026-10-26 03:00:00Z  settle  2026-10-26  2  failed                     3     0.2s    "
        "alpha      -\n"
        "2026-10-26 02:00:00Z  settle  2026-10-26  1  unknown                    KILL  3m 12s  "
        "alpha      killed by signal 9 (KILL)\n");
}

TEST_CASE("history tells what a check said before a start", "[ops][history]") {
  test::FakeLedger ledger;
  core::AttemptRecord failed = attempt(1, "2026-10-26T02:00:00.000Z");
  failed.ended_at = "2026-10-26T02:00:05.000Z";
  failed.result = "failed";
  failed.exit_code = 3;
  failed.note = "exit 3";
  failed.check_verdict = "absent";
  ledger.put_attempt(failed);
  core::AttemptRecord killed = failed;
  killed.serial = killed.number = 2;
  killed.exit_code.reset();
  killed.signal = 9;
  killed.note = "killed by signal 9 (KILL)";
  ledger.put_attempt(killed);
  Written written;
  CHECK(history(ledger, {}, written.output) == 0);
  CHECK(written.out.find(" alpha  check said absent\n") != std::string::npos);
  CHECK(written.out.find(" alpha  killed by signal 9 (KILL); check said absent\n") !=
        std::string::npos);

  Written json;
  json.output.json = true;
  ledger.put_attempt(attempt(3, "2026-10-26T03:00:00.000Z"));
  CHECK(history(ledger, {}, json.output) == 0);
  const auto document = json.json();
  REQUIRE(document.size() == 3);
  CHECK(document[0]["check_verdict"].is_null());
  CHECK(document[1]["check_verdict"] == "absent");
}

TEST_CASE("history of all jobs tells what happened to the ledger", "[ops][history]") {
  test::FakeLedger ledger;
  ledger.put_event({std::nullopt, "2026-10-26T04:00:00.000Z", "ledger-accept", "", "", "",
                    "ann@alpha", "a new id"});
  Written written;
  CHECK(history(ledger, {}, written.output) == 0);
  CHECK(written.out ==
        "WHEN                  JOB  DATE  #  RESULT         EXIT  TOOK  WHERE      NOTE\n"
        "2026-10-26 04:00:00Z  -    -     -  ledger-accept  -     -     ann@alpha  a new id\n");
  Written json;
  json.output.json = true;
  CHECK(history(ledger, {}, json.output) == 0);
  const auto document = json.json();
  REQUIRE(document.size() == 1);
  CHECK(document[0]["kind"] == "ledger-accept");
  CHECK(document[0]["job"].is_null());
  CHECK(document[0]["biz_date"].is_null());

  Written one_job;
  core::Selection selection;
  selection.job = core::JobName::parse("settle");
  CHECK(history(ledger, {selection}, one_job.output) == 0);
  CHECK(one_job.out.empty());
}

TEST_CASE("an open attempt that is not the newest any more reads unknown", "[ops][history]") {
  test::FakeLedger ledger;
  ledger.put_attempt(attempt(1, "2026-10-26T02:00:00.000Z"));
  CHECK(result_of(ledger, ledger.all_attempts().front()) == "unknown");
}

TEST_CASE("history is limited and selected", "[ops][history]") {
  test::FakeLedger ledger;
  fill(ledger);
  Written written;
  written.output.json = true;
  core::Selection selection;
  selection.limit = 3;
  CHECK(history(ledger, {selection}, written.output) == 0);
  const auto document = written.json();
  REQUIRE(document.size() == 3);
  CHECK(document[0]["type"] == "attempt");
  CHECK(document[0]["serial"] == 4);
  CHECK(document[0]["reads_as"] == "running");
  CHECK(document[0]["ended_at"].is_null());
  CHECK(document[1]["serial"] == 3);
  CHECK(document[2]["type"] == "event");
  CHECK(document[2]["from_status"] == "unknown");
  CHECK(document[2]["to_status"] == "ready");
  CHECK(document[2]["by"] == "ann@alpha");

  Written other;
  selection.job = core::JobName::parse("other");
  CHECK(history(ledger, {selection}, other.output) == 0);
  CHECK(other.out.empty());
  CHECK(other.err == "nothing to tell in the ledger fake:memory\n");
}

} // namespace
} // namespace oncerun::ops
