#include "ops/report.hpp"

#include "core/instant.hpp"
#include "core/outcome.hpp"
#include "core/uuid.hpp"
#include "ops/human.hpp"
#include "ops/json.hpp"

namespace oncerun::ops {

namespace {

void add_plan(Json& document, const run::Plan* plan) {
  const bool timed = plan != nullptr && !plan->period.is_key();
  document["job"] = plan != nullptr ? Json(plan->key.job.text()) : Json(nullptr);
  document["biz_date"] = plan != nullptr ? Json(plan->key.date.label()) : Json(nullptr);
  document["period"] = plan != nullptr ? Json(plan->period.text()) : Json(nullptr);
  document["period_start"] = timed ? Json(core::print_rfc3339(plan->slot.start)) : Json(nullptr);
  document["period_end"] = timed ? Json(core::print_rfc3339(plan->slot.end)) : Json(nullptr);
  document["guarantee"] = plan != nullptr ? Json(core::name_of(plan->guarantee)) : Json(nullptr);
}

void add_attempt(Json& document, const std::optional<core::ClaimedRun>& run) {
  for (const char* key :
       {"run_id", "serial", "attempt", "generation", "token", "key", "previous"}) {
    document[key] = nullptr;
  }
  if (run) {
    document["run_id"] = run->run_id;
    document["serial"] = run->serial;
    document["attempt"] = run->number;
    document["generation"] = run->generation;
    document["token"] = run->token.value;
    document["key"] = core::idempotency_key(run->key, std::nullopt, run->generation);
    document["previous"] = text_or_null(run->previous);
  }
}

void add_ending(Json& document, const run::Result& result) {
  const std::optional<core::Ending>& ending = result.ending;
  const bool started = ending && ending->started;
  const auto duration = between(result.claimed_at, result.ended_at);
  document["claimed_at"] = text_or_null(result.claimed_at);
  document["ended_at"] = text_or_null(result.ended_at);
  document["duration_ms"] = duration ? Json(duration->count()) : Json(nullptr);
  document["command_exit_code"] = started ? number_or_null(ending->exit_code) : Json(nullptr);
  document["command_signal"] = started ? number_or_null(ending->signal) : Json(nullptr);
  document["start_error"] =
      ending && !started && ending->start_error != 0 ? Json(ending->start_error) : Json(nullptr);
  document["stop_signal"] =
      ending && ending->stop_signal != 0 ? Json(ending->stop_signal) : Json(nullptr);
  document["timed_out"] = ending ? Json(ending->timed_out) : Json(nullptr);
  document["usage"] = started ? json_of(ending->usage) : Json(nullptr);
}

} // namespace

std::string report_text(const RunReport& report) {
  const run::Result& result = report.result;
  Json document;
  document["oncerun"] = report.version;
  document["outcome"] = core::name_of(result.outcome);
  document["exit_code"] = report.exit_code;
  document["started"] = result.started;
  document["status"] = text_or_null(result.status);
  document["reason"] = text_or_null(result.reason);
  add_plan(document, report.plan);
  document["ledger"] = text_or_null(report.ledger);
  add_attempt(document, result.run);
  document["check_verdict"] = text_or_null(result.check_verdict);
  add_ending(document, result);
  document["invocation_began_at"] = text_or_null(report.began_at);
  document["invocation_ended_at"] = text_or_null(report.ended_at);
  document["messages"] = report.messages;
  return text_of(document);
}

} // namespace oncerun::ops
