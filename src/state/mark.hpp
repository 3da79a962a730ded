#pragma once

#include "core/ledger.hpp"
#include "core/records.hpp"
#include "core/state_document.hpp"

#include <optional>
#include <string>

namespace oncerun::state {

// A state file alone as a ledger: what its document says about a run, and what becomes of it.
// Pure. It remembers two dates and one mark:
//
//   lastPublishedDate  the newest done date
//   skippedDate        the newest date that an operator decided not to run
//   pendingDate        the one date whose run is open or unsettled (the mark)
//
// The mark says what its own date is; other dates are done or skipped by equality with the first
// two, and everything older than the newer of them is not knowable: held. So dates only go forward,
// except for a mark, which an operator may set on an older date (ready).
//
// The fields of the attempt belong to one date: the mark's, without a mark the newer of the first
// two. A change that would leave them with another date forgets them; token and serial stay.

/// The newer of lastPublishedDate and skippedDate.
[[nodiscard]] std::optional<core::BizDate> settled_up_to(const core::StateDocument& document);

/// The row of this run as the file tells it; none if it tells nothing.
[[nodiscard]] std::optional<core::RunRecord> run_of(const core::StateDocument& document,
                                                    const core::RunKey& key);

/// Whether the date is older than what is settled, and not the mark's.
[[nodiscard]] bool is_not_knowable(const core::StateDocument& document, const core::BizDate& date);

/// The job as the file knows it; none if the file names none.
[[nodiscard]] std::optional<core::JobRecord> job_of(const core::StateDocument& document,
                                                    const core::JobName& job);

/// Who claimed the newest attempt.
[[nodiscard]] core::OwnerIdentity owner_of(const core::StateDocument& document);

/// The newest attempt as history; none if the file has none.
[[nodiscard]] std::optional<core::AttemptRecord> attempt_of(const core::StateDocument& document,
                                                            const core::JobName& job);

/// The claim written over `document`: attempt number and generation follow from what stands there.
[[nodiscard]] core::StateDocument with_claim(core::StateDocument document,
                                             const core::ClaimRequest& request, core::Token token,
                                             bool new_generation, const core::OwnerIdentity& owner,
                                             const std::string& now);

[[nodiscard]] core::StateDocument with_result(core::StateDocument document,
                                              const core::BizDate& date,
                                              const core::AttemptResult& result,
                                              const std::string& now);

/// Throws Error (held) where another date's mark is in the way, and (config) for a verdict on a
/// date that is not knowable and has no mark.
[[nodiscard]] core::StateDocument with_settlement(core::StateDocument document,
                                                  const core::RunKey& key,
                                                  const core::Settlement& settlement,
                                                  const std::string& now);

} // namespace oncerun::state
