/* The least that a durable "once per date" costs with SQLite: what a C programmer would write.
 *
 *     floor [--keep-log] LEDGER JOB DATE COMMAND [ARG...]
 *
 * A transaction that claims (job, date) before the command starts, and one that records its end;
 * both durable (WAL, synchronous=FULL), around posix_spawn. No lock, no liveness, no spool, no
 * signals, no history: oncerun does those too, and is measured against a program that does not.
 * Exits 0 without starting the command when the date is taken.
 *
 * As SQLite comes, each run ends with a checkpoint and the deletion of the log, since it closes the
 * last connection. With --keep-log the log stays, as oncerun's does, and is copied into the
 * database while the command runs, once it has as many frames as oncerun allows
 * (ledger/sqlite_claim.cpp).
 */
#include <sqlite3.h>

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char** environ;

static void check(sqlite3* db, int code, int wanted) {
  if (code != wanted) {
    fprintf(stderr, "floor: %s\n", sqlite3_errmsg(db));
    exit(1);
  }
}

static void execute(sqlite3* db, const char* sql) {
  check(db, sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static sqlite3_stmt* prepared(sqlite3* db, const char* sql, const char* job, const char* date) {
  sqlite3_stmt* statement = NULL;
  check(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
  check(db, sqlite3_bind_text(statement, 1, job, -1, SQLITE_STATIC), SQLITE_OK);
  check(db, sqlite3_bind_text(statement, 2, date, -1, SQLITE_STATIC), SQLITE_OK);
  return statement;
}

enum { k_checkpoint_frames = 100 };

static int count_frames(void* frames, sqlite3* db, const char* schema, int count) {
  (void)db;
  (void)schema;
  *(int*)frames = count;
  return SQLITE_OK;
}

static void keep_log(sqlite3* db, int* frames) {
  int keep = 1;
  check(db, sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep), SQLITE_OK);
  check(db, sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL), SQLITE_OK);
  sqlite3_wal_hook(db, count_frames, frames); /* in the place of the automatic checkpoint */
}

int main(int argc, char** argv) {
  const int keep = argc > 1 && strcmp(argv[1], "--keep-log") == 0;
  argc -= keep;
  argv += keep;
  if (argc < 5)
    return 64;
  sqlite3* db = NULL;
  check(db, sqlite3_open(argv[1], &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 10000);
  execute(db, "PRAGMA synchronous=FULL");
  execute(db, "PRAGMA journal_mode=WAL");
  int frames = 0;
  if (keep)
    keep_log(db, &frames);
  execute(db, "CREATE TABLE IF NOT EXISTS run(job TEXT NOT NULL, date TEXT NOT NULL,"
              " status TEXT NOT NULL, started_at TEXT, finished_at TEXT, exit_code INTEGER,"
              " PRIMARY KEY(job, date)) WITHOUT ROWID");
  execute(db, "BEGIN IMMEDIATE");
  sqlite3_stmt* claim = prepared(db,
                                 "INSERT INTO run(job, date, status, started_at) VALUES(?1, ?2, "
                                 "'pending', datetime('now')) ON CONFLICT DO NOTHING",
                                 argv[2], argv[3]);
  check(db, sqlite3_step(claim), SQLITE_DONE);
  const int mine = sqlite3_changes(db) == 1;
  sqlite3_finalize(claim);
  execute(db, "COMMIT");
  int status = 0;
  if (mine) {
    pid_t pid = 0;
    if (posix_spawnp(&pid, argv[4], NULL, NULL, argv + 4, environ) != 0)
      return 69;
    if (frames >= k_checkpoint_frames)
      sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (waitpid(pid, &status, 0) != pid)
      return 69;
    execute(db, "BEGIN IMMEDIATE");
    sqlite3_stmt* result = prepared(db,
                                    "UPDATE run SET status = ?3, finished_at = datetime('now'), "
                                    "exit_code = ?4 WHERE job = ?1 AND date = ?2",
                                    argv[2], argv[3]);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    sqlite3_bind_text(result, 3, code == 0 ? "done" : "failed", -1, SQLITE_STATIC);
    sqlite3_bind_int(result, 4, code);
    check(db, sqlite3_step(result), SQLITE_DONE);
    sqlite3_finalize(result);
    execute(db, "COMMIT");
    status = code;
  }
  sqlite3_close(db);
  return status;
}
