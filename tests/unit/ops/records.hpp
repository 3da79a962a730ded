#pragma once

// Hand-made records with which the tests of this folder begin.

#include "core/instant.hpp"
#include "ops/output.hpp"
#include "support/fake_ledger.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace oncerun::test {

inline core::RunKey key_of(const std::string& job, const std::string& date) {
  return {core::JobName::parse(job), core::BizDate(date)};
}

/// A run that was claimed at 02:00:00 and settled 192 seconds later with that status.
inline core::RunRecord ended_run(const std::string& job, const std::string& date,
                                 core::RunStatus status, int exit_code) {
  core::RunRecord run = blank_run(key_of(job, date));
  run.status = status;
  run.attempts = 1;
  run.serial = 7;
  run.run_id = "id-" + job + "-" + date;
  run.token = {1000};
  run.host = "alpha";
  run.pid = 4711;
  run.started_at = date + "T02:00:00.000Z";
  run.updated_at = run.finished_at = date + "T02:03:12.000Z";
  run.exit_code = exit_code;
  return run;
}

/// A run that was claimed at 02:00:00 and whose end is not recorded.
inline core::RunRecord open_run(const std::string& job, const std::string& date) {
  core::RunRecord run = ended_run(job, date, core::RunStatus::pending, 0);
  run.updated_at = run.started_at;
  run.finished_at.clear();
  run.exit_code.reset();
  run.end_recorded = false;
  return run;
}

inline std::chrono::sys_time<std::chrono::milliseconds> at(const std::string& text) {
  return core::parse_rfc3339(text).value();
}

/// An Output into texts.
struct Written {
  std::string out;
  std::string err;
  ops::Output output{out, err};

  [[nodiscard]] nlohmann::ordered_json json() const { return nlohmann::ordered_json::parse(out); }
};

} // namespace oncerun::test
