#pragma once

#include "core/ending.hpp"
#include "core/ledger.hpp"
#include "core/outcome.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace oncerun::run {

/// What an invocation came to: the exit code and what the report tells.
struct Result {
  core::Outcome outcome = core::Outcome::internal;
  int exit_code = 70;
  bool started = false;
  std::string reason; ///< one line for a person
  std::string status; ///< of the row as far as this invocation knows; empty if it does not
  std::optional<core::ClaimedRun> run; ///< the newest attempt of this invocation
  std::optional<core::Ending> ending;
  std::string check_verdict; ///< the last answer of a check; empty if none was asked
  std::string claimed_at;
  std::string ended_at;
};

[[nodiscard]] inline Result result_of(core::Outcome outcome, std::string reason) {
  Result result;
  result.outcome = outcome;
  result.exit_code = core::row_of(outcome).code;
  result.reason = std::move(reason);
  return result;
}

[[nodiscard]] inline Result stopped_by(int signal) {
  Result result;
  result.outcome = core::Outcome::signalled;
  result.exit_code = 128 + signal;
  result.reason = "stopped by " + core::signal_name(signal) + " before the start";
  return result;
}

} // namespace oncerun::run
