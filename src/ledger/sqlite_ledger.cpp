#include "ledger/sqlite_ledger.hpp"

#include "ledger/claiming.hpp"
#include "ledger/results.hpp"
#include "ledger/rows.hpp"
#include "os/host.hpp"

#include <algorithm>
#include <utility>

namespace oncerun::ledger {

using core::OwnerLife;
using core::RunStatus;

namespace {

/// For calls that are given no limit of their own.
constexpr std::chrono::milliseconds k_write_wait{10'000};
/// look(): an owner that ends or begins again and again is looked at that often.
constexpr int k_most_looks = 10;
/// What `accept` adds: more than what a lost ledger can have counted beyond the copy.
constexpr std::int64_t k_serial_margin = 1'000'000'000;
constexpr std::int64_t k_token_margin = 1'000'000;

bool same_attempt(const std::optional<Row>& left, const std::optional<Row>& right) {
  if (!left || !right) {
    return left.has_value() == right.has_value();
  }
  return left->run.serial == right->run.serial && left->run.run_id == right->run.run_id &&
         left->stored_status == right->stored_status &&
         left->run.end_recorded == right->run.end_recorded;
}

/// nullopt: no ledger, or none with tables in it.
std::optional<Found> read_run(Store& store, const core::RunKey& key) {
  const Reading reading(store);
  if (reading.db() == nullptr) {
    return std::nullopt;
  }
  auto found = find(*reading.db(), key);
  if (!found && is_readable(*reading.db())) {
    throw core::Error(core::Outcome::config, store.path() + " is damaged: its tables do not fit");
  }
  return found;
}

/// Whether the run still stands as it was seen.
bool unchanged(const core::Sighting& seen, const core::Sighting& now) {
  if (!seen.run || !now.run) {
    return seen.run.has_value() == now.run.has_value();
  }
  return seen.run->run_id == now.run->run_id && seen.run->token == now.run->token &&
         seen.run->status == now.run->status;
}

/// The row, the attempt's record where nobody else will close it, and the event.
void write_settlement(Writing& writing, const core::RunKey& run, const std::optional<Row>& row,
                      const core::Settlement& settlement) {
  const std::string to(core::name_of(settlement.to));
  const std::string note =
      settlement.kind + (settlement.detail.empty() ? "" : ": " + settlement.detail);
  const bool final_status = settlement.to == RunStatus::done || settlement.to == RunStatus::skipped;
  const Value finished = final_status ? Value(writing.now()) : Value(std::nullopt);
  if (!row) {
    writing.know(run);
    writing.db().run("INSERT INTO job_run (job_name, biz_date, status, updated_at, finished_at, "
                     "note, run_id, fencing_token) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                     run.job.text(), run.date.label(), to, writing.now(), finished, note,
                     settlement.run_id, settlement.token.value);
  } else {
    writing.db().run("UPDATE job_run SET status = ?1, updated_at = ?2, finished_at = coalesce(?3, "
                     "finished_at), never_started = 0, late_success = 0, note = ?4, "
                     "run_id = CASE ?7 WHEN '' THEN run_id ELSE ?7 END, "
                     "fencing_token = max(fencing_token, ?8) "
                     "WHERE job_name = ?5 AND biz_date = ?6",
                     to, writing.now(), finished, note, run.job.text(), run.date.label(),
                     settlement.run_id, settlement.token.value);
    const bool happened = settlement.to == RunStatus::done || row->run.status == RunStatus::done;
    close_attempt(writing, row->run.serial, "settlement", happened ? "done" : "unknown", note);
  }
  add_event(writing,
            {.key = run,
             .at = {},
             .kind = settlement.kind,
             .from_status = row ? row->stored_status : "",
             .to_status = to,
             .run_id = settlement.run_id.empty() && row ? row->run.run_id : settlement.run_id,
             .by = settlement.by,
             .detail = settlement.detail});
}

core::Error unknown_job(const Store& store, const core::JobName& job) {
  return {core::Outcome::config, store.path() + " does not know the job " + job.text(),
          "see `oncerun status` for those it knows"};
}

} // namespace

std::unique_ptr<core::Ledger> open_sqlite(const Options& options) {
  return std::make_unique<SqliteLedger>(options);
}

std::string sqlite_version() {
  return Database::library_version();
}

core::Sighting SqliteLedger::look(const core::RunKey& run) {
  std::optional<Found> found = read_run(*m_store, run);
  if (!found) {
    return {};
  }
  for (int i = 0;; ++i) {
    const os::LifeFile life = found->row && may_have_owner(found->row->run)
                                  ? os::LifeFile::look(m_store->life_path())
                                  : os::LifeFile();
    core::Sighting sighting = sighting_of(*m_store, life, run, *found);
    if (!is_gone(sighting) || i == k_most_looks) {
      return sighting;
    }
    // An owner commits first and lets go of its byte afterwards: what was read before may be old.
    std::optional<Found> again = read_run(*m_store, run);
    if (again && same_attempt(found->row, again->row)) {
      return sighting;
    }
    found = again ? std::move(again) : Found{};
  }
}

bool SqliteLedger::may_know(const core::RunKey& run) {
  return m_store->known().may_know(run);
}

core::ClaimOutcome SqliteLedger::claim(const core::HeldLock& lock,
                                       const core::ClaimRequest& request,
                                       const core::Decider& decide, const core::StopRequest& stop) {
  return ledger::claim(m_store, lock, request, decide, stop);
}

bool SqliteLedger::settle(const core::RunKey& run, const core::Sighting& seen,
                          const core::Settlement& settlement, const core::StopRequest& stop) {
  Writing writing(*m_store, os::Deadline::after(k_write_wait), stop);
  std::vector<SpoolEntry> posted = post_spooled(writing);
  Found found = find(writing.db(), run).value_or(Found{});
  bool changed = !posted.empty();
  if (!found.job) {
    if (settlement.period.empty()) {
      throw unknown_job(*m_store, run.job);
    }
    introduce_job(writing, run.job, settlement.period, settlement.zone, settlement.sortable_labels,
                  settlement.evidence);
    changed = changed || settlement.evidence.has_value();
    found = find(writing.db(), run).value_or(Found{});
  }
  core::Sighting now = sighting_of(*m_store, writing.life(), run, found);
  if (now.owner == OwnerLife::dead && post_spooled_since(writing, now.run->serial, posted)) {
    changed = true;
    found = find(writing.db(), run).value_or(Found{});
    now = sighting_of(*m_store, writing.life(), run, found);
  }
  const bool lives = now.owner == OwnerLife::alive || now.owner == OwnerLife::orphaned;
  if (lives || !unchanged(seen, now)) {
    if (changed) {
      writing.commit();
      clear_posted(*m_store, posted);
    }
    return false;
  }
  write_settlement(writing, run, found.row, settlement);
  writing.commit();
  clear_posted(*m_store, posted);
  return true;
}

bool SqliteLedger::still_mine(const core::RunKey& run, const std::string& run_id,
                              core::Token token) {
  const std::optional<Found> found = read_run(*m_store, run);
  if (!found) {
    // The attempt was claimed in a ledger: that it is gone says nothing about who owns the run.
    throw core::Error(core::Outcome::unavailable, "there is no ledger at " + m_store->path(),
                      "the one in which the run was claimed was removed or replaced");
  }
  if (!found->row) {
    return false;
  }
  const core::RunRecord& row = found->row->run;
  return row.status == RunStatus::pending && row.run_id == run_id && row.token == token;
}

void SqliteLedger::set_job(const core::JobName& job, const std::string& period,
                           const std::string& zone, const std::string& by,
                           const core::StopRequest& stop) {
  Writing writing(*m_store, os::Deadline::after(k_write_wait), stop);
  const Found found =
      find(writing.db(), {job, core::BizDate("")}).value_or(Found{}); // its job alone
  if (!found.job) {
    throw unknown_job(*m_store, job);
  }
  {
    Statement open = writing.db().prepare(
        // Said twice, so that the index is seen to hold every such row.
        "SELECT biz_date FROM job_run INDEXED BY job_run_unsettled WHERE job_name = ?1 "
        "AND status IN ('pending', 'failed', 'unknown') AND status = 'pending' "
        "UNION ALL SELECT biz_date FROM job_attempt INDEXED BY job_attempt_open "
        "WHERE job_name = ?1 AND ended_at IS NULL LIMIT 1");
    if (open.bind(job.text()).step()) {
      throw core::Error(core::Outcome::config,
                        "the run of " + job.text() + " for " + open.text(0) + " is open",
                        "wait for its end, or settle it with `oncerun resolve`");
    }
  }
  const std::string& new_period = period.empty() ? found.job->period : period;
  const std::string& new_zone = zone.empty() ? found.job->zone : zone;
  writing.db().run("UPDATE oncerun_job SET period = ?1, zone = ?2, updated_at = ?3 "
                   "WHERE job_name = ?4",
                   new_period, new_zone, writing.now(), job.text());
  add_event(writing, {.key = core::RunKey{job, core::BizDate("")},
                      .at = {},
                      .kind = "job-set",
                      .from_status = {},
                      .to_status = {},
                      .run_id = {},
                      .by = by,
                      .detail = "period " + found.job->period + " -> " + new_period + ", zone " +
                                found.job->zone + " -> " + new_zone});
  writing.commit();
}

void SqliteLedger::accept(const std::string& by, const core::StopRequest& stop) {
  Writing writing(*m_store, os::Deadline::after(k_write_wait), stop, Writing::Copies::accept);
  Meta& meta = writing.meta();
  meta.ledger_id = os::random_uuid();
  meta.last_serial += k_serial_margin;
  meta.last_token = std::max(meta.last_token, writing.life().highest_token()) + k_token_margin;
  // The id first: if the commit fails, attempts of before cannot be proven dead, which only holds
  // them, and the copy is still refused.
  writing.life().renew_id();
  meta.life_id = writing.life().id();
  write_meta(writing.db(), meta);
  writing.db().run("UPDATE oncerun_job SET last_token = ?1, updated_at = ?2", meta.last_token,
                   writing.now());
  add_event(writing, {.key = std::nullopt,
                      .at = {},
                      .kind = "ledger-accept",
                      .from_status = {},
                      .to_status = {},
                      .run_id = {},
                      .by = by,
                      .detail = "a new id; tokens from " + std::to_string(meta.last_token)});
  writing.commit();
  writing.life().remember_token(meta.last_token);
}

std::vector<std::string> SqliteLedger::take_notices() {
  return std::exchange(m_store->notices(), {});
}

std::string SqliteLedger::describe() const {
  return ledger::describe(*m_store);
}

} // namespace oncerun::ledger
