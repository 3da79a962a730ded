#include "ledger/claiming.hpp"

#include "ledger/results.hpp"
#include "ledger/rows.hpp"
#include "ledger/sqlite_claim.hpp"
#include "os/clock.hpp"

#include <algorithm>

namespace oncerun::ledger {

using core::OwnerLife;

namespace {

constexpr std::size_t k_most_unsettled_named = 3;

constexpr const char* k_insert_run = R"sql(
INSERT INTO job_run (job_name, biz_date, status, attempts, generation, run_id, fencing_token,
  serial, host, pid, started_at, updated_at)
VALUES (?1, ?2, 'pending', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)
ON CONFLICT (job_name, biz_date) DO NOTHING)sql";

constexpr const char* k_take_over_run = R"sql(
UPDATE job_run SET status = 'pending', attempts = ?3, generation = ?4, run_id = ?5,
  fencing_token = ?6, serial = ?7, host = ?8, pid = ?9, started_at = ?10, updated_at = ?10,
  finished_at = NULL, exit_code = NULL, signal = NULL, never_started = 0, late_success = 0,
  note = ''
WHERE job_name = ?1 AND biz_date = ?2 AND run_id = ?11 AND fencing_token = ?12
  AND status = ?13)sql";

constexpr const char* k_insert_attempt = R"sql(
INSERT INTO job_attempt (serial, run_id, job_name, biz_date, generation, number, fencing_token,
  guarantee, previous, check_verdict, host, machine_id, boot_id, life_id, pid_ns, pid, claimed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17))sql";

constexpr const char* k_update_job = R"sql(
UPDATE oncerun_job SET last_token = ?1, last_serial = ?2, updated_at = ?3,
  unsettled_told_on = coalesce(?4, unsettled_told_on)
WHERE job_name = ?5)sql";

/// One call of claim(), from BEGIN IMMEDIATE on.
class Claiming {
 public:
  Claiming(std::shared_ptr<Store> store, const core::HeldLock& lock,
           const core::ClaimRequest& request, const core::StopRequest& stop)
      : m_store(std::move(store)), m_lock(lock), m_request(request),
        m_writing(*m_store, os::Deadline::after(request.timeout), stop),
        m_job(request.key.job.text()), m_date(request.key.date.label()) {}

  [[nodiscard]] core::ClaimOutcome run(const core::Decider& decide);

 private:
  [[nodiscard]] Found find_run();
  void commit();
  void remember_spool();
  [[nodiscard]] std::optional<core::OtherDateLives> other_date(const Found& found);
  [[nodiscard]] core::ClaimedRun next_attempt(bool new_generation) const;
  void write_run(const core::ClaimedRun& claimed, const std::optional<Row>& row);
  void write_attempt(const core::ClaimedRun& claimed);
  [[nodiscard]] std::optional<core::Unsettled> unsettled(const Found& found);
  void give_back(const core::ClaimedRun& claimed, SpoolSlot& slot) const noexcept;
  [[nodiscard]] core::Claimed start(const Found& found, bool new_generation);

  std::shared_ptr<Store> m_store;
  const core::HeldLock& m_lock;
  const core::ClaimRequest& m_request;
  Writing m_writing;
  const std::string& m_job;
  const std::string& m_date;
  std::vector<SpoolEntry> m_posted;
  core::Sighting m_sighting;
  bool m_first_of_job = false;
};

Found Claiming::find_run() {
  auto found = find_to_claim(m_writing.db(), m_request.key);
  if (!found) {
    throw core::Error(core::Outcome::config,
                      m_store->path() + " is damaged: its tables do not fit");
  }
  return std::move(*found);
}

void Claiming::commit() {
  m_writing.commit();
  clear_posted(*m_store, m_posted);
}

