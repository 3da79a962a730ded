#include "ledger/rows.hpp"

#include "ledger/database_error.hpp"

#include <array>
#include <limits>

namespace oncerun::ledger {

using core::OwnerLife;
using core::RunStatus;

const std::string k_run_columns =
    "r.job_name, r.biz_date, r.status, r.never_started, r.late_success, r.generation, r.attempts, "
    "r.serial, r.run_id, r.fencing_token, r.host, r.pid, r.started_at, r.updated_at, "
    "r.finished_at, r.exit_code, r.signal, r.note, a.serial IS NULL OR a.ended_at IS NOT NULL, "
    "a.machine_id, a.boot_id, a.life_id, a.pid_ns";

const std::string k_job_columns =
    "j.job_name, j.period, j.zone, j.last_token, j.floor, j.created_at";

core::RunStatus status_of(std::string_view text) {
  constexpr std::array k_all{RunStatus::pending, RunStatus::done,  RunStatus::failed,
                             RunStatus::unknown, RunStatus::ready, RunStatus::skipped};
  for (const RunStatus status : k_all) {
    if (core::name_of(status) == text) {
      return status;
    }
  }
  return RunStatus::unknown; // the column's CHECK allows no other
}

core::JobName read_job_name(const Statement& statement, int column) try {
  return core::JobName::parse(statement.text(column));
} catch (const core::UsageError& error) {
  throw damaged_error(statement.path(), std::string("in one of its rows ") + error.what());
}

int read_count(const Statement& statement, int column) {
  const std::int64_t count = statement.integer(column);
  if (count < 0 || count >= std::numeric_limits<int>::max()) {
    throw damaged_error(statement.path(), "one of its rows counts " + std::to_string(count));
  }
  return static_cast<int>(count);
}

Row read_row(const Statement& statement, int first) {
  const auto text = [&](int column) { return statement.text(first + column); };
  const auto integer = [&](int column) { return statement.integer(first + column); };
  const std::string status = text(2);
  core::RunRecord run{.key = {read_job_name(statement, first), core::BizDate(text(1))},
                      .status = status_of(status),
                      .never_started = integer(3) != 0,
                      .late_success = integer(4) != 0,
                      .generation = read_count(statement, first + 5),
                      .attempts = read_count(statement, first + 6),
                      .serial = read_counter(statement, first + 7),
                      .run_id = text(8),
                      .token = {read_counter(statement, first + 9)},
                      .host = text(10),
                      .pid = static_cast<pid_t>(integer(11)),
                      .started_at = text(12),
                      .updated_at = text(13),
                      .finished_at = text(14),
                      .exit_code = statement.optional_int(first + 15),
                      .signal = statement.optional_int(first + 16),
                      .end_recorded = integer(18) != 0,
                      .note = text(17)};
  Row row{std::move(run), {}, status};
  row.owner.host = row.run.host;
  row.owner.machine_id = text(19);
  row.owner.boot_id = text(20);
  row.owner.life_id = text(21);
  row.owner.pid_namespace = static_cast<std::uint64_t>(integer(22));
  row.owner.pid = row.run.pid;
  return row;
}

core::JobRecord read_job(const Statement& statement, int first) {
  core::JobRecord job{.job = read_job_name(statement, first),
                      .period = statement.text(first + 1),
                      .zone = statement.text(first + 2),
                      .last_token = {read_counter(statement, first + 3)},
                      .floor = std::nullopt,
                      .created_at = statement.text(first + 5)};
  if (!statement.is_null(first + 4)) {
    job.floor = core::BizDate(statement.text(first + 4));
  }
  return job;
}

namespace {

std::string select_run(std::string_view more_columns) {
  return "SELECT m.schema_version, " + k_job_columns + ", " + k_run_columns +
         std::string(more_columns) +
         " FROM oncerun_meta m"
         " LEFT JOIN oncerun_job j ON j.job_name = ?1"
         " LEFT JOIN job_run r ON r.job_name = ?1 AND r.biz_date = ?2" +
         std::string(k_run_join) + "WHERE m.id = 1";
}

/// nullopt if the statement does not fit the tables, or there are none.
std::optional<Found> read_found(std::optional<Statement>& statement, const core::RunKey& key) {
  if (!statement || !statement->bind(key.job.text(), key.date.label()).step() ||
      statement->integer(0) != k_schema_version) {
    return std::nullopt;
  }
  Found found;
  if (!statement->is_null(1)) {
    found.job = read_job(*statement, 1);
  }
  if (!statement->is_null(1 + k_job_column_count)) {
    found.row = read_row(*statement, 1 + k_job_column_count);
  }
  return found;
}

} // namespace

std::optional<Found> find(Database& database, const core::RunKey& key) {
  auto statement = database.try_prepare(select_run(""));
  return read_found(statement, key);
}

std::optional<Found> find_to_claim(Database& database, const core::RunKey& key) {
  auto statement = database.try_prepare(
      select_run(", j.unsettled_told_on, "
                 "EXISTS (SELECT 1 FROM job_run u INDEXED BY job_run_unsettled "
                 "WHERE u.job_name = ?1 AND u.biz_date < ?2 "
                 "AND u.status IN ('pending', 'failed', 'unknown')), "
                 "EXISTS (SELECT 1 FROM job_attempt o INDEXED BY job_attempt_open "
                 "WHERE o.job_name = ?1 AND o.ended_at IS NULL)"));
  std::optional<Found> found = read_found(statement, key);
  if (found) {
    constexpr int k_first = 1 + k_job_column_count + k_run_column_count;
    found->unsettled_told_on = statement->text(k_first);
    found->older_unsettled = statement->integer(k_first + 1) != 0;
    found->attempts_open = statement->integer(k_first + 2) != 0;
  }
  return found;
}

std::pair<OwnerLife, std::vector<pid_t>> life_of(Store& store, const os::LifeFile& life,
                                                 const Row& row) {
  const core::RunRecord& run = row.run;
  if (run.serial == 0) {
    return {OwnerLife::settled, {}}; // imported, or settled without an attempt
  }
  const bool ours = store.own().contains(run.serial);
  if (!run.end_recorded) {
    if (ours) {
      return {OwnerLife::alive, {store.self().pid}};
    }
    std::vector<pid_t> pids;
    const OwnerLife judged = life.judge(row.owner, run.serial, run.run_id, store.self(), pids);
    return {judged, std::move(pids)};
  }
  if (run.status == RunStatus::done || run.status == RunStatus::skipped) {
    return {OwnerLife::settled, {}};
  }
  // The end is recorded; the owner may still be there, between two retries.
  if (!ours && life.owner_byte_held(run.serial)) {
    const core::OwnerIdentity& self = store.self();
    const bool seen = row.owner.boot_id == self.boot_id && row.owner.pid_namespace != 0 &&
                      row.owner.pid_namespace == self.pid_namespace;
    return {OwnerLife::alive, seen ? std::vector<pid_t>{row.owner.pid} : std::vector<pid_t>{}};
  }
  // Its attempt was closed by a start of another date that found the owner dead.
  return {run.status == RunStatus::pending ? OwnerLife::dead : OwnerLife::settled, {}};
}

core::Sighting sighting_of(Store& store, const os::LifeFile& life, const core::RunKey& key,
                           const Found& found) {
  core::Sighting sighting;
  sighting.job = found.job;
  if (found.job && found.job->floor) {
    sighting.at_or_below_floor = key.date <= *found.job->floor;
  }
  if (found.row) {
    sighting.run = found.row->run;
    std::tie(sighting.owner, sighting.pids) = life_of(store, life, *found.row);
    if (sighting.owner == OwnerLife::dead && sighting.run->late_success) {
      sighting.run->status = RunStatus::unknown;
    }
  }
  return sighting;
}

bool may_have_owner(const core::RunRecord& run) {
  const bool final_status = run.status == RunStatus::done || run.status == RunStatus::skipped;
  return run.serial != 0 && !(final_status && run.end_recorded);
}

bool is_gone(const core::Sighting& sighting) {
  return sighting.run &&
         (sighting.owner == OwnerLife::dead ||
          (!sighting.run->end_recorded && sighting.owner == OwnerLife::not_provable));
}

void close_attempt(Writing& writing, std::int64_t serial, std::string_view by,
                   std::string_view result, const std::string& note) {
  writing.db().run("UPDATE job_attempt SET ended_at = ?1, ended_by = ?2, result = ?3, note = ?4 "
                   "WHERE serial = ?5 AND ended_at IS NULL",
                   writing.now(), by, result, note, serial);
}

void add_event(Writing& writing, const core::EventRecord& event) {
  const std::string job = event.key ? event.key->job.text() : "";
  const std::string date = event.key ? event.key->date.label() : "";
  writing.db().run(
      "INSERT INTO job_event (at, job_name, biz_date, run_id, kind, from_status, to_status, by, "
      "detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
      writing.now(), job, date, event.run_id, event.kind, event.from_status, event.to_status,
      event.by, event.detail);
}

void add_job(Writing& writing, const core::JobName& job, const std::string& period,
             const std::string& zone, const std::optional<core::BizDate>& floor) {
  const Value floor_value = floor ? Value(floor->label()) : Value(std::nullopt);
  writing.db().run(
      "INSERT INTO oncerun_job (job_name, period, zone, floor, created_at, updated_at) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
      job.text(), period, zone, floor_value, writing.now());
}

} // namespace oncerun::ledger
