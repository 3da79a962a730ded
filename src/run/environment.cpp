#include "run/environment.hpp"

#include "core/instant.hpp"
#include "core/uuid.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace oncerun::run {

namespace {

/// The variables that oncerun sets; what stands there of an outer oncerun is replaced or removed.
constexpr std::array<std::string_view, 17> k_own_variables{
    "ONCERUN_JOB",          "ONCERUN_BIZ_DATE",    "ONCERUN_PERIOD_START", "ONCERUN_PERIOD_END",
    "ONCERUN_RUN_ID",       "ONCERUN_ATTEMPT",     "ONCERUN_KEY",          "ONCERUN_GENERATION",
    "ONCERUN_TOKEN",        "ONCERUN_PREVIOUS",    "ONCERUN_RUN_LEDGER",   "ONCERUN_ANCESTORS",
    "ONCERUN_CHECK_RUN_ID", "ONCERUN_CHECK_TOKEN", "ONCERUN_SHARD",        "ONCERUN_SHARDS",
    "ONCERUN_PROGRESS"};

std::string_view name_part(std::string_view entry) noexcept {
  return entry.substr(0, entry.find('='));
}

class Builder {
 public:
  explicit Builder(const std::vector<std::string>& given) {
    m_entries.reserve(given.size() + k_own_variables.size());
    for (const std::string& entry : given) {
      const std::string_view name = name_part(entry);
      const bool own =
          name.starts_with("ONCERUN_") &&
          std::find(k_own_variables.begin(), k_own_variables.end(), name) != k_own_variables.end();
      if (!own) {
        m_entries.push_back(entry);
      }
    }
  }

  void set(std::string_view name, std::string_view value) {
    std::string entry(name);
    entry.append("=").append(value);
    m_entries.push_back(std::move(entry));
  }

  std::vector<std::string> take() { return std::move(m_entries); }

 private:
  std::vector<std::string> m_entries;
};

void set_run(Builder& builder, const Plan& plan, int generation) {
  builder.set("ONCERUN_JOB", plan.key.job.text());
  builder.set("ONCERUN_BIZ_DATE", plan.key.date.label());
  if (!plan.period.is_key() && plan.zone != nullptr) {
    builder.set("ONCERUN_PERIOD_START", core::print_local_rfc3339(*plan.zone, plan.slot.start));
    builder.set("ONCERUN_PERIOD_END", core::print_local_rfc3339(*plan.zone, plan.slot.end));
  }
  builder.set("ONCERUN_KEY", core::idempotency_key(plan.key, std::nullopt, generation));
  builder.set("ONCERUN_GENERATION", std::to_string(generation));
  const char* outer = find_variable(plan.environment, "ONCERUN_ANCESTORS");
  std::string ancestors = outer != nullptr && *outer != '\0' ? std::string(outer) + ":" : "";
  ancestors += core::ancestor_hash(plan.key);
  builder.set("ONCERUN_ANCESTORS", ancestors);
}

} // namespace

const char* find_variable(const std::vector<std::string>& environment,
                          std::string_view name) noexcept {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && name_part(entry) == name) {
      return entry.c_str() + name.size() + 1;
    }
  }
  return nullptr;
}

Questioned questioned(const core::Sighting& seen) {
  Questioned attempt;
  attempt.previous = core::previous_name(seen.row());
  if (seen.run) {
    attempt.generation = seen.run->generation;
    attempt.run_id = seen.run->run_id;
    attempt.token = seen.run->token;
  }
  return attempt;
}

Questioned questioned(const core::ClaimedRun& run) {
  return {run.generation, run.previous, run.run_id, run.token};
}

std::vector<std::string> command_environment(const Plan& plan, const core::ClaimedRun& run) {
  Builder builder(plan.environment);
  set_run(builder, plan, run.generation);
  builder.set("ONCERUN_RUN_ID", run.run_id);
  builder.set("ONCERUN_ATTEMPT", std::to_string(run.number));
  builder.set("ONCERUN_TOKEN", std::to_string(run.token.value));
  builder.set("ONCERUN_PREVIOUS", run.previous);
  builder.set("ONCERUN_RUN_LEDGER", run.ledger);
  return builder.take();
}

std::vector<std::string> check_environment(const Plan& plan, const Questioned& attempt) {
  Builder builder(plan.environment);
  set_run(builder, plan, attempt.generation);
  builder.set("ONCERUN_PREVIOUS", attempt.previous);
  if (!attempt.run_id.empty()) {
    builder.set("ONCERUN_CHECK_RUN_ID", attempt.run_id);
    builder.set("ONCERUN_CHECK_TOKEN", std::to_string(attempt.token.value));
  }
  return builder.take();
}

} // namespace oncerun::run