core::ClaimOutcome Claiming::run(const core::Decider& decide) {
  m_posted = post_spooled(m_writing);
  bool changed = !m_posted.empty();
  Found found = find_run();
  m_first_of_job = !found.job;
  if (found.job) {
    require_same_periods(*found.job, m_request.period, m_request.zone, m_request.sortable_labels);
  } else if (m_request.evidence_unreadable) {
    if (changed) {
      commit();
    }
    return core::NotClaimed{{}, {core::Action::hold, core::Reason::evidence_unreadable}};
  } else if (m_request.evidence &&
             (m_request.evidence->last_published || m_request.evidence->pending_date)) {
    introduce_job(m_writing, m_request.key.job, m_request.period, m_request.zone,
                  m_request.sortable_labels, m_request.evidence);
    changed = true;
    found = find_run();
  }
  m_sighting = sighting_of(*m_store, m_writing.life(), m_request.key, found);
  if (m_sighting.owner == OwnerLife::dead &&
      post_spooled_since(m_writing, m_sighting.run->serial, m_posted)) {
    changed = true;
    found = find_run();
    m_sighting = sighting_of(*m_store, m_writing.life(), m_request.key, found);
  }
  const core::Decision decision = decide(m_sighting);
  const bool new_generation = decision.action == core::Action::start_new_generation;
  if (decision.action != core::Action::start && !new_generation) {
    if (changed) {
      commit();
    }
    return core::NotClaimed{std::move(m_sighting), decision};
  }
  if (auto other = other_date(found)) {
    return std::move(*other);
  }
  return start(found, new_generation);
}

/// Under a lock that covers the job, an open attempt of another date whose owner or tree lives.
/// Those that are proven dead are closed on the way: each is judged once, not at every start.
std::optional<core::OtherDateLives> Claiming::other_date(const Found& found) {
  if (!m_lock.covers_job() || !found.attempts_open) {
    return std::nullopt;
  }
  static const std::string s_sql = "SELECT " + k_run_columns +
                                   " FROM job_attempt a INDEXED BY job_attempt_open "
                                   "JOIN job_run r ON r.job_name = a.job_name "
                                   "AND r.biz_date = a.biz_date AND r.serial = a.serial "
                                   "WHERE a.job_name = ?1 AND a.ended_at IS NULL";
  std::vector<Row> open;
  {
    Statement statement = m_writing.db().prepare(s_sql);
    statement.bind(m_job);
    while (statement.step()) {
      open.push_back(read_row(statement, 0));
    }
  }
  for (Row& row : open) {
    if (row.run.key.date == m_request.key.date) {
      continue;
    }
    auto [life, pids] = life_of(*m_store, m_writing.life(), row);
    if (life == OwnerLife::alive || life == OwnerLife::orphaned) {
      return core::OtherDateLives{std::move(row.run), life, std::move(pids)};
    }
    if (life == OwnerLife::dead) {
      // The row stays as it is: only a claim or a verdict of its own date changes it.
      const bool done = row.run.status == core::RunStatus::done;
      close_attempt(m_writing, row.run.serial, "next-claim", done ? "done" : "unknown",
                    "its oncerun died");
    }
  }
  return std::nullopt;
}

core::ClaimedRun Claiming::next_attempt(bool new_generation) const {
  const std::int64_t now = os::now().time_since_epoch().count();
  const std::int64_t last = m_sighting.job ? m_sighting.job->last_token.value : 0;
  const auto& run = m_sighting.run;
  return {.key = m_request.key,
          .run_id = m_request.run_id,
          .token = {std::max(last + 1,
                             m_request.lock_token.value != 0 ? m_request.lock_token.value : now)},
          .serial = m_writing.meta().last_serial + 1,
          .number = run ? run->attempts + 1 : 1,
          .generation = (run ? run->generation : 1) + (new_generation ? 1 : 0),
          .previous = std::string(core::previous_name(m_sighting.row())),
          .ledger = describe(*m_store),
          .first_of_job = m_first_of_job};
}

