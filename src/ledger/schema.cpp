#include "ledger/schema.hpp"

#include "ledger/database_error.hpp"
#include "os/clock.hpp"
#include "os/host.hpp"

#include <algorithm>
#include <limits>

namespace oncerun::ledger {

namespace {

// STRICT, and job and run without rowid: the primary key is the table.
constexpr const char* k_tables = R"sql(
CREATE TABLE oncerun_meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  schema_version INTEGER NOT NULL,
  ledger_id TEXT NOT NULL,
  life_id TEXT NOT NULL DEFAULT '',
  last_serial INTEGER NOT NULL DEFAULT 0,
  last_token INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE oncerun_job (
  job_name TEXT PRIMARY KEY,
  period TEXT NOT NULL,
  zone TEXT NOT NULL,
  last_token INTEGER NOT NULL DEFAULT 0,
  last_serial INTEGER NOT NULL DEFAULT 0,
  floor TEXT,
  unsettled_told_on TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE oncerun_spool (
  path TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE job_run (
  job_name TEXT NOT NULL,
  biz_date TEXT NOT NULL,
  status TEXT NOT NULL
    CHECK (status IN ('pending', 'done', 'failed', 'unknown', 'ready', 'skipped')),
  attempts INTEGER NOT NULL DEFAULT 0,
  generation INTEGER NOT NULL DEFAULT 1,
  run_id TEXT NOT NULL DEFAULT '',
  fencing_token INTEGER NOT NULL DEFAULT 0,
  serial INTEGER NOT NULL DEFAULT 0,
  host TEXT NOT NULL DEFAULT '',
  pid INTEGER NOT NULL DEFAULT 0,
  started_at TEXT,
  updated_at TEXT NOT NULL,
  finished_at TEXT,
  exit_code INTEGER,
  signal INTEGER,
  never_started INTEGER NOT NULL DEFAULT 0,
  late_success INTEGER NOT NULL DEFAULT 0,
  note TEXT NOT NULL DEFAULT '',
  shards INTEGER,
  PRIMARY KEY (job_name, biz_date)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_shard (
  job_name TEXT NOT NULL,
  biz_date TEXT NOT NULL,
  shard INTEGER NOT NULL,
  status TEXT NOT NULL
    CHECK (status IN ('pending', 'done', 'failed', 'unknown', 'ready', 'skipped')),
  attempts INTEGER NOT NULL DEFAULT 0,
  run_id TEXT NOT NULL DEFAULT '',
  fencing_token INTEGER NOT NULL DEFAULT 0,
  serial INTEGER NOT NULL DEFAULT 0,
  started_at TEXT,
  updated_at TEXT NOT NULL,
  finished_at TEXT,
  exit_code INTEGER,
  signal INTEGER,
  never_started INTEGER NOT NULL DEFAULT 0,
  late_success INTEGER NOT NULL DEFAULT 0,
  note TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (job_name, biz_date, shard)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_attempt (
  serial INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  job_name TEXT NOT NULL,
  biz_date TEXT NOT NULL,
  shard INTEGER,
  generation INTEGER NOT NULL,
  number INTEGER NOT NULL,
  fencing_token INTEGER NOT NULL,
  guarantee TEXT NOT NULL,
  previous TEXT NOT NULL,
  check_verdict TEXT NOT NULL DEFAULT '',
  host TEXT NOT NULL,
  machine_id TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  life_id TEXT NOT NULL,
  pid_ns INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  claimed_at TEXT NOT NULL,
  ended_at TEXT,
  ended_by TEXT CHECK (ended_by IN ('owner', 'spool', 'next-claim', 'settlement')),
  result TEXT CHECK (result IN ('done', 'failed', 'unknown')),
  never_started INTEGER NOT NULL DEFAULT 0,
  exit_code INTEGER,
  signal INTEGER,
  user_us INTEGER,
  system_us INTEGER,
  max_rss_kib INTEGER,
  note TEXT NOT NULL DEFAULT '',
  lease_until TEXT,
  lease_renewals INTEGER
) STRICT;

CREATE TABLE job_event (
  id INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  job_name TEXT NOT NULL,
  biz_date TEXT NOT NULL,
  run_id TEXT NOT NULL DEFAULT '',
  kind TEXT NOT NULL,
  from_status TEXT NOT NULL DEFAULT '',
  to_status TEXT NOT NULL DEFAULT '',
  by TEXT NOT NULL DEFAULT '',
  detail TEXT NOT NULL DEFAULT ''
) STRICT;
)sql";

// Every index here is paid for at every claim. Three are partial and nearly empty: the runs that a
// command may finish itself, the runs that are not settled, and the attempts without a recorded
// end. Who reads by them says INDEXED BY: without statistics SQLite takes another index, and then
// every row of the job is read. Operators may drop them: the next write makes them again.
constexpr const char* k_indexes = R"sql(
CREATE INDEX IF NOT EXISTS job_run_pending ON job_run (run_id) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS job_run_unsettled ON job_run (job_name, biz_date)
  WHERE status IN ('pending', 'failed', 'unknown');
CREATE INDEX IF NOT EXISTS job_attempt_open ON job_attempt (job_name) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS job_attempt_run ON job_attempt (job_name, biz_date);
CREATE INDEX IF NOT EXISTS job_event_run ON job_event (job_name, biz_date);
)sql";
constexpr int k_index_count = 5;

/// Names that may not be taken by somebody else's tables, views or indexes.
constexpr const char* k_find_foreign = R"sql(
SELECT name FROM sqlite_schema
WHERE lower(name) IN ('oncerun_meta', 'oncerun_job', 'oncerun_spool', 'job_run', 'job_shard', 'job_attempt',
  'job_event', 'job_run_pending', 'job_run_unsettled', 'job_attempt_open', 'job_attempt_run',
  'job_event_run')
ORDER BY name LIMIT 1)sql";

[[noreturn]] void refuse_foreign(const Database& database, const std::string& name) {
  throw core::Error(core::Outcome::config,
                    database.path() + " has a table " + name + " that is not oncerun's",
                    "name another file with --ledger");
}

[[noreturn]] void refuse_newer(const Database& database, int version) {
  throw core::Error(core::Outcome::config,
                    database.path() + " has the newer schema version " + std::to_string(version) +
                        "; this oncerun knows " + std::to_string(k_schema_version),
                    "use the newer oncerun on every host that shares the file");
}

void refuse_taken_names(Database& database) {
  Statement foreign = database.prepare(k_find_foreign);
  if (foreign.step()) {
    refuse_foreign(database, foreign.text(0));
  }
}

void create(Database& database) {
  refuse_taken_names(database);
  database.exec(k_tables);
  database.exec(k_indexes);
  database.run("INSERT INTO oncerun_meta (id, schema_version, ledger_id, created_at) "
               "VALUES (1, ?1, ?2, ?3)",
               k_schema_version, os::random_uuid(), os::now_text());
}

/// Far from where a byte's place in the liveness file, or one more of it, would overflow.
constexpr std::int64_t k_highest_counter = std::int64_t{1} << 60;

constexpr const char* k_select_meta = R"sql(
SELECT schema_version, ledger_id, life_id, last_serial, last_token,
  EXISTS (SELECT 1 FROM oncerun_spool),
  (SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND lower(name) IN ('job_run_pending',
    'job_run_unsettled', 'job_attempt_open', 'job_attempt_run', 'job_event_run'))
FROM oncerun_meta WHERE id = 1)sql";

Meta meta_of(const Statement& statement) {
  return {.ledger_id = statement.text(1),
          .life_id = statement.text(2),
          .last_serial = read_counter(statement, 3),
          .last_token = read_counter(statement, 4),
          .has_spools = statement.integer(5) != 0};
}

/// A file that calls itself a ledger and is none, or not any more.
void refuse_incomplete(Database& database) {
  Statement tables = database.prepare(
      "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('oncerun_meta', "
      "'oncerun_job', 'oncerun_spool', 'job_run', 'job_shard', 'job_attempt', 'job_event')");
  constexpr int k_tables_of_ours = 7;
  if (!tables.step() || tables.integer(0) != k_tables_of_ours ||
      !database.try_prepare(k_select_meta)) {
    throw damaged_error(database.path(), "its tables do not fit");
  }
}

[[noreturn]] void refuse_empty_meta(const Database& database) {
  throw core::Error(core::Outcome::config, database.path() + " is damaged: oncerun_meta is empty",
                    "restore it from a backup, then see `oncerun ledger accept`");
}

} // namespace

std::int64_t read_counter(const Statement& statement, int column) {
  const std::int64_t value = statement.integer(column);
  if (value < 0 || value > k_highest_counter) {
    throw damaged_error(statement.path(), "one of its counters is " + std::to_string(value));
  }
  return value;
}

std::span<const Migration> migrations() noexcept {
  return {}; // version 1 is the first
}

std::optional<int> schema_version(Database& database) {
  auto statement = database.try_prepare("SELECT schema_version FROM oncerun_meta WHERE id = 1");
  if (statement && statement->step() && statement->integer(0) > 0) {
    constexpr std::int64_t k_most = std::numeric_limits<int>::max();
    return static_cast<int>(std::min(statement->integer(0), k_most));
  }
  Statement exists = database.prepare("SELECT name FROM sqlite_schema WHERE name = 'oncerun_meta'");
  if (exists.step()) {
    refuse_foreign(database, exists.text(0));
  }
  return std::nullopt;
}

bool is_readable(Database& database) {
  const std::optional<int> version = schema_version(database);
  if (!version) {
    return false;
  }
  if (*version > k_schema_version) {
    refuse_newer(database, *version);
  }
  if (*version < k_schema_version) {
    throw core::Error(core::Outcome::config,
                      database.path() + " has the older schema version " + std::to_string(*version),
                      "the next start of a job with it brings it up to date");
  }
  return true;
}

void refuse_unusable(Database& database) {
  const std::optional<int> version = schema_version(database);
  if (!version) {
    refuse_taken_names(database);
  } else if (*version > k_schema_version) {
    refuse_newer(database, *version);
  } else if (*version == k_schema_version) {
    refuse_incomplete(database);
  }
}

bool ensure_schema(Database& database, int version, std::span<const Migration> steps) {
  const std::optional<int> present = schema_version(database);
  if (!present) {
    create(database);
    return true;
  }
  if (*present > version) {
    refuse_newer(database, *present);
  }
  for (const Migration& step : steps) {
    if (step.to > *present && step.to <= version) {
      database.exec(step.sql);
      database.run("UPDATE oncerun_meta SET schema_version = ?1", step.to);
    }
  }
  return false;
}

std::int64_t count_change(Database& database) {
  Statement statement = database.prepare(
      "UPDATE oncerun_meta SET last_token = last_token + 1 WHERE id = 1 RETURNING last_token");
  if (!statement.step()) {
    refuse_empty_meta(database);
  }
  const std::int64_t counted = read_counter(statement, 0);
  (void)statement.step(); // to its end: only then is the change made for good
  return counted;
}

std::optional<Meta> read_current_meta(Database& database) {
  std::optional<Statement> statement = database.try_prepare(k_select_meta);
  if (!statement || !statement->step() || statement->integer(0) != k_schema_version) {
    return std::nullopt;
  }
  Meta meta = meta_of(*statement);
  const bool whole = statement->integer(6) == k_index_count;
  statement.reset(); // an index is made while nobody reads
  if (!whole) {
    database.exec(k_indexes);
  }
  return meta;
}

Meta read_meta(Database& database) {
  Statement statement = database.prepare(k_select_meta);
  if (!statement.step()) {
    refuse_empty_meta(database);
  }
  return meta_of(statement);
}

void write_meta(Database& database, const Meta& meta) {
  database.run("UPDATE oncerun_meta SET ledger_id = ?1, life_id = ?2, last_serial = ?3, "
               "last_token = ?4 WHERE id = 1",
               meta.ledger_id, meta.life_id, meta.last_serial, meta.last_token);
}

} // namespace oncerun::ledger
