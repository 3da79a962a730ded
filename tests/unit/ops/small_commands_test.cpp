#include "core/error.hpp"
#include "ops/job_set.hpp"
#include "ops/ledger_accept.hpp"
#include "ops/still_mine.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

#include <functional>
#include <memory>
#include <string>

namespace oncerun::ops {
namespace {

using test::key_of;
using test::Written;

const core::RunKey k_key = key_of("settle", "2026-10-26");
const StillMineOptions k_asking{"settle", "2026-10-26", "id-settle-2026-10-26", "1000", false};

/// The copy shares what the ledger remembers.
OpenLedger opened(const test::FakeLedger& ledger) {
  return [&ledger] { return std::make_unique<test::FakeLedger>(ledger); };
}

template<class Call>
core::Outcome outcome_of(const Call& call) {
  try {
    (void)call();
  } catch (const core::Error& error) {
    return error.outcome();
  }
  FAIL("nothing was refused");
  return core::Outcome::internal;
}

TEST_CASE("still-mine answers by exit code and silence", "[ops][still-mine]") {
  test::FakeLedger ledger;
  ledger.put_run(test::open_run("settle", "2026-10-26"));
  Written written;
  CHECK(still_mine(opened(ledger), k_asking, written.output) == 0);
  StillMineOptions other = k_asking;
  other.token = "999";
  CHECK(still_mine(opened(ledger), other, written.output) == 82);
  other = k_asking;
  other.run_id = "another";
  CHECK(still_mine(opened(ledger), other, written.output) == 82);
  CHECK(written.out.empty());
  CHECK(written.err.empty());
  other.verbose = true;
  CHECK(still_mine(opened(ledger), other, written.output) == 82);
  CHECK(written.out == "settle 2026-10-26 is not this attempt's\n");
}

TEST_CASE("still-mine is no after the run ended", "[ops][still-mine]") {
  test::FakeLedger ledger;
  ledger.put_run(test::ended_run("settle", "2026-10-26", core::RunStatus::done, 0));
  Written written;
  CHECK(still_mine(opened(ledger), k_asking, written.output) == 82);
}

TEST_CASE("still-mine outside a run is a usage error", "[ops][still-mine]") {
  test::FakeLedger ledger;
  Written written;
  for (std::string StillMineOptions::*field :
       {&StillMineOptions::job, &StillMineOptions::date, &StillMineOptions::run_id,
        &StillMineOptions::token}) {
    StillMineOptions options = k_asking;
    (options.*field).clear();
    CHECK(outcome_of([&] { return still_mine(opened(ledger), options, written.output); }) ==
          core::Outcome::usage);
  }
  for (const char* token : {"x", "12x", "-1", " 1", "99999999999999999999"}) {
    StillMineOptions options = k_asking;
    options.token = token;
    CHECK(outcome_of([&] { return still_mine(opened(ledger), options, written.output); }) ==
          core::Outcome::usage);
  }
}

TEST_CASE("still-mine that cannot find out says so and never no", "[ops][still-mine]") {
  Written written;
  for (const core::Outcome cause : {core::Outcome::config, core::Outcome::unavailable,
                                    core::Outcome::unwritable, core::Outcome::held}) {
    const OpenLedger refused = [cause]() -> std::unique_ptr<core::Ledger> {
      throw core::Error(cause, "the ledger has more than one name", "keep one");
    };
    try {
      (void)still_mine(refused, k_asking, written.output);
      FAIL("nothing was refused");
    } catch (const core::Error& error) {
      CHECK(error.outcome() == core::Outcome::unavailable);
      CHECK(std::string(error.what()) == "the ledger has more than one name");
      CHECK(error.hint() == "keep one");
    }
  }
  const OpenLedger undescribed = []() -> std::unique_ptr<core::Ledger> {
    throw core::UsageError("ONCERUN_RUN_LEDGER is not set");
  };
  CHECK(outcome_of([&] { return still_mine(undescribed, k_asking, written.output); }) ==
        core::Outcome::usage);

  // Even a usage error, where a ledger was opened: its rows are not what the command passed.
  test::FakeLedger ledger;
  ledger.put_run(test::open_run("settle", "2026-10-26"));
  for (const core::Outcome cause :
       {core::Outcome::config, core::Outcome::unavailable, core::Outcome::usage}) {
    ledger.fail_asking(core::Error(cause, "the ledger cannot be read"));
    CHECK(outcome_of([&] { return still_mine(opened(ledger), k_asking, written.output); }) ==
          core::Outcome::unavailable);
  }
  CHECK(written.out.empty());
}

TEST_CASE("job set changes what the first claim fixed", "[ops][job-set]") {
  test::FakeLedger ledger;
  ledger.put_run(test::ended_run("settle", "2026-10-26", core::RunStatus::done, 0));
  Written written;
  const core::NoStopRequest stop;
  CHECK(job_set(ledger, {k_key.job, "hour", "", "ann@alpha"}, stop, written.output) == 0);
  CHECK(written.out == "settle: every hour in UTC (was: every day in UTC)\n");
  CHECK(ledger.jobs().front().period == "hour");
  REQUIRE(ledger.all_events().size() == 1);
  CHECK(ledger.all_events().front().by == "ann@alpha");

  CHECK(outcome_of([&] {
          return job_set(ledger, {k_key.job, "", "", "ann@alpha"}, stop, written.output);
        }) == core::Outcome::usage);
  ledger.put_run(test::open_run("settle", "2026-10-27"));
  CHECK(outcome_of([&] {
          return job_set(ledger, {k_key.job, "day", "", "ann@alpha"}, stop, written.output);
        }) == core::Outcome::config);
  CHECK(ledger.jobs().front().period == "hour");
}

TEST_CASE("ledger accept says what is left to do", "[ops][ledger-accept]") {
  test::FakeLedger ledger;
  Written written;
  CHECK(ledger_accept(ledger, {"ann@alpha"}, core::NoStopRequest(), written.output) == 0);
  CHECK(ledger.accepted() == 1);
  REQUIRE(ledger.all_events().size() == 1);
  CHECK_FALSE(ledger.all_events().front().key);
  CHECK(ledger.all_events().front().by == "ann@alpha");
  CHECK(written.out.find("accepted fake:memory; ") == 0);
}

} // namespace
} // namespace oncerun::ops