void Claiming::write_run(const core::ClaimedRun& claimed, const std::optional<Row>& row) {
  const core::OwnerIdentity& self = m_store->self();
  Statement statement = m_writing.db().prepare(row ? k_take_over_run : k_insert_run);
  const std::int64_t token = claimed.token.value;
  if (row) {
    statement.bind(m_job, m_date, claimed.number, claimed.generation, claimed.run_id, token,
                   claimed.serial, self.host, self.pid, m_writing.now(), row->run.run_id,
                   row->run.token.value, row->stored_status);
  } else {
    statement.bind(m_job, m_date, claimed.number, claimed.generation, claimed.run_id, token,
                   claimed.serial, self.host, self.pid, m_writing.now());
  }
  if (!row) {
    m_writing.know(m_request.key);
  }
  if (statement.run() != 1) {
    // Within one transaction nobody else can have been faster; a trigger of somebody's could.
    throw core::Error(core::Outcome::config,
                      "the claim of " + m_job + " " + m_date + " changed no row in " +
                          m_store->path(),
                      "see whether a trigger on job_run undoes it");
  }
}

void Claiming::write_attempt(const core::ClaimedRun& claimed) {
  const core::OwnerIdentity& self = m_store->self();
  m_writing.db().run(k_insert_attempt, claimed.serial, claimed.run_id, m_job, m_date,
                     claimed.generation, claimed.number, claimed.token.value,
                     core::name_of(m_request.guarantee), core::history_name(m_sighting.row()),
                     m_request.check_verdict, self.host, self.machine_id, self.boot_id,
                     m_writing.life().id(), static_cast<std::int64_t>(self.pid_namespace), self.pid,
                     m_writing.now());
}

/// Older dates that are failed, unknown, or pending without a live owner; once per UTC day.
std::optional<core::Unsettled> Claiming::unsettled(const Found& found_before) {
  if (!m_request.sortable_labels || !found_before.older_unsettled ||
      found_before.unsettled_told_on == m_writing.now().substr(0, 10)) {
    return std::nullopt;
  }
  Statement statement = m_writing.db().prepare(
      "SELECT biz_date, status, serial FROM job_run INDEXED BY job_run_unsettled "
      "WHERE job_name = ?1 AND biz_date < ?2 AND status IN ('pending', 'failed', 'unknown') ORDER "
      "BY biz_date");
  statement.bind(m_job, m_date);
  core::Unsettled found;
  while (statement.step()) {
    if (statement.text(1) == "pending" &&
        m_writing.life().owner_byte_held(read_counter(statement, 2))) {
      continue;
    }
    ++found.count;
    if (found.oldest.size() < k_most_unsettled_named) {
      found.oldest.push_back({m_request.key.job, core::BizDate(statement.text(0))});
    }
  }
  if (found.count == 0) {
    return std::nullopt;
  }
  return found;
}

/// A spool elsewhere is known to every later start, whatever its own --spool says.
void Claiming::remember_spool() {
  const std::optional<Spool>& spool = m_store->spool();
  if (spool && spool->path() != m_store->spool_beside()) {
    m_writing.db().run("INSERT INTO oncerun_spool (path) VALUES (?1) ON CONFLICT(path) DO NOTHING",
                       spool->path());
  }
}

/// After a commit that failed. What was written of it may stand in the log nevertheless, and then
/// the next process to open the ledger takes it for a claim. So the spool says that nothing was
/// started.
void Claiming::give_back(const core::ClaimedRun& claimed, SpoolSlot& slot) const noexcept {
  try {
    if (slot) {
      slot.write({m_writing.meta().ledger_id,
                  claimed.run_id,
                  claimed.serial,
                  claimed.token,
                  m_writing.now(),
                  {.status = core::RunStatus::failed,
                   .never_started = true,
                   .exit_code = std::nullopt,
                   .signal = std::nullopt,
                   .usage = {},
                   .note = "the claim could not be made durable"}});
    }
  } catch (const std::exception&) {
    // Then the date is held if the claim stands: what matters is the first error.
  }
}

