#include "core/error.hpp"
#include "ops/resolve.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::ops {
namespace {

using core::OwnerLife;
using core::RunStatus;
using test::ended_run;
using test::key_of;
using test::open_run;
using test::Written;

const core::RunKey k_key = key_of("settle", "2026-10-26");
constexpr const char* k_id = "id-settle-2026-10-26";

enum class To { done, ready, skip };

ResolveOptions options(To to) {
  return {.key = k_key,
          .done = to == To::done,
          .ready = to == To::ready,
          .skip = to == To::skip,
          .reason = "seen at the bank",
          .by = "ann@alpha",
          .period = {},
          .zone = {},
          .end_tree = {}};
}

struct Refusal {
  core::Outcome outcome;
  std::string message;
  std::string hint;
};

/// What resolve() throws; and that nothing changed by it.
Refusal refused(test::FakeLedger& ledger, const ResolveOptions& options) {
  const std::size_t events = ledger.all_events().size();
  const auto status = [&] { return ledger.run(k_key) ? int(ledger.run(k_key)->status) : -1; };
  const int before = status();
  Written written;
  try {
    (void)resolve(ledger, options, core::NoStopRequest(), written.output);
  } catch (const core::Error& error) {
    CHECK(status() == before);
    CHECK(ledger.all_events().size() == events);
    CHECK(written.out.empty());
    return {error.outcome(), error.what(), error.hint()};
  }
  FAIL("resolve did not refuse");
  return {core::Outcome::internal, "", ""};
}

std::string resolved(test::FakeLedger& ledger, const ResolveOptions& options) {
  Written written;
  CHECK(resolve(ledger, options, core::NoStopRequest(), written.output) == 0);
  return written.out;
}

TEST_CASE("resolve wants one of three and a reason", "[ops][resolve]") {
  test::FakeLedger ledger;
  ledger.put_run(ended_run("settle", "2026-10-26", RunStatus::failed, 3));
  ResolveOptions none = options(To::done);
  none.done = false;
  CHECK(refused(ledger, none).outcome == core::Outcome::usage);
  ResolveOptions two = options(To::done);
  two.skip = true;
  CHECK(refused(ledger, two).message == "resolve takes only one of --done, --ready and --skip");
  for (const char* reason : {"", "   ", "two\nlines", "\x1b[2J", "\xff"}) {
    ResolveOptions bad = options(To::done);
    bad.reason = reason;
    CHECK(refused(ledger, bad).outcome == core::Outcome::usage);
  }
  ResolveOptions longer = options(To::done);
  longer.reason = std::string(1001, 'x');
  CHECK(refused(ledger, longer).message == "the reason has 1001 bytes, at most 1000 are kept");
}

TEST_CASE("resolve refuses beside a live owner, whatever is forced", "[ops][resolve]") {
  test::FakeLedger ledger;
  const bool between_retries = GENERATE(false, true);
  ledger.put_run(between_retries ? ended_run("settle", "2026-10-26", RunStatus::failed, 3)
                                 : open_run("settle", "2026-10-26"));
  ledger.set_life(k_id, OwnerLife::alive);
  ResolveOptions forced = options(To::done);
  forced.force = GENERATE(false, true);
  forced.end_tree = [](const core::Sighting&) -> bool {
    throw std::logic_error("not to be called");
  };
  const Refusal refusal = refused(ledger, forced);
  CHECK(refusal.outcome == core::Outcome::busy);
  CHECK(refusal.message.find("settle 2026-10-26 is running: alpha:4711 since 2026-10-26 02:0") ==
        0);
  CHECK(refusal.hint == "wait for it, or end it there with: kill -TERM 4711");
}

TEST_CASE("resolve ends an orphaned tree only with --force", "[ops][resolve]") {
  test::FakeLedger ledger;
  ledger.put_run(open_run("settle", "2026-10-26"));
  ledger.set_life(k_id, OwnerLife::orphaned, {81, 82});
  const Refusal refusal = refused(ledger, options(To::done));
  CHECK(refusal.outcome == core::Outcome::busy);
  CHECK(refusal.message == "the oncerun of settle 2026-10-26 is gone, but what it started still "
                           "runs: alpha:81, 82 since 2026-10-26 02:00:00Z");

  ResolveOptions forced = options(To::ready);
  forced.force = true;
  SECTION("the tree ends") {
    int called = 0;
    forced.end_tree = [&](const core::Sighting& seen) {
      ++called;
      CHECK(seen.pids == std::vector<pid_t>{81, 82});
      ledger.set_life(k_id, OwnerLife::dead);
      return true;
    };
    CHECK(resolved(ledger, forced) ==
          "settle 2026-10-26: pending -> ready; the next start runs it without asking\n");
    CHECK(called == 1);
    CHECK(ledger.run(k_key)->status == RunStatus::ready);
  }
  SECTION("it does not") {
    forced.end_tree = [](const core::Sighting&) { return false; };
    const Refusal stays = refused(ledger, forced);
    CHECK(stays.outcome == core::Outcome::busy);
    CHECK(stays.message == "what still runs of settle 2026-10-26 could not be ended: alpha:81, 82");
  }
  SECTION("it was said to have ended, but something is left") {
    forced.end_tree = [](const core::Sighting&) { return true; };
    CHECK(refused(ledger, forced).outcome == core::Outcome::busy);
  }
  SECTION("somebody else claimed it meanwhile") {
    forced.end_tree = [&](const core::Sighting&) {
      core::RunRecord next = open_run("settle", "2026-10-26");
      next.run_id = "another";
      next.token = {1001};
      ledger.put_run(next);
      ledger.set_life("another", OwnerLife::dead);
      return true;
    };
    CHECK(refused(ledger, forced).message ==
          "settle 2026-10-26 changed meanwhile, nothing was resolved");
  }
}

TEST_CASE("what cannot be proven is accepted only with --force", "[ops][resolve]") {
  test::FakeLedger ledger;
  ledger.put_run(open_run("settle", "2026-10-26"));
  ledger.set_life(k_id, OwnerLife::not_provable);
  CHECK(refused(ledger, options(To::done)).outcome == core::Outcome::held);
  ResolveOptions forced = options(To::done);
  forced.force = true;
  CHECK(resolved(ledger, forced) ==
        "settle 2026-10-26: pending -> done; every start leaves it alone\n");
  CHECK(ledger.run(k_key)->status == RunStatus::done);
}

TEST_CASE("a dead owner's run is settled and audited", "[ops][resolve]") {
  test::FakeLedger ledger;
  ledger.set_now("2026-10-26T06:00:00.000Z");
  ledger.put_run(open_run("settle", "2026-10-26"));
  CHECK(resolved(ledger, options(To::skip)) ==
        "settle 2026-10-26: pending -> skipped; no start runs it any more\n");
  CHECK(ledger.run(k_key)->status == RunStatus::skipped);
  CHECK(ledger.run(k_key)->end_recorded);
  REQUIRE(ledger.all_events().size() == 1);
  const core::EventRecord& event = ledger.all_events().front();
  CHECK(event.kind == "resolve");
  CHECK(event.at == "2026-10-26T06:00:00.000Z");
  CHECK(event.from_status == "pending");
  CHECK(event.to_status == "skipped");
  CHECK(event.run_id == k_id);
  CHECK(event.by == "ann@alpha");
  CHECK(event.detail == "seen at the bank");
}

TEST_CASE("a resolve is undone by another, and a repeated one changes nothing", "[ops][resolve]") {
  test::FakeLedger ledger;
  ledger.put_run(ended_run("settle", "2026-10-26", RunStatus::done, 0));
  CHECK(resolved(ledger, options(To::done)) ==
        "settle 2026-10-26 already is done: nothing was changed\n");
  CHECK(ledger.all_events().empty());
  CHECK(resolved(ledger, options(To::ready)) ==
        "settle 2026-10-26: done -> ready; the next start runs it without asking\n");
  CHECK(resolved(ledger, options(To::done)) ==
        "settle 2026-10-26: ready -> done; every start leaves it alone\n");
  CHECK(ledger.all_events().size() == 2);
}

TEST_CASE("a change between look and settle is seen", "[ops][resolve]") {
  test::FakeLedger ledger;
  ledger.put_run(ended_run("settle", "2026-10-26", RunStatus::failed, 3));
  ledger.before_write([&] {
    core::RunRecord next = open_run("settle", "2026-10-26");
    next.run_id = "another";
    ledger.put_run(next);
  });
  Written written;
  try {
    (void)resolve(ledger, options(To::done), core::NoStopRequest(), written.output);
    FAIL("the change was not seen");
  } catch (const core::Error& error) {
    CHECK(error.outcome() == core::Outcome::busy);
    CHECK(error.hint() == "look again: oncerun show -j settle -d 2026-10-26");
  }
  CHECK(ledger.run(k_key)->status == RunStatus::pending);
  CHECK(ledger.all_events().empty());
}

TEST_CASE("a date without a run can be decided beforehand", "[ops][resolve]") {
  test::FakeLedger ledger;
  CHECK(refused(ledger, options(To::skip)).outcome == core::Outcome::config);
  ledger.put_run(ended_run("settle", "2026-10-25", RunStatus::done, 0));
  CHECK(resolved(ledger, options(To::skip)) ==
        "settle 2026-10-26: no run -> skipped; no start runs it any more\n");
  CHECK(ledger.run(k_key)->status == RunStatus::skipped);
}

TEST_CASE("resolve for programs", "[ops][resolve]") {
  test::FakeLedger ledger;
  ledger.put_run(ended_run("settle", "2026-10-26", RunStatus::failed, 3));
  Written written;
  written.output.json = true;
  CHECK(resolve(ledger, options(To::done), core::NoStopRequest(), written.output) == 0);
  const auto document = written.json();
  CHECK(document["from_status"] == "failed");
  CHECK(document["to_status"] == "done");
  CHECK(document["changed"] == true);
  CHECK(document["reason"] == "seen at the bank");
}

} // namespace
} // namespace oncerun::ops
