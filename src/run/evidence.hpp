#pragma once

#include "core/ledger.hpp"
#include "run/plan.hpp"

namespace oncerun::run {

/// A state file that is there before the ledger knows the job is evidence of what happened under
/// other care: reads it into the request. Does nothing without --state, where the state file is the
/// truth, and for a job that is known.
void take_evidence(const Plan& plan, bool job_is_known, core::ClaimRequest& request);

/// Whether a date in a state file can be one of this job's: a label of its period that has begun.
[[nodiscard]] bool is_plausible_date(const Plan& plan, const core::BizDate& date);

} // namespace oncerun::run
