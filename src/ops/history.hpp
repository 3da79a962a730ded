#pragma once

#include "core/ledger.hpp"
#include "ops/human.hpp"
#include "ops/output.hpp"

namespace oncerun::ops {

struct HistoryOptions {
  core::Selection selection; ///< its limit bounds attempts and events together
};

/// `oncerun history`: attempts and what else happened to runs, newest first; of all jobs also what
/// happened to the ledger. Returns the exit code.
[[nodiscard]] int history(core::Ledger& ledger, const HistoryOptions& options, Output& output);

/// Attempts of one listing whose end is not recorded read as their run does now: "running",
/// "orphaned", "unknown", …
[[nodiscard]] std::string result_of(core::Ledger& ledger, const core::AttemptRecord& attempt);
/// How long an ended attempt took; nothing if its end was only settled later.
[[nodiscard]] std::optional<std::chrono::milliseconds>
duration_of(const core::AttemptRecord& attempt);

} // namespace oncerun::ops
