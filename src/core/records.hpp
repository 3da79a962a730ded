#pragma once

#include "core/decide.hpp"
#include "core/ending.hpp"
#include "core/names.hpp"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace oncerun::core {

// Instants in these records are UTC as ISO 8601 text with milliseconds, "2026-10-26T18:00:00.123Z":
// the form in which they stand in the ledger. An empty text means "not known" or "not yet".

/// Where and by whom an attempt was claimed: what a later start needs to judge its life.
struct OwnerIdentity {
  std::string host;
  std::string machine_id;          ///< machine-id(5)
  std::string boot_id;             ///< /proc/sys/kernel/random/boot_id
  std::string life_id;             ///< random id of the liveness file whose bytes the owner holds
  std::uint64_t pid_namespace = 0; ///< inode of /proc/self/ns/pid
  pid_t pid = 0;
};

/// A job as the ledger knows it. The first claim fixes period and zone.
struct JobRecord {
  JobName job;
  std::string period; ///< canonical text, as Period prints it
  std::string zone;
  Token last_token;
  std::optional<BizDate> floor; ///< dates at or below that have no row are held
  std::string created_at;
};

/// One run: a row of job_run with what is needed of its newest attempt.
struct RunRecord {
  RunKey key;
  RunStatus status = RunStatus::pending;
  bool never_started = false;
  bool late_success = false;
  int generation = 1;
  int attempts = 0;
  std::int64_t serial = 0; ///< of the newest attempt
  std::string run_id;      ///< of the newest attempt
  Token token;
  std::string host;
  pid_t pid = 0;
  std::string started_at; ///< when the newest attempt was claimed
  std::string updated_at;
  std::string finished_at;
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool end_recorded = true; ///< of the newest attempt
  std::string note;         ///< one line for a person: why it stands so
};

/// One attempt: a row of the history.
struct AttemptRecord {
  RunKey key;
  std::int64_t serial = 0;
  int number = 0;
  int generation = 1;
  std::string run_id;
  Token token;
  std::string guarantee;
  std::string previous; ///< ONCERUN_PREVIOUS of this attempt
  OwnerIdentity owner;
  std::string claimed_at;
  std::string ended_at;
  std::string result; ///< status it ended with; empty while open
  bool never_started = false;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string note;
  std::optional<Usage> usage;
  std::string check_verdict = {}; ///< what the check said before this start; empty if none asked
};

/// Something that happened to a run beside its attempts: a check's verdict, an operator's resolve,
/// a result that arrived late.
struct EventRecord {
  std::optional<RunKey> key; ///< none for what happened to the whole ledger; no date: to the job
  std::string at;
  std::string kind; ///< "check", "resolve", "late-result", "import", "job-set", "ledger-accept"
  std::string from_status;
  std::string to_status;
  std::string run_id; ///< of the attempt it is about; may be empty
  std::string by;     ///< user@host
  std::string detail; ///< reason, exit code of the check, …
};

/// What one look at a run found. `pids` are those of an orphaned tree, as far as they can be seen.
struct Sighting {
  std::optional<JobRecord> job;
  std::optional<RunRecord> run;
  OwnerLife owner = OwnerLife::settled;
  std::vector<pid_t> pids;
  bool at_or_below_floor = false;

  [[nodiscard]] RowState row() const noexcept {
    return run ? row_state(run->status, run->never_started, run->late_success) : RowState::none;
  }
};

/// What is to be written about an attempt that ended.
struct AttemptResult {
  RunStatus status = RunStatus::unknown;
  bool never_started = false;
  std::optional<int> exit_code;
  std::optional<int> signal;
  Usage usage;
  std::string note;
};

} // namespace oncerun::core
