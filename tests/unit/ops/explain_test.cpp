#include "ops/explain.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::ops {
namespace {

using test::key_of;
using test::Written;

class Berlin final : public core::Zone {
 public:
  [[nodiscard]] std::chrono::seconds offset_at(std::chrono::sys_seconds) const override {
    return std::chrono::hours(1);
  }
  [[nodiscard]] const std::string& name() const override { return m_name; }

 private:
  std::string m_name = "Europe/Berlin";
};

std::chrono::sys_seconds seconds(const std::string& text) {
  return std::chrono::floor<std::chrono::seconds>(test::at(text));
}

run::Plan plan_for(const core::RunKey& key, const core::Zone& zone) {
  run::Plan plan{
      .key = key,
      .period = core::Period(),
      .slot = {key.date, seconds("2026-10-25T23:00:00Z"), seconds("2026-10-26T23:00:00Z")}};
  plan.zone = &zone;
  plan.command = {"/opt/pay", "--to", "two words", "redis://u:secret@h/0"};
  return plan;
}

TEST_CASE("explain tells what was found and what would be done", "[ops][explain]") {
  const Berlin zone;
  const core::RunKey key = key_of("settle", "2026-10-26");
  run::Plan plan = plan_for(key, zone);
  plan.check.emplace();
  plan.check->command = "/opt/did-it-happen";
  plan.state_path = "/var/lib/settle.json";
  test::FakeLedger ledger;
  ledger.put_run(test::open_run("settle", "2026-10-26"));
  ExplainFacts facts;
  facts.plan = &plan;
  facts.found.seen = ledger.look(key);
  facts.found.decision = {core::Action::ask, core::Reason::in_doubt};
  facts.ledger = "sqlite:/var/lib/oncerun/ledger.db";
  facts.lock = "flock /var/lib/oncerun/x.lock";
  Written written;
  CHECK(explain(facts, written.output) == 0);
  CHECK(written.out ==
        "job        settle\n"
        "date       2026-10-26\n"
        "period     every day in Europe/Berlin, from 2026-10-25T23:00:00Z to "
        "2026-10-26T23:00:00Z\n"
        "ledger     sqlite:/var/lib/oncerun/ledger.db\n"
        "state      /var/lib/settle.json\n"
        "lock       flock /var/lib/oncerun/x.lock, free\n"
        "run        unknown since 2026-10-26 02:00:00Z, alpha:4711 (its owner is gone, its end was "
        "not recorded)\n"
        "guarantee  cautious\n"
        "check      /opt/did-it-happen\n"
        "command    /opt/pay --to 'two words' 'redis://u:***@h/0'\n"
        "a start    asks the check first: the last attempt was cut short, and nobody knows how "
        "much of it happened\n");
}

TEST_CASE("explain tells who holds the lock", "[ops][explain]") {
  const Berlin zone;
  const core::RunKey key = key_of("settle", "2026-10-26");
  run::Plan plan = plan_for(key, zone);
  ExplainFacts facts;
  facts.plan = &plan;
  facts.found.decision = {core::Action::start, core::Reason::first_time};
  facts.found.lock_held = true;
  core::LockNote note;
  note.job = "settle";
  note.date = "2026-10-25";
  note.host = "alpha";
  note.pid = 17;
  note.since = "2026-10-26T00:00:01.000Z";
  facts.found.lock_holder = note;
  facts.ledger = "sqlite:/l";
  facts.lock = "flock /k";
  Written written;
  CHECK(explain(facts, written.output) == 0);
  CHECK(written.out.find("lock       flock /k, held for 2026-10-25 by alpha:17 since 2026-10-26 "
                         "00:00:01Z\nrun        no run yet\n") != std::string::npos);
  CHECK(written.out.find("a start    is locked out; else starts the command: it was never "
                         "started\n") != std::string::npos);
  plan.wait = std::chrono::seconds(5);
  Written waiting;
  CHECK(explain(facts, waiting.output) == 0);
  CHECK(waiting.out.find("a start    waits for the lock; then starts the command") !=
        std::string::npos);
}

TEST_CASE("explain for programs", "[ops][explain]") {
  const Berlin zone;
  const core::RunKey key = key_of("settle", "2026-10-26");
  const run::Plan plan = plan_for(key, zone);
  test::FakeLedger ledger;
  ledger.put_run(test::ended_run("settle", "2026-10-26", core::RunStatus::done, 0));
  ExplainFacts facts;
  facts.plan = &plan;
  facts.found.seen = ledger.look(key);
  facts.found.decision = {core::Action::leave, core::Reason::already_done};
  facts.ledger = "sqlite:/l";
  facts.lock = "flock /k";
  Written written;
  written.output.json = true;
  CHECK(explain(facts, written.output) == 0);
  const auto document = written.json();
  CHECK(document["run"]["job"] == "settle");
  CHECK(document["run"]["status"] == "done");
  CHECK(document["period"] == "day");
  CHECK(document["period_start"] == "2026-10-25T23:00:00Z");
  CHECK(document["lock"]["held"] == false);
  CHECK(document["lock"]["holder"].is_null());
  CHECK(document["check"].is_null());
  CHECK(document["action"] == "leave");
  CHECK(document["why"] == "it is done");
  CHECK(document["command"][3] == "redis://u:***@h/0");
}

} // namespace
} // namespace oncerun::ops
