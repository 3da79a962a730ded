#pragma once

#include "core/ledger.hpp"
#include "ops/output.hpp"

#include <string>

namespace oncerun::ops {

struct JobSetOptions {
  core::JobName job;
  std::string period; ///< canonical text; empty: as it is
  std::string zone;   ///< empty: as it is
  std::string by;     ///< user@host
};

/// `oncerun job set`: changes the period or zone that the first claim fixed. Returns the exit code,
/// 0. Throws UsageError when nothing is to be changed; what the ledger refuses is its Error.
[[nodiscard]] int job_set(core::Ledger& ledger, const JobSetOptions& options,
                          const core::StopRequest& stop, Output& output);

} // namespace oncerun::ops
