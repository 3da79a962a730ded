#pragma once

#include "core/ledger.hpp"
#include "ops/output.hpp"

#include <functional>
#include <memory>
#include <string>

namespace oncerun::ops {

/// The values of the variables that a command finds in its environment; empty where one is missing.
struct StillMineOptions {
  std::string job;    ///< ONCERUN_JOB
  std::string date;   ///< ONCERUN_BIZ_DATE
  std::string run_id; ///< ONCERUN_RUN_ID
  std::string token;  ///< ONCERUN_TOKEN
  bool verbose = false;
};

/// Opens the ledger in which the run was claimed. Throws UsageError outside a run, else Error.
using OpenLedger = std::function<std::unique_ptr<core::Ledger>()>;

/// `oncerun still-mine`: whether the attempt that asks still owns its run; to be asked right before
/// an irreversible step. Silent unless verbose. Returns the exit code, 0 for yes and 82 for no.
/// Throws UsageError outside a run, and Error (unavailable), whatever the cause, when it cannot
/// open the ledger or ask it: a command must be able to rely on 0 and 82.
[[nodiscard]] int still_mine(const OpenLedger& open, const StillMineOptions& options,
                             Output& output);

} // namespace oncerun::ops
