#pragma once

#include "core/lock.hpp"
#include "core/records.hpp"
#include "core/state_document.hpp"
#include "core/stop.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace oncerun::core {

/// What a claim is asked for. Everything but the key is the present invocation's.
struct ClaimRequest {
  RunKey key;
  std::string period; ///< canonical text; compared with the job's, fixed by the first claim
  std::string zone;
  bool sortable_labels = true; ///< false for period `key`: no floor, no projection
  Guarantee guarantee = Guarantee::cautious;
  std::string run_id;        ///< UUID of the attempt to be
  std::string check_verdict; ///< what the check said before this start; empty if none was asked
  /// A state file read before the ledger knew the job: taken in as evidence, once.
  std::optional<StateDocument> evidence;
  /// The state file exists and cannot be read as one: with a job unknown to the ledger, a hold.
  bool evidence_unreadable = false;
  std::chrono::milliseconds timeout{10'000}; ///< for guard and store together
  /// What is to stand in the history with this start; empty for nothing.
  std::string warning = {};
  /// A token that came with the lock: taken instead of the clock's milliseconds, since the clocks
  /// of several hosts differ; 0 for none.
  Token lock_token = {};
};

/// A claimed attempt.
struct ClaimedRun {
  RunKey key;
  std::string run_id;
  Token token;
  std::int64_t serial = 0;
  int number = 1;
  int generation = 1;
  std::string
      previous; ///< ONCERUN_PREVIOUS: none, failed, never-started, unknown, ready, done, skipped
  std::string ledger;        ///< ONCERUN_RUN_LEDGER
  bool first_of_job = false; ///< the ledger did not know the job before
};

enum class Recorded : std::uint8_t {
  recorded,
  marked_by_command, ///< the command had finished its own run: the row is done
  lost, ///< the row is not this attempt's any more; a late success is noted, nothing else changed
};

/// The proof of ownership of one attempt. Holds the owner's liveness byte, the tree's byte and a
/// slot in the spool. Going out of scope finishes nothing: the attempt then reads as cut short.
class Claim {
 public:
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  virtual ~Claim() = default;

  [[nodiscard]] virtual const ClaimedRun& run() const noexcept = 0;
  /// The descriptor that holds the tree's byte, to be inherited by the command alone; -1 if none.
  [[nodiscard]] virtual int inherited_fd() const noexcept = 0;
  /// To be called once the command runs: makes room for its result. Never throws.
  virtual void while_running() noexcept {}
  /// To be called when it still runs a moment later: keeps the store short and gives memory back
  /// while there is time. Never throws.
  virtual void while_waiting() noexcept {}
  /// Unlocks the tree's byte: what the command left behind is no longer part of the run.
  virtual void release_tree() noexcept = 0;
  /// Commits the result. Tries until `timeout`; throws Error (unavailable, unwritable) when the
  /// store could not take it, Interrupted when a stop was requested meanwhile.
  [[nodiscard]] virtual Recorded finish(const AttemptResult& result,
                                        std::chrono::milliseconds timeout,
                                        const StopRequest& stop) = 0;
  /// Puts the result, synced, into the slot taken at the claim. Returns the file's path; throws
  /// Error when there is no spool or it cannot be written.
  [[nodiscard]] virtual std::string spool(const AttemptResult& result) = 0;

