#pragma once

#include "core/ledger.hpp"
#include "ledger/store.hpp"

#include <memory>

namespace oncerun::ledger {

/// core::Ledger::claim: one transaction under the guard.
[[nodiscard]] core::ClaimOutcome claim(const std::shared_ptr<Store>& store,
                                       const core::HeldLock& lock,
                                       const core::ClaimRequest& request,
                                       const core::Decider& decide, const core::StopRequest& stop);

/// The first sight of a job: its row, and what a state file says about it as evidence.
void introduce_job(Writing& writing, const core::JobName& job, const std::string& period,
                   const std::string& zone, bool sortable,
                   const std::optional<core::StateDocument>& evidence);

/// Throws Error (config) when another period or zone was fixed before.
void require_same_periods(const core::JobRecord& job, const std::string& period,
                          const std::string& zone, bool sortable);

/// ONCERUN_RUN_LEDGER.
[[nodiscard]] std::string describe(const Store& store);

} // namespace oncerun::ledger
