// The fake must be honest: tests of the layers above believe it.

#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::test {
namespace {

using core::RunStatus;

const core::RunKey k_key = key_of("settle", "2026-10-26");
const core::NoStopRequest k_no_stop;

core::ClaimOutcome claim(FakeLedger& ledger, const std::string& run_id,
                         const core::RunKey& key = k_key) {
  const FakeHeldLock lock;
  const core::ClaimRequest request{key,    "day", "UTC", true,  core::Guarantee::cautious,
                                   run_id, "",    {},    false, std::chrono::milliseconds(0)};
  return ledger.claim(
      lock, request,
      [](const core::Sighting& seen) {
        core::Situation situation;
        situation.row = seen.row();
        situation.owner = seen.owner;
        situation.at_or_below_floor = seen.at_or_below_floor;
        return core::decide(situation);
      },
      k_no_stop);
}

core::AttemptResult ended(RunStatus status) {
  core::AttemptResult result;
  result.status = status;
  return result;
}

TEST_CASE("the fake lives and dies with its claims", "[fake]") {
  FakeLedger ledger;
  {
    const core::ClaimOutcome first = claim(ledger, "one");
    REQUIRE(std::holds_alternative<core::Claimed>(first));
    CHECK(std::get<core::Claimed>(first).claim->run().first_of_job);
    CHECK(ledger.look(k_key).owner == core::OwnerLife::alive);
    const core::ClaimOutcome second = claim(ledger, "two");
    REQUIRE(std::holds_alternative<core::NotClaimed>(second));
    CHECK(std::get<core::NotClaimed>(second).decision.action == core::Action::busy);
    CHECK(std::holds_alternative<core::OtherDateLives>(
        claim(ledger, "three", key_of("settle", "2026-10-27"))));
  }
  CHECK(ledger.look(k_key).owner == core::OwnerLife::dead);
  const core::ClaimOutcome held = claim(ledger, "four");
  REQUIRE(std::holds_alternative<core::NotClaimed>(held));
  CHECK(std::get<core::NotClaimed>(held).decision.action == core::Action::hold);
}

TEST_CASE("the fake records only what is still the attempt's", "[fake]") {
  FakeLedger ledger;
  core::ClaimOutcome outcome = claim(ledger, "one");
  core::Claim& mine = *std::get<core::Claimed>(outcome).claim;
  CHECK(ledger.still_mine(k_key, "one", mine.run().token));

  SECTION("recorded") {
    CHECK(mine.finish(ended(RunStatus::done), {}, k_no_stop) == core::Recorded::recorded);
    CHECK(ledger.run(k_key)->status == RunStatus::done);
    CHECK_FALSE(ledger.still_mine(k_key, "one", mine.run().token));
    CHECK(std::get<core::NotClaimed>(claim(ledger, "two")).decision.action == core::Action::leave);
  }
  SECTION("marked by the command") {
    CHECK_FALSE(ledger.command_marks_done("one", {mine.run().token.value + 1}));
    CHECK(ledger.command_marks_done("one", mine.run().token));
    CHECK(mine.finish(ended(RunStatus::unknown), {}, k_no_stop) ==
          core::Recorded::marked_by_command);
    CHECK(ledger.run(k_key)->status == RunStatus::done);
  }
  SECTION("lost") {
    core::RunRecord other = open_run("settle", "2026-10-26");
    ledger.put_run(other);
    CHECK(mine.finish(ended(RunStatus::done), {}, k_no_stop) == core::Recorded::lost);
    CHECK(ledger.run(k_key)->status == RunStatus::pending);
  }
}

TEST_CASE("the fake's tokens, numbers and serials grow", "[fake]") {
  FakeLedger ledger;
  core::Token last;
  for (int number = 1; number <= 3; ++number) {
    core::ClaimOutcome outcome = claim(ledger, std::to_string(number));
    core::Claim& mine = *std::get<core::Claimed>(outcome).claim;
    CHECK(mine.run().number == number);
    CHECK(mine.run().serial == number);
    CHECK(mine.run().token > last);
    CHECK(mine.run().previous == (number == 1 ? "none" : "failed"));
    last = mine.run().token;
    CHECK(mine.finish(ended(RunStatus::failed), {}, k_no_stop) == core::Recorded::recorded);
  }
}

TEST_CASE("the fake takes a state file as evidence once", "[fake]") {
  FakeLedger ledger;
  core::StateDocument document;
  document.last_published = core::BizDate("2026-10-25");
  document.pending_date = core::BizDate("2026-10-26");
  document.status = core::StateDocument::Status::pending;
  const FakeHeldLock lock;
  const core::ClaimRequest request{k_key, "day", "UTC",    true,  core::Guarantee::cautious,
                                   "one", "",    document, false, std::chrono::milliseconds(0)};
  core::RowState seen_row = core::RowState::none;
  const core::ClaimOutcome outcome = ledger.claim(
      lock, request,
      [&](const core::Sighting& seen) {
        seen_row = seen.row();
        return core::Decision{core::Action::hold, core::Reason::in_doubt};
      },
      k_no_stop);
  CHECK(std::holds_alternative<core::NotClaimed>(outcome));
  CHECK(seen_row == core::RowState::unknown);
  CHECK(ledger.run(key_of("settle", "2026-10-25"))->status == RunStatus::done);
  CHECK(ledger.look(key_of("settle", "2026-10-20")).at_or_below_floor);
  std::string projected;
  ledger.project(
      k_key.job,
      [&](const core::StateDocument& state) {
        projected = state.last_published->label() + " " + state.pending_date->label();
      },
      k_no_stop);
  CHECK(projected == "2026-10-25 2026-10-26");
}

} // namespace
} // namespace oncerun::test