 protected:
  Claim() = default;
};

/// Another date of the job that lives, found under a lock that covers the job.
struct OtherDateLives {
  RunRecord run;
  OwnerLife owner; ///< alive or orphaned
  std::vector<pid_t> pids;
};

/// The decision that the caller took did not ask for a claim: what was seen, nothing was written.
struct NotClaimed {
  Sighting sighting;
  Decision decision;
};

/// Older dates of the job that are unsettled, to be said once a day.
struct Unsettled {
  std::vector<RunKey> oldest; ///< at most three
  int count = 0;
};

struct Claimed {
  std::unique_ptr<Claim> claim;
  std::optional<Unsettled> unsettled; ///< only when it is to be said now
};

using ClaimOutcome = std::variant<Claimed, NotClaimed, OtherDateLives>;

/// Called inside the claim's transaction with what stands there; says what to do. Only `start` and
/// `start_new_generation` claim. Must not block.
using Decider = std::function<Decision(const Sighting&)>;

/// The verdict of a check, or of an operator, on the attempt that was seen.
struct Settlement {
  RunStatus to = RunStatus::done;
  std::string kind; ///< EventRecord::kind
  std::string by;
  std::string detail;
  /// Period and zone for a job that the ledger does not know yet; empty: it must know it.
  std::string period;
  std::string zone;
  /// With them, as in ClaimRequest: the state file of a job that the ledger does not know yet.
  bool sortable_labels = true;
  std::optional<StateDocument> evidence = {};
  /// Of an attempt that stands in no ledger of ours; empty: it is about the attempt that was seen.
  std::string run_id = {};
  Token token = {};
};

/// What `history` and `status` select; empty members select everything.
struct Selection {
  std::optional<JobName> job;
  std::optional<BizDate> date;
  int limit = 50; ///< newest first; 0: all
};

/// A ledger of runs. Implementations: SQLite, a state file alone, nothing at all.
class Ledger {
 public:
  virtual ~Ledger() = default;

  /// What stands about a run. Passive: takes no lock of ours and changes no file.
  [[nodiscard]] virtual Sighting look(const RunKey& run) = 0;

  /// A cheap guess: false when there is most likely no row of this run, so that a start may try its
  /// claim without a look before. Nothing is ever decided by it.
  [[nodiscard]] virtual bool may_know(const RunKey& /*run*/) { return true; }

  /// Posts results from the spool, takes evidence in, looks, lets `decide` decide, and claims if it
  /// says so: one transaction. Throws Error (config: period or zone differ, restored copy, schema).
  [[nodiscard]] virtual ClaimOutcome claim(const HeldLock& lock, const ClaimRequest& request,
                                           const Decider& decide, const StopRequest& stop) = 0;

  /// Settles a run whose newest attempt still is the one that was seen (same run id, token and
  /// status, or still no row); false if it is not, and then nothing was changed.
  [[nodiscard]] virtual bool settle(const RunKey& run, const Sighting& seen,
                                    const Settlement& settlement, const StopRequest& stop) = 0;

  /// Computes the job's projection from the ledger and hands it to `write` under the ledger's
  /// guard.
  virtual void project(const JobName& job, const std::function<void(const StateDocument&)>& write,
                       const StopRequest& stop) = 0;

  /// Where one mark is all that is remembered (a state file alone): another date's open or
  /// unsettled mark, which has to be settled before this run can be claimed.
  [[nodiscard]] virtual std::optional<Sighting> pending_other(const RunKey& /*run*/) {
    return std::nullopt;
  }

  /// Whether this attempt is still the owner: its row is pending with this run id and token.
  [[nodiscard]] virtual bool still_mine(const RunKey& run, const std::string& run_id,
                                        Token token) = 0;

  // Looking, for people and programs. Newest first.
  [[nodiscard]] virtual std::vector<JobRecord> jobs() = 0;
  /// The newest run of each job and every open or unsettled one.
  [[nodiscard]] virtual std::vector<Sighting> overview(const std::optional<JobName>& job) = 0;
  [[nodiscard]] virtual std::vector<AttemptRecord> attempts(const Selection& selection) = 0;
  [[nodiscard]] virtual std::vector<EventRecord> events(const Selection& selection) = 0;

  /// Changes a job's period or zone; empty texts leave it. Refuses (config) while a run is open.
  virtual void set_job(const JobName& job, const std::string& period, const std::string& zone,
                       const std::string& by, const StopRequest& stop) = 0;
  /// Accepts a copy restored from a backup: a new id, serials and tokens well past everything seen.
  virtual void accept(const std::string& by, const StopRequest& stop) = 0;

  /// Lines that a person should see and that stopped nothing (a result in the spool that cannot be
  /// posted, …); each is handed out once.
  [[nodiscard]] virtual std::vector<std::string> take_notices() { return {}; }

  /// ONCERUN_RUN_LEDGER and messages: "sqlite:/real/path", "state:/real/path"; no secret.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Whether it forgets everything at exit (`--ledger none` without a state file).
  [[nodiscard]] virtual bool remembers() const noexcept { return true; }
};

} // namespace oncerun::core
