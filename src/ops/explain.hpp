#pragma once

#include "ops/output.hpp"
#include "run/pipeline.hpp"

#include <string>

namespace oncerun::ops {

struct ExplainFacts {
  const run::Plan* plan = nullptr; ///< not owned, never null
  run::Explanation found;
  std::string ledger; ///< Ledger::describe()
  std::string lock;   ///< Lock::describe()
};

/// `--explain`: what was found, what a start would do, and why. Starts and changes nothing. Returns
/// the exit code, 0.
[[nodiscard]] int explain(const ExplainFacts& facts, Output& output);

} // namespace oncerun::ops
