#include "ops/status.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::ops {
namespace {

using core::OwnerLife;
using core::RunStatus;
using test::ended_run;
using test::open_run;
using test::Written;

constexpr const char* k_now = "2026-10-26T02:05:00.000Z";

/// One job in each state that a row and its owner can be in.
void fill(test::FakeLedger& ledger) {
  ledger.put_run(ended_run("alpha", "2026-10-26", RunStatus::done, 0));
  core::RunRecord failed = ended_run("beta", "2026-10-26", RunStatus::failed, 3);
  ledger.put_run(failed);
  ledger.put_run(open_run("gamma", "2026-10-26"));
  ledger.set_life("id-gamma-2026-10-26", OwnerLife::alive, {4711});
  ledger.put_run(open_run("delta", "2026-10-25"));
  ledger.set_life("id-delta-2026-10-25", OwnerLife::orphaned, {81, 82});
  ledger.put_run(ended_run("delta", "2026-10-26", RunStatus::skipped, 0));
  ledger.put_run(open_run("epsilon", "2026-10-26"));
  ledger.set_life("id-epsilon-2026-10-26", OwnerLife::dead);
}

TEST_CASE("status shows first what waits for a person", "[ops][status]") {
  test::FakeLedger ledger;
  fill(ledger);
  Written written;
  CHECK(status(ledger, {{}, test::at(k_now), ""}, written.output) == 0);
  CHECK(
      written.out ==
      "JOB      DATE        STATUS    SINCE                 TOOK    WHO           NOTE\n"
      "delta    2026-10-25  orphaned  2026-10-25 02:00:00Z  1d 0h   alpha:81, 82  oncerun is "
      "gone, what it started still runs\n"
      "epsilon  2026-10-26  unknown   2026-10-26 02:00:00Z  -       alpha:4711    its owner is "
      "gone, its end was not recorded\n"
      "beta     2026-10-26  failed    2026-10-26 02:03:12Z  3m 12s  -             exit 3\n"
      "gamma    2026-10-26  running   2026-10-26 02:00:00Z  5m 0s   alpha:4711    -\n"
      "alpha    2026-10-26  done      2026-10-26 02:03:12Z  3m 12s  -             -\n"
      "delta    2026-10-26  skipped   2026-10-26 02:03:12Z  3m 12s  -             exit 0\n"
      "\n"
      "3 runs unsettled:\n"
      "  delta 2026-10-25 orphaned (oncerun is gone, what it started still runs)\n"
      "    a start now starts nothing (exit 75): its oncerun is gone, but the command it started "
      "still runs\n"
      "    oncerun show -j delta -d 2026-10-25\n"
      "    oncerun resolve -j delta -d 2026-10-25 --force --done|--ready|--skip --reason TEXT\n"
      "  epsilon 2026-10-26 unknown (its owner is gone, its end was not recorded)\n"
      "    a start now holds (exit 80): the last attempt was cut short, and nobody knows how much "
      "of it happened\n"
      "    oncerun show -j epsilon -d 2026-10-26\n"
      "    oncerun resolve -j epsilon -d 2026-10-26 --done|--ready|--skip --reason TEXT\n"
      "  beta 2026-10-26 failed (exit 3)\n"
      "    a start now starts the command: the last attempt failed\n"
      "    oncerun show -j beta -d 2026-10-26\n"
      "    oncerun resolve -j beta -d 2026-10-26 --done|--ready|--skip --reason TEXT\n");
  CHECK(written.err.empty());
}

TEST_CASE("a run between retries is nobody's to settle", "[ops][status]") {
  test::FakeLedger ledger;
  ledger.put_run(ended_run("beta", "2026-10-26", RunStatus::failed, 3));
  ledger.set_life("id-beta-2026-10-26", OwnerLife::alive);
  Written written;
  CHECK(status(ledger, {{}, test::at(k_now), ""}, written.output) == 0);
  CHECK(written.out ==
        "JOB   DATE        STATUS    SINCE                 TOOK   WHO         NOTE\n"
        "beta  2026-10-26  retrying  2026-10-26 02:03:12Z  5m 0s  alpha:4711  exit 3\n");
}

TEST_CASE("a command that was never started is told from one that failed", "[ops][status]") {
  test::FakeLedger ledger;
  core::RunRecord run = ended_run("beta", "2026-10-26", RunStatus::failed, 0);
  run.exit_code.reset();
  run.never_started = true;
  run.note = "could not be started: No such file or directory";
  ledger.put_run(run);
  Written written;
  CHECK(status(ledger, {{}, test::at(k_now), ""}, written.output) == 0);
  CHECK(written.out.find("beta  2026-10-26  failed  2026-10-26 02:03:12Z  -     -    never "
                         "started: could not be started: No such file or directory\n") !=
        std::string::npos);
  CHECK(written.out.find("    a start now starts the command: the command could not be started "
                         "last time\n") != std::string::npos);
}

TEST_CASE("what cannot be proven says so and asks for --force", "[ops][status]") {
  test::FakeLedger ledger;
  ledger.put_run(open_run("beta", "2026-10-26"));
  ledger.set_life("id-beta-2026-10-26", OwnerLife::not_provable);
  Written written;
  CHECK(status(ledger, {{}, test::at(k_now), " -L /srv/led.db"}, written.output) == 0);
  CHECK(written.out ==
        "JOB   DATE        STATUS        SINCE                 TOOK  WHO         NOTE\n"
        "beta  2026-10-26  not-provable  2026-10-26 02:00:00Z  -     alpha:4711  whether its owner "
        "on alpha still lives cannot be proven from here\n"
        "\n"
        "1 run unsettled:\n"
        "  beta 2026-10-26 not-provable (whether its owner on alpha still lives cannot be proven "
        "from here)\n"
        "    a start now holds (exit 80): whether its last owner still lives cannot be proven from "
        "here\n"
        "    oncerun show -j beta -d 2026-10-26 -L /srv/led.db\n"
        "    oncerun resolve -j beta -d 2026-10-26 -L /srv/led.db --force --done|--ready|--skip "
        "--reason TEXT\n");
}

TEST_CASE("many unsettled runs are counted, not all explained", "[ops][status]") {
  test::FakeLedger ledger;
  for (const char* date : {"2026-10-20", "2026-10-21", "2026-10-22", "2026-10-23", "2026-10-24",
                           "2026-10-25", "2026-10-26"}) {
    ledger.put_run(ended_run("beta", date, RunStatus::failed, 3));
  }
  Written written;
  CHECK(status(ledger, {{}, test::at(k_now), ""}, written.output) == 0);
  CHECK(written.out.find("7 runs unsettled:\n  beta 2026-10-26 failed") != std::string::npos);
  CHECK(written.out.find("  beta 2026-10-22 failed") != std::string::npos);
  CHECK(written.out.find("  beta 2026-10-21 failed") == std::string::npos);
  CHECK(written.out.find("  and 2 more, all in the table above\n") != std::string::npos);
}

TEST_CASE("status of one job, and of a job without runs", "[ops][status]") {
  test::FakeLedger ledger;
  fill(ledger);
  ledger.put_job({core::JobName::parse("zeta"), "week", "UTC", {0}, {}, ""});
  Written one;
  CHECK(status(ledger, {core::JobName::parse("alpha"), test::at(k_now), ""}, one.output) == 0);
  CHECK(one.out == "JOB    DATE        STATUS  SINCE                 TOOK    WHO  NOTE\n"
                   "alpha  2026-10-26  done    2026-10-26 02:03:12Z  3m 12s  -    -\n");
  Written idle;
  CHECK(status(ledger, {core::JobName::parse("zeta"), test::at(k_now), ""}, idle.output) == 0);
  CHECK(idle.out == "JOB   DATE  STATUS  SINCE  TOOK  WHO  NOTE\n"
                    "zeta  -     none    -      -     -    no run is kept\n");
  Written none;
  CHECK(status(ledger, {core::JobName::parse("eta"), test::at(k_now), ""}, none.output) == 0);
  CHECK(none.out.empty());
  CHECK(none.err == "no run of eta in the ledger fake:memory\n");
}

TEST_CASE("an empty ledger says so to people", "[ops][status]") {
  test::FakeLedger ledger;
  Written piped;
  CHECK(status(ledger, {{}, test::at(k_now), ""}, piped.output) == 0);
  CHECK(piped.out.empty());
  CHECK(piped.err.empty());
  Written shown;
  shown.output.terminal = true;
  CHECK(status(ledger, {{}, test::at(k_now), ""}, shown.output) == 0);
  CHECK(shown.out == "no job has run yet in the ledger fake:memory\n");
  Written json;
  json.output.json = true;
  CHECK(status(ledger, {{}, test::at(k_now), ""}, json.output) == 0);
  CHECK(json.out == "[]\n");
}

TEST_CASE("status for programs", "[ops][status]") {
  test::FakeLedger ledger;
  fill(ledger);
  Written written;
  written.output.json = true;
  written.output.colour = true; // must not get into it
  CHECK(status(ledger, {{}, test::at(k_now), ""}, written.output) == 0);
  const auto document = written.json();
  REQUIRE(document.size() == 6);
  const auto& orphaned = document[0];
  CHECK(orphaned["job"] == "delta");
  CHECK(orphaned["biz_date"] == "2026-10-25");
  CHECK(orphaned["status"] == "pending");
  CHECK(orphaned["reads_as"] == "orphaned");
  CHECK(orphaned["unsettled"] == true);
  CHECK(orphaned["owner"] == "orphaned");
  CHECK(orphaned["pids"] == nlohmann::ordered_json({81, 82}));
  CHECK(orphaned["finished_at"].is_null());
  CHECK(orphaned["exit_code"].is_null());
  CHECK(orphaned["duration_ms"] == 86'700'000);
  CHECK(document[1]["reads_as"] == "unknown");
  CHECK(document[1]["status"] == "pending");
  CHECK(document[1]["duration_ms"].is_null());
  CHECK(document[2]["exit_code"] == 3);
  CHECK(document[4]["job"] == "alpha");
  CHECK(document[4]["since"] == "2026-10-26T02:03:12.000Z");
  CHECK(document[4]["period"] == "day");
  CHECK(document[4]["unsettled"] == false);
}

} // namespace
} // namespace oncerun::ops
