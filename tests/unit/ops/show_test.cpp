#include "core/uuid.hpp"
#include "ops/show.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::ops {
namespace {

using test::key_of;
using test::Written;

const core::RunKey k_key = key_of("settle", "2026-10-26");

void fill(test::FakeLedger& ledger) {
  ledger.put_job({k_key.job,
                  "day",
                  "Europe/Berlin",
                  {1234},
                  core::BizDate("2026-01-31"),
                  "2026-01-01T00:00:00.000Z"});
  core::RunRecord run = test::open_run("settle", "2026-10-26");
  run.attempts = 2;
  ledger.put_run(run);
  core::AttemptRecord first = test::blank_attempt(k_key);
  first.serial = 6;
  first.number = 1;
  first.run_id = "id-first";
  first.token = {999};
  first.guarantee = "cautious";
  first.previous = "none";
  first.owner.host = "alpha";
  first.owner.pid = 4000;
  first.claimed_at = "2026-10-26T01:00:00.000Z";
  first.ended_at = "2026-10-26T01:00:10.000Z";
  first.result = "failed";
  first.exit_code = 3;
  first.usage = core::Usage{std::chrono::milliseconds(1500), std::chrono::milliseconds(20), 2048};
  ledger.put_attempt(first);
  core::AttemptRecord second = test::blank_attempt(k_key);
  second.serial = 7;
  second.number = 2;
  second.run_id = run.run_id;
  second.token = {1000};
  second.guarantee = "at-least-once";
  second.previous = "failed";
  second.check_verdict = "absent (exit 10)";
  second.owner.host = "alpha";
  second.owner.pid = 4711;
  second.claimed_at = run.started_at;
  ledger.put_attempt(second);
  ledger.put_event({k_key, "2026-10-26T01:30:00.000Z", "check", "failed", "", "id-first",
                    "root@alpha", "absent (exit 10)"});
}

TEST_CASE("show tells a run with all that is known of it", "[ops][show]") {
  test::FakeLedger ledger;
  fill(ledger);
  Written written;
  CHECK(show(ledger, {k_key, test::at("2026-10-26T05:12:00.000Z"), ""}, written.output) == 0);
  CHECK(written.out ==
        "settle 2026-10-26: unknown (the row says pending)\n"
        "  why          its owner is gone, its end was not recorded\n"
        "  since        2026-10-26 02:00:00Z (3h 12m ago)\n"
        "  was on       alpha:4711\n"
        "  attempts     2, generation 1\n"
        "  key          " +
            core::idempotency_key(k_key, std::nullopt, 1) +
            "\n"
            "  job          every day in Europe/Berlin, last token 1234, dates up to 2026-01-31 "
            "are held unless they have a run\n"
            "  a start now  holds (exit 80): the last attempt was cut short, and nobody knows how "
            "much of it happened\n"
            "  to settle    oncerun resolve -j settle -d 2026-10-26 --done|--ready|--skip --reason "
            "TEXT\n"
            "\n"
            "attempt 2: unknown\n"
            "  claimed      2026-10-26 02:00:00Z\n"
            "  ended        not recorded\n"
            "  where        alpha, pid 4711\n"
            "  run id       id-settle-2026-10-26\n"
            "  token        1000, serial 7, generation 1\n"
            "  guarantee    at-least-once\n"
            "  before it    failed\n"
            "  check said   absent (exit 10)\n"
            "\n"
            "attempt 1: failed, exit 3\n"
            "  claimed      2026-10-26 01:00:00Z\n"
            "  ended        2026-10-26 01:00:10Z, took 10s\n"
            "  where        alpha, pid 4000\n"
            "  run id       id-first\n"
            "  token        999, serial 6, generation 1\n"
            "  guarantee    cautious\n"
            "  before it    none\n"
            "  used         1.50s user, 0.02s system, 2048 KiB at most\n"
            "\n"
            "WHEN                  WHAT   FROM    TO  BY          DETAIL\n"
            "2026-10-26 01:30:00Z  check  failed  -   root@alpha  absent (exit 10)\n");
}

TEST_CASE("show for programs", "[ops][show]") {
  test::FakeLedger ledger;
  fill(ledger);
  Written written;
  written.output.json = true;
  CHECK(show(ledger, {k_key, test::at("2026-10-26T05:12:00.000Z"), ""}, written.output) == 0);
  const auto document = written.json();
  CHECK(document["reads_as"] == "unknown");
  CHECK(document["status"] == "pending");
  CHECK(document["owner"] == "dead");
  CHECK(document["token"] == 1000);
  CHECK(document["job_record"]["floor"] == "2026-01-31");
  REQUIRE(document["attempt_list"].size() == 2);
  CHECK(document["attempt_list"][0]["number"] == 2);
  CHECK(document["attempt_list"][0]["reads_as"] == "unknown");
  CHECK(document["attempt_list"][0]["usage"].is_null());
  CHECK(document["attempt_list"][0]["check_verdict"] == "absent (exit 10)");
  CHECK(document["attempt_list"][1]["check_verdict"].is_null());
  CHECK(document["attempt_list"][1]["usage"]["user_seconds"] == 1.5);
  CHECK(document["attempt_list"][1]["usage"]["max_rss_kib"] == 2048);
  REQUIRE(document["events"].size() == 1);
  CHECK(document["events"][0]["detail"] == "absent (exit 10)");
}

TEST_CASE("a run that is not there", "[ops][show]") {
  test::FakeLedger ledger;
  fill(ledger);
  const auto now = test::at("2026-10-26T05:12:00.000Z");
  Written later;
  CHECK(show(ledger, {key_of("settle", "2026-10-27"), now, ""}, later.output) == 1);
  CHECK(later.out.empty());
  CHECK(later.err == "no run of settle for 2026-10-27 in the ledger fake:memory\n"
                     "a start now starts the command: it was never started\n");
  Written old;
  CHECK(show(ledger, {key_of("settle", "2026-01-05"), now, ""}, old.output) == 1);
  CHECK(old.err == "no run of settle for 2026-01-05 in the ledger fake:memory\n"
                   "a start now holds (exit 80): it is not newer than dates settled before this "
                   "ledger kept them\n");
  Written stranger;
  stranger.output.json = true;
  CHECK(show(ledger, {key_of("other", "2026-10-26"), now, ""}, stranger.output) == 1);
  CHECK(stranger.out == "null\n");
  CHECK(stranger.err ==
        "no run of other for 2026-10-26 in the ledger fake:memory, which does not know the job\n");
}

} // namespace
} // namespace oncerun::ops
