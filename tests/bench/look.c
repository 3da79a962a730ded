/* What a skip cannot be cheaper than while the ledger is SQLite: opens it, reads one run's status.
 *
 *     look LEDGER JOB DATE      exit 0: done
 */
#include <sqlite3.h>

#include <string.h>

int main(int argc, char** argv) {
  sqlite3* db = NULL;
  sqlite3_stmt* statement = NULL;
  if (argc != 4 || sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
      sqlite3_prepare_v2(db, "SELECT status FROM job_run WHERE job_name = ?1 AND biz_date = ?2", -1,
                         &statement, NULL) != SQLITE_OK)
    return 2;
  sqlite3_bind_text(statement, 1, argv[2], -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, argv[3], -1, SQLITE_STATIC);
  const int done = sqlite3_step(statement) == SQLITE_ROW &&
                   strcmp((const char*)sqlite3_column_text(statement, 0), "done") == 0;
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return done ? 0 : 1;
}
