#pragma once

#include "core/records.hpp"
#include "ledger/store.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace oncerun::ledger {

/// A run's row with the identity of its newest attempt's owner.
struct Row {
  core::RunRecord run;
  core::OwnerIdentity owner;
  std::string stored_status; ///< as it stands in the row; run.status may say what it means
};

/// What stands about one run: its job and its row.
struct Found {
  std::optional<core::JobRecord> job;
  std::optional<Row> row;
  // Of find_to_claim() alone:
  std::string unsettled_told_on; ///< a date in UTC, when older unsettled runs were last spoken of
  bool older_unsettled = false;  ///< whether an older date is failed, unknown or pending
  bool attempts_open = false;    ///< whether any attempt of the job has no recorded end
};

// The columns and joins of every statement that reads runs (r, a) or jobs (j), and their readers;
// `first` is the column where they begin.
extern const std::string k_run_columns;
constexpr int k_run_column_count = 23;
constexpr std::string_view k_run_join = " LEFT JOIN job_attempt a ON a.serial = r.serial ";
extern const std::string k_job_columns;
constexpr int k_job_column_count = 6;
/// What stands there, or Error (config): somebody changed the ledger by hand.
[[nodiscard]] core::JobName read_job_name(const Statement& statement, int column);
/// A count of attempts or generations; one more of it is a number, too.
[[nodiscard]] int read_count(const Statement& statement, int column);
[[nodiscard]] Row read_row(const Statement& statement, int first);
[[nodiscard]] core::JobRecord read_job(const Statement& statement, int first);

[[nodiscard]] core::RunStatus status_of(std::string_view text);

/// One statement. nullopt if the tables are not there, or are of another version.
[[nodiscard]] std::optional<Found> find(Database& database, const core::RunKey& key);
/// The same, and what else a claim has to know of the job.
[[nodiscard]] std::optional<Found> find_to_claim(Database& database, const core::RunKey& key);

/// What is known of the owner of the row's newest attempt, and pids as far as they can be seen.
/// Not final when it says `dead` outside a write transaction: the row must be read again.
[[nodiscard]] std::pair<core::OwnerLife, std::vector<pid_t>>
life_of(Store& store, const os::LifeFile& life, const Row& row);

/// Judged: a dead owner's row on which a late success is noted reads as unknown.
[[nodiscard]] core::Sighting sighting_of(Store& store, const os::LifeFile& life,
                                         const core::RunKey& key, const Found& found);

/// Whether anybody's bytes have to be looked at: not for a final run whose attempt has ended.
[[nodiscard]] bool may_have_owner(const core::RunRecord& run);
/// Whether it was found that the owner is gone, or may be: then the row must be read again.
[[nodiscard]] bool is_gone(const core::Sighting& sighting);

/// Closes an attempt's record for an owner who did not: nothing if it is closed.
/// `by`: "next-claim" or "settlement".
void close_attempt(Writing& writing, std::int64_t serial, std::string_view by,
                   std::string_view result, const std::string& note);

void add_event(Writing& writing, const core::EventRecord& event);

/// Makes the job's row.
void add_job(Writing& writing, const core::JobName& job, const std::string& period,
             const std::string& zone, const std::optional<core::BizDate>& floor);

} // namespace oncerun::ledger
