#pragma once

#include "core/ledger.hpp"
#include "core/records.hpp"
#include "ledger/store.hpp"

#include <string>
#include <vector>

namespace oncerun::ledger {

/// The end of one attempt as it is to be written.
struct AttemptEnd {
  core::RunKey key;
  std::string run_id;
  core::Token token;
  std::int64_t serial = 0;
  core::AttemptResult result;
  std::string at; ///< UTC
};

/// Commits nothing. Changes the row if it still is pending and this attempt's, and completes the
/// attempt's record. A failure becomes `unknown` where a late success of an older attempt was noted
/// meanwhile. `by`: "owner" or "spool".
[[nodiscard]] core::Recorded record_end(Database& database, const AttemptEnd& end,
                                        std::string_view by);

/// The result of an attempt that lost its row meanwhile (a person settled it): completes the
/// attempt's record, and notes a success as a late one. Commits nothing.
void record_late(Writing& writing, const SpooledResult& result);

/// Posts what stands in the spools to its own attempts. Idempotent. Returns what is to be cleared
/// after the commit; what cannot be posted (torn, of another ledger) stays and is said.
[[nodiscard]] std::vector<SpoolEntry> post_spooled(Writing& writing);
/// After an attempt was judged dead: its owner may have spooled its result and gone since the slots
/// were read. Posts that, adds it to `posted`, and then the run has to be looked at again (true).
[[nodiscard]] bool post_spooled_since(Writing& writing, std::int64_t serial,
                                      std::vector<SpoolEntry>& posted);
/// After the commit: never throws, since a slot that is not cleared is merely posted again.
void clear_posted(Store& store, const std::vector<SpoolEntry>& posted) noexcept;

} // namespace oncerun::ledger
