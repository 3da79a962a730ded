#pragma once

#include "core/ledger.hpp"
#include "ops/human.hpp"
#include "ops/output.hpp"

#include <optional>
#include <string>

namespace oncerun::ops {

struct StatusOptions {
  std::optional<core::JobName> job;
  Instant now; ///< for durations of what still runs
  /// What a pasted command line needs to find this ledger, as " -L PATH"; empty for the default.
  std::string ledger_argument;
};

/// `oncerun status`: each job's newest run and every open or unsettled one, those first that a
/// person should look at, and what that person may do. Returns the exit code, 0.
[[nodiscard]] int status(core::Ledger& ledger, const StatusOptions& options, Output& output);

} // namespace oncerun::ops
