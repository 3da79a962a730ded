#include "core/uuid.hpp"
#include "ops/report.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

#include <nlohmann/json.hpp>

#include <set>

namespace oncerun::ops {
namespace {

using test::key_of;

std::set<std::string> keys_of(const nlohmann::ordered_json& document) {
  std::set<std::string> keys;
  for (const auto& [key, value] : document.items()) {
    keys.insert(key);
  }
  return keys;
}

TEST_CASE("a report tells a run", "[ops][report]") {
  const core::RunKey key = key_of("s\"ü", "2026-10-26");
  const auto second = [](const char* text) {
    return std::chrono::floor<std::chrono::seconds>(test::at(text));
  };
  const run::Plan plan{
      .key = key,
      .period = core::Period(),
      .slot = {key.date, second("2026-10-26T00:00:00Z"), second("2026-10-27T00:00:00Z")}};
  RunReport report;
  report.plan = &plan;
  report.result = run::result_of(core::Outcome::command, "exit 3");
  report.result.started = true;
  report.result.status = "failed";
  report.result.run =
      core::ClaimedRun{key, "the-run-id", {1234}, 7, 2, 1, "never-started", "sqlite:/l", false};
  core::Ending ending;
  ending.started = true;
  ending.exit_code = 3;
  ending.usage.user = std::chrono::milliseconds(250);
  report.result.ending = ending;
  report.result.claimed_at = "2026-10-26T02:00:00.000Z";
  report.result.ended_at = "2026-10-26T02:00:01.500Z";
  report.exit_code = 7; // by --exit
  report.ledger = "sqlite:/l";
  report.version = "0.1.0";
  report.messages = {"one", "two \xff"};
  const std::string text = report_text(report);
  CHECK(text.back() == '\n');
  const auto document = nlohmann::ordered_json::parse(text);
  CHECK(document["oncerun"] == "0.1.0");
  CHECK(document["outcome"] == "command");
  CHECK(document["exit_code"] == 7);
  CHECK(document["started"] == true);
  CHECK(document["status"] == "failed");
  CHECK(document["job"] == "s\"ü");
  CHECK(document["biz_date"] == "2026-10-26");
  CHECK(document["period_end"] == "2026-10-27T00:00:00Z");
  CHECK(document["run_id"] == "the-run-id");
  CHECK(document["attempt"] == 2);
  CHECK(document["token"] == 1234);
  CHECK(document["key"] == core::idempotency_key(key, std::nullopt, 1));
  CHECK(document["previous"] == "never-started");
  CHECK(document["command_exit_code"] == 3);
  CHECK(document["command_signal"].is_null());
  CHECK(document["duration_ms"] == 1500);
  CHECK(document["usage"]["user_seconds"] == 0.25);
  CHECK(document["check_verdict"].is_null());
  CHECK(document["messages"][1] == "two \xef\xbf\xbd"); // U+FFFD for the byte that is no UTF-8
}

TEST_CASE("a report has the same keys when there was no run at all", "[ops][report]") {
  RunReport bare;
  bare.result = run::result_of(core::Outcome::usage, "bad");
  const auto nothing = nlohmann::ordered_json::parse(report_text(bare));
  CHECK(nothing["outcome"] == "usage");
  CHECK(nothing["started"] == false);
  CHECK(nothing["job"].is_null());
  CHECK(nothing["run_id"].is_null());
  CHECK(nothing["command_exit_code"].is_null());
  CHECK(nothing["usage"].is_null());

  RunReport full = bare;
  full.result.run = core::ClaimedRun{key_of("a", "b"), "i", {1}, 1, 1, 1, "none", "", false};
  core::Ending ending;
  ending.start_error = 2;
  ending.exec_failed = true;
  full.result.ending = ending;
  const auto more = nlohmann::ordered_json::parse(report_text(full));
  CHECK(keys_of(more) == keys_of(nothing));
  CHECK(more["start_error"] == 2);
  CHECK(more["command_exit_code"].is_null());
}

} // namespace
} // namespace oncerun::ops
