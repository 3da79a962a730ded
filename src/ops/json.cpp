#include "ops/json.hpp"

#include "core/uuid.hpp"
#include "ops/standing.hpp"

namespace oncerun::ops {

namespace {

constexpr double k_microseconds = 1e6;

Json pids_of(const std::vector<pid_t>& pids) {
  Json list = Json::array();
  for (const pid_t pid : pids) {
    list.push_back(pid);
  }
  return list;
}

Json pid_or_null(pid_t pid) {
  return pid > 0 ? Json(pid) : Json(nullptr);
}

} // namespace

Json text_or_null(std::string_view text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json json_of(const core::RunKey& key, const core::Sighting& sighting) {
  Json result;
  result["job"] = key.job.text();
  result["biz_date"] = key.date.label();
  const Standing standing = standing_of(sighting);
  result["status"] = nullptr;
  result["reads_as"] = standing.word;
  result["unsettled"] = standing.unsettled;
  if (!sighting.run) {
    return result;
  }
  const core::RunRecord& run = *sighting.run;
  result["status"] = core::name_of(run.status);
  result["owner"] = core::name_of(sighting.owner);
  result["pids"] = pids_of(sighting.pids);
  result["never_started"] = run.never_started;
  result["late_success"] = run.late_success;
  result["end_recorded"] = run.end_recorded;
  result["generation"] = run.generation;
  result["attempts"] = run.attempts;
  result["serial"] = run.serial > 0 ? Json(run.serial) : Json(nullptr);
  result["run_id"] = text_or_null(run.run_id);
  result["token"] = run.token.value > 0 ? Json(run.token.value) : Json(nullptr);
  result["key"] = core::idempotency_key(key, std::nullopt, run.generation);
  result["host"] = text_or_null(run.host);
  result["pid"] = pid_or_null(run.pid);
  result["started_at"] = text_or_null(run.started_at);
  result["updated_at"] = text_or_null(run.updated_at);
  result["finished_at"] = text_or_null(run.finished_at);
  result["exit_code"] = number_or_null(run.exit_code);
  result["signal"] = number_or_null(run.signal);
  result["note"] = text_or_null(run.note);
  return result;
}

Json json_of(const core::AttemptRecord& attempt) {
  Json result;
  result["job"] = attempt.key.job.text();
  result["biz_date"] = attempt.key.date.label();
  result["serial"] = attempt.serial;
  result["number"] = attempt.number;
  result["generation"] = attempt.generation;
  result["run_id"] = text_or_null(attempt.run_id);
  result["token"] = attempt.token.value;
  result["guarantee"] = text_or_null(attempt.guarantee);
  result["previous"] = text_or_null(attempt.previous);
  result["check_verdict"] = text_or_null(attempt.check_verdict);
  result["host"] = text_or_null(attempt.owner.host);
  result["pid"] = pid_or_null(attempt.owner.pid);
  result["machine_id"] = text_or_null(attempt.owner.machine_id);
  result["boot_id"] = text_or_null(attempt.owner.boot_id);
  result["claimed_at"] = text_or_null(attempt.claimed_at);
  result["ended_at"] = text_or_null(attempt.ended_at);
  result["result"] = text_or_null(attempt.result);
  result["never_started"] = attempt.never_started;
  result["exit_code"] = number_or_null(attempt.exit_code);
  result["signal"] = number_or_null(attempt.signal);
  result["usage"] = attempt.usage ? json_of(*attempt.usage) : Json(nullptr);
  result["note"] = text_or_null(attempt.note);
  return result;
}

Json json_of(const core::EventRecord& event) {
  Json result;
  result["job"] = event.key ? Json(event.key->job.text()) : Json(nullptr);
  result["biz_date"] = event.key ? text_or_null(event.key->date.label()) : Json(nullptr);
  result["at"] = text_or_null(event.at);
  result["kind"] = event.kind;
  result["from_status"] = text_or_null(event.from_status);
  result["to_status"] = text_or_null(event.to_status);
  result["run_id"] = text_or_null(event.run_id);
  result["by"] = text_or_null(event.by);
  result["detail"] = text_or_null(event.detail);
  return result;
}

Json json_of(const core::JobRecord& job) {
  Json result;
  result["job"] = job.job.text();
  result["period"] = job.period;
  result["zone"] = job.zone;
  result["last_token"] = job.last_token.value;
  result["floor"] = job.floor ? Json(job.floor->label()) : Json(nullptr);
  result["created_at"] = text_or_null(job.created_at);
  return result;
}

Json json_of(const core::Usage& usage) {
  Json result;
  result["user_seconds"] = static_cast<double>(usage.user.count()) / k_microseconds;
  result["system_seconds"] = static_cast<double>(usage.system.count()) / k_microseconds;
  result["max_rss_kib"] = usage.max_rss_kib;
  return result;
}

std::string text_of(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print(Output& output, const Json& document) {
  output.write(text_of(document));
}

} // namespace oncerun::ops