core::Claimed Claiming::start(const Found& found, bool new_generation) {
  core::ClaimedRun claimed = next_attempt(new_generation);
  Meta& meta = m_writing.meta();
  if (!found.job) {
    introduce_job(m_writing, m_request.key.job, m_request.period, m_request.zone,
                  m_request.sortable_labels, std::nullopt);
  }
  // Both before the commit: what is committed is alive, and its result has a place.
  os::HeldLife life = os::HeldLife::take(m_writing.life(), claimed.serial);
  remember_spool();
  SpoolSlot slot = m_store->spool() ? m_store->spool()->reserve(claimed.serial) : SpoolSlot();
  if (found.row && !found.row->run.end_recorded) {
    close_attempt(m_writing, found.row->run.serial, "next-claim",
                  found.row->run.status == core::RunStatus::done ? "done" : "unknown",
                  "its oncerun died");
  }
  write_run(claimed, found.row);
  write_attempt(claimed);
  if (!m_request.warning.empty()) {
    add_event(m_writing, {.key = m_request.key,
                          .at = {},
                          .kind = "warning",
                          .from_status = {},
                          .to_status = {},
                          .run_id = claimed.run_id,
                          .by = {},
                          .detail = m_request.warning});
  }
  auto told = unsettled(found);
  m_writing.db().run(k_update_job, claimed.token.value, claimed.serial, m_writing.now(),
                     told ? Value(m_writing.now().substr(0, 10)) : Value(std::nullopt), m_job);
  meta.last_serial = claimed.serial;
  meta.last_token = std::max(meta.last_token, claimed.token.value);
  meta.life_id = m_writing.life().id();
  try {
    commit();
  } catch (const core::Error&) {
    give_back(claimed, slot);
    throw;
  }
  return {std::make_unique<SqliteClaim>(m_store, std::move(claimed), meta.ledger_id,
                                        std::move(life), std::move(slot)),
          std::move(told)};
}

} // namespace

void require_same_periods(const core::JobRecord& job, const std::string& period,
                          const std::string& zone, bool sortable) {
  // Keys are cut in no zone.
  const bool same_zone = job.zone == zone || !sortable;
  if (job.period == period && same_zone) {
    return;
  }
  const bool differs_in_period = job.period != period;
  throw core::Error(core::Outcome::config,
                    "job " + job.job.text() + " has " +
                        (differs_in_period
                             ? "period " + job.period + " in the ledger, not " + period
                             : "zone " + job.zone + " in the ledger, not " + zone),
                    "give the same on every host, or change it with `oncerun job set`");
}

void introduce_job(Writing& writing, const core::JobName& job, const std::string& period,
                   const std::string& zone, bool sortable,
                   const std::optional<core::StateDocument>& evidence) {
  using Status = core::StateDocument::Status;
  if (!evidence) {
    add_job(writing, job, period, zone, std::nullopt);
    return;
  }
  add_job(writing, job, period, zone, sortable ? evidence->last_published : std::nullopt);
  const auto import = [&](const core::BizDate& date, core::RunStatus status) {
    const std::string name(core::name_of(status));
    writing.know({job, date});
    writing.db().run("INSERT INTO job_run (job_name, biz_date, status, updated_at, note) "
                     "VALUES (?1, ?2, ?3, ?4, 'taken from the state file') "
                     "ON CONFLICT (job_name, biz_date) DO NOTHING",
                     job.text(), date.label(), name, writing.now());
    add_event(writing, {.key = core::RunKey{job, date},
                        .at = {},
                        .kind = "import",
                        .from_status = {},
                        .to_status = name,
                        .run_id = {},
                        .by = {},
                        .detail = "taken from the state file"});
  };
  if (evidence->last_published) {
    import(*evidence->last_published, core::RunStatus::done);
  }
  const auto& pending = evidence->pending_date;
  // A script that says done and leaves an old pendingDate behind means nothing by it; a newer one
  // contradicts it, and then nobody knows.
  const bool left_behind = evidence->status == Status::done && pending <= evidence->last_published;
  if (pending && pending != evidence->last_published && !left_behind) {
    import(*pending, core::RunStatus::unknown);
  }
}

std::string describe(const Store& store) {
  return "sqlite:" + store.path();
}

core::ClaimOutcome claim(const std::shared_ptr<Store>& store, const core::HeldLock& lock,
                         const core::ClaimRequest& request, const core::Decider& decide,
                         const core::StopRequest& stop) {
  return Claiming(store, lock, request, stop).run(decide);
}

} // namespace oncerun::ledger
