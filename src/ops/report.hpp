#pragma once

#include "core/decide.hpp"
#include "run/plan.hpp"
#include "run/result.hpp"

#include <string>
#include <vector>

namespace oncerun::ops {

/// One invocation, for --report.
struct RunReport {
  const run::Plan* plan = nullptr; ///< not owned; null where the command line never became a plan
  run::Result result;
  /// The exit code that oncerun really ends with, after --exit NAME=CODE.
  int exit_code = 70;
  std::string ledger;   ///< Ledger::describe(); may be empty
  std::string version;  ///< of oncerun
  std::string began_at; ///< the invocation's own instants, as in the ledger
  std::string ended_at;
  std::vector<std::string> messages; ///< what was said on stderr, without hints
};

/// One JSON object, with a final newline: the caller writes it atomically. Every key is always
/// there; null says that it does not apply or is not known.
[[nodiscard]] std::string report_text(const RunReport& report);

} // namespace oncerun::ops
