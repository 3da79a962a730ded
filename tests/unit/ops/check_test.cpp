#include "ops/check.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::ops {
namespace {

using core::CheckAnswer;
using core::RunStatus;
using test::key_of;
using test::Written;

const core::RunKey k_key = key_of("settle", "2026-10-26");

CheckOptions answering(CheckAnswer answer, const std::string& detail) {
  CheckOptions options{k_key, core::Guarantee::cautious, false, {}};
  options.ask = [=](const core::Sighting&) { return CheckReply{answer, detail}; };
  return options;
}

std::string said(test::FakeLedger& ledger, CheckAnswer answer, const std::string& detail,
                 int code) {
  Written written;
  CHECK(check(ledger, answering(answer, detail), written.output) == code);
  CHECK(ledger.all_events().empty());
  return written.out;
}

TEST_CASE("check says what a start would make of the answer", "[ops][check]") {
  test::FakeLedger ledger;
  ledger.put_run(test::open_run("settle", "2026-10-26")); // its owner is dead
  CHECK(said(ledger, CheckAnswer::present, "exit 0", 0) ==
        "settle 2026-10-26: unknown\n"
        "the check says present (exit 0): it happened\n"
        "a start with this check marks the run done and does not start the command\n");
  CHECK(said(ledger, CheckAnswer::absent, "exit 10", 10) ==
        "settle 2026-10-26: unknown\n"
        "the check says absent (exit 10): it did not happen\n"
        "a start with this check asks again after --check-settle and starts the command if it "
        "still says absent\n");
  CHECK(said(ledger, CheckAnswer::unclear, "exit 1", 80) ==
        "settle 2026-10-26: unknown\n"
        "the check says unclear (exit 1): no answer that can be relied on\n"
        "a start with this check holds (exit 80): nothing starts, nothing changes\n");
  CHECK(ledger.run(k_key)->status == RunStatus::pending);
}

TEST_CASE("absent after a plain failure starts at once", "[ops][check]") {
  test::FakeLedger ledger;
  ledger.put_run(test::ended_run("settle", "2026-10-26", RunStatus::failed, 3));
  CHECK(said(ledger, CheckAnswer::absent, "exit 10", 10) ==
        "settle 2026-10-26: failed\n"
        "the check says absent (exit 10): it did not happen\n"
        "a start with this check starts the command\n");
}

TEST_CASE("where a start would not ask, check says so", "[ops][check]") {
  test::FakeLedger ledger;
  CHECK(said(ledger, CheckAnswer::absent, "exit 10", 10) ==
        "settle 2026-10-26: no run yet\n"
        "the check says absent (exit 10): it did not happen\n"
        "a start with this check does not ask it and starts the command: it was never started\n");
  ledger.put_run(test::ended_run("settle", "2026-10-26", RunStatus::done, 0));
  CHECK(said(ledger, CheckAnswer::present, "", 0) ==
        "settle 2026-10-26: done\n"
        "the check says present: it happened\n"
        "a start with this check does not ask it and starts nothing (exit 0): it is done\n");
}

TEST_CASE("the check is asked about what was seen", "[ops][check]") {
  test::FakeLedger ledger;
  ledger.put_run(test::open_run("settle", "2026-10-26"));
  CheckOptions options{k_key, core::Guarantee::cautious, false, {}};
  std::string asked_about;
  options.ask = [&](const core::Sighting& seen) {
    asked_about = seen.run->run_id;
    return CheckReply{CheckAnswer::absent, "exit 10"};
  };
  Written written;
  written.output.json = true;
  CHECK(check(ledger, options, written.output) == 10);
  CHECK(asked_about == "id-settle-2026-10-26");
  CHECK(written.json()["answer"] == "absent");
  CHECK(written.json()["detail"] == "exit 10");
}

} // namespace
} // namespace oncerun::ops
