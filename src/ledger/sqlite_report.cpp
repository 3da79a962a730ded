#include "ledger/rows.hpp"
#include "ledger/sqlite_ledger.hpp"

#include <algorithm>

namespace oncerun::ledger {

using core::RunStatus;

namespace {

/// Runs that `overview` names, of all jobs or of the job ?1: the newest of each job (of a job with
/// unsortable labels: the one claimed last), and every open or unsettled one. Each part reads by an
/// index, whose rows are few; a condition such as "?1 IS NULL OR …" would read them all.
std::string select_overview(bool of_one_job) {
  const auto only = [&](std::string_view before, std::string_view table) {
    return of_one_job ? std::string(before) + std::string(table) + ".job_name = ?1" : "";
  };
  return "WITH chosen(job_name, biz_date) AS ("
         "SELECT j.job_name, CASE WHEN j.period = 'key' "
         "THEN (SELECT a.biz_date FROM job_attempt a WHERE a.serial = j.last_serial) "
         "ELSE (SELECT max(n.biz_date) FROM job_run n WHERE n.job_name = j.job_name) END "
         "FROM oncerun_job j" +
         only(" WHERE ", "j") +
         " UNION SELECT u.job_name, u.biz_date FROM job_run u INDEXED BY job_run_unsettled "
         "WHERE u.status IN ('pending', 'failed', 'unknown')" +
         only(" AND ", "u") +
         " UNION SELECT o.job_name, o.biz_date FROM job_attempt o INDEXED BY job_attempt_open "
         "WHERE o.ended_at IS NULL" +
         only(" AND ", "o") + ") SELECT " + k_job_columns + ", " + k_run_columns +
         " FROM chosen c JOIN job_run r ON r.job_name = c.job_name AND r.biz_date = c.biz_date "
         "LEFT JOIN oncerun_job j ON j.job_name = r.job_name" +
         std::string(k_run_join) + "ORDER BY r.updated_at DESC, r.serial DESC, r.biz_date DESC";
}

/// " WHERE …" for a selection whose job is ?1, date ?2 and limit ?3 (-1: all).
std::string where(const core::Selection& selection) {
  std::string text = " WHERE 1";
  text += selection.job ? " AND job_name = ?1" : " AND ?1 IS NULL";
  text += selection.date ? " AND biz_date = ?2" : " AND ?2 IS NULL";
  return text;
}

void bind(Statement& statement, const core::Selection& selection) {
  statement.bind(selection.job ? Value(selection.job->text()) : Value(std::nullopt),
                 selection.date ? Value(selection.date->label()) : Value(std::nullopt),
                 selection.limit > 0 ? selection.limit : -1);
}

core::AttemptRecord read_attempt(const Statement& row) {
  core::AttemptRecord attempt{.key = {read_job_name(row, 2), core::BizDate(row.text(3))},
                              .serial = row.integer(0),
                              .number = read_count(row, 5),
                              .generation = read_count(row, 4),
                              .run_id = row.text(1),
                              .token = {row.integer(6)},
                              .guarantee = row.text(7),
                              .previous = row.text(8),
                              .owner = {row.text(10), row.text(11), row.text(12), row.text(13),
                                        static_cast<std::uint64_t>(row.integer(14)),
                                        static_cast<pid_t>(row.integer(15))},
                              .claimed_at = row.text(16),
                              .ended_at = row.text(17),
                              .result = row.text(18),
                              .never_started = row.integer(19) != 0,
                              .exit_code = row.optional_int(20),
                              .signal = row.optional_int(21),
                              .note = row.text(25),
                              .usage = std::nullopt,
                              .check_verdict = row.text(9)};
  if (!row.is_null(22)) {
    attempt.usage = core::Usage{std::chrono::microseconds(row.integer(22)),
                                std::chrono::microseconds(row.integer(23)), row.integer(24)};
  }
  return attempt;
}

/// An event of the whole ledger stands there with an empty job, which no job's name is.
core::EventRecord read_event(const Statement& row) {
  const std::string job = row.text(1);
  return {.key = job.empty() ? std::nullopt
                             : std::optional(
                                   core::RunKey{read_job_name(row, 1), core::BizDate(row.text(2))}),
          .at = row.text(0),
          .kind = row.text(4),
          .from_status = row.text(5),
          .to_status = row.text(6),
          .run_id = row.text(3),
          .by = row.text(7),
          .detail = row.text(8)};
}

core::StateDocument::Status state_status(const core::Sighting& sighting) {
  using Status = core::StateDocument::Status;
  switch (sighting.run->status) {
  case RunStatus::failed:
    return Status::failed;
  case RunStatus::pending: {
    const bool lives = sighting.owner == core::OwnerLife::alive ||
                       sighting.owner == core::OwnerLife::orphaned ||
                       sighting.owner == core::OwnerLife::not_provable;
    return lives ? Status::pending : Status::unknown;
  }
  default:
    return Status::unknown;
  }
}

std::optional<core::BizDate> one_date(Database& database, std::string_view sql,
                                      const core::JobName& job) {
  Statement statement = database.prepare(sql);
  if (!statement.bind(job.text()).step()) {
    return std::nullopt;
  }
  return core::BizDate(statement.text(0));
}

} // namespace

void SqliteLedger::project(const core::JobName& job,
                           const std::function<void(const core::StateDocument&)>& write,
                           const core::StopRequest& stop) {
  const auto guard = m_store->guard().lock(os::Deadline::after(std::chrono::seconds(10)), stop);
  core::StateDocument document;
  {
    const Reading reading(*m_store);
    if (reading.db() == nullptr || !is_readable(*reading.db())) {
      return;
    }
    Database& database = *reading.db();
    const auto found = find(database, {job, core::BizDate("")});
    if (!found || !found->job) {
      return;
    }
    document.job = job.text();
    document.every = found->job->period;
    document.last_published = one_date(database,
                                       "SELECT biz_date FROM job_run WHERE job_name = ?1 AND "
                                       "status = 'done' ORDER BY biz_date DESC LIMIT 1",
                                       job);
    document.pending_date =
        one_date(database,
                 "SELECT biz_date FROM job_run INDEXED BY job_run_unsettled WHERE job_name = ?1 "
                 "AND status IN ('pending', 'failed', 'unknown') ORDER BY biz_date LIMIT 1",
                 job);
    if (document.pending_date) {
      const core::RunKey key{job, *document.pending_date};
      const auto run = find(database, key);
      const os::LifeFile life = os::LifeFile::look(m_store->life_path());
      document.status = state_status(sighting_of(*m_store, life, key, run.value_or(Found{})));
    } else if (document.last_published) {
      document.status = core::StateDocument::Status::done;
    }
  }
  write(document);
}

std::vector<core::JobRecord> SqliteLedger::jobs() {
  std::vector<core::JobRecord> all;
  const Reading reading(*m_store);
  if (reading.db() == nullptr || !is_readable(*reading.db())) {
    return all;
  }
  Statement statement =
      reading.db()->prepare("SELECT " + k_job_columns + " FROM oncerun_job j ORDER BY j.job_name");
  while (statement.step()) {
    all.push_back(read_job(statement, 0));
  }
  return all;
}

std::vector<core::Sighting> SqliteLedger::overview(const std::optional<core::JobName>& job) {
  std::vector<Found> all;
  {
    const Reading reading(*m_store);
    if (reading.db() == nullptr || !is_readable(*reading.db())) {
      return {};
    }
    Statement statement = reading.db()->prepare(select_overview(job.has_value()));
    if (job) {
      statement.bind(job->text());
    }
    while (statement.step()) {
      Found& found = all.emplace_back();
      if (!statement.is_null(0)) {
        found.job = read_job(statement, 0);
      }
      found.row = read_row(statement, k_job_column_count);
    }
  }
  std::vector<core::Sighting> sightings;
  const bool any_owner = std::any_of(
      all.begin(), all.end(), [](const Found& found) { return may_have_owner(found.row->run); });
  const os::LifeFile life = any_owner ? os::LifeFile::look(m_store->life_path()) : os::LifeFile();
  for (const Found& found : all) {
    const core::RunKey& key = found.row->run.key;
    core::Sighting sighting = sighting_of(*m_store, life, key, found);
    if (is_gone(sighting)) {
      sighting = look(key); // by itself: who is found dead must be read again
    }
    if (sighting.run) {
      sightings.push_back(std::move(sighting));
    }
  }
  return sightings;
}

std::vector<core::AttemptRecord> SqliteLedger::attempts(const core::Selection& selection) {
  std::vector<core::AttemptRecord> all;
  const Reading reading(*m_store);
  if (reading.db() == nullptr || !is_readable(*reading.db())) {
    return all;
  }
  Statement statement = reading.db()->prepare(
      "SELECT serial, run_id, job_name, biz_date, generation, number, fencing_token, guarantee, "
      "previous, check_verdict, host, machine_id, boot_id, life_id, pid_ns, pid, claimed_at, "
      "ended_at, result, never_started, exit_code, signal, user_us, system_us, max_rss_kib, note "
      "FROM job_attempt" +
      where(selection) + " ORDER BY serial DESC LIMIT ?3");
  bind(statement, selection);
  while (statement.step()) {
    all.push_back(read_attempt(statement));
  }
  return all;
}

std::vector<core::EventRecord> SqliteLedger::events(const core::Selection& selection) {
  std::vector<core::EventRecord> all;
  const Reading reading(*m_store);
  if (reading.db() == nullptr || !is_readable(*reading.db())) {
    return all;
  }
  Statement statement = reading.db()->prepare(
      "SELECT at, job_name, biz_date, run_id, kind, from_status, to_status, by, detail "
      "FROM job_event" +
      where(selection) + " ORDER BY id DESC LIMIT ?3");
  bind(statement, selection);
  while (statement.step()) {
    all.push_back(read_event(statement));
  }
  return all;
}

} // namespace oncerun::ledger
