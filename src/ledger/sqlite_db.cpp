#include "ledger/sqlite_db.hpp"

#include "ledger/database_error.hpp"
#include "ledger/file_calls.hpp"
#include "ledger/passive_uri.hpp"
#include "ledger/sqlite_files.hpp"
#include "os/file.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace oncerun::ledger {

namespace {

constexpr std::chrono::milliseconds k_default_wait{10'000};
/// How long to rest at most before SQLite's locks are tried again. Our own processes queue at the
/// guard, so that only foreign ones (a shell, an application) are waited for like this.
constexpr int k_longest_rest_ms = 25;
constexpr std::string_view k_indexed_by = " INDEXED BY ";

/// SQLITE_TRANSIENT without its old-style cast: SQLite copies the text.
sqlite3_destructor_type transient() noexcept {
  return reinterpret_cast<sqlite3_destructor_type>(std::intptr_t{-1});
}

} // namespace

struct Connection {
  sqlite3* db = nullptr;
  std::string path;
  Database::Access access = Database::Access::read_write;
  core::Outcome refusal = core::Outcome::unwritable;
  os::Deadline deadline = os::Deadline::after(k_default_wait);
  std::chrono::milliseconds wait = k_default_wait; ///< for messages
  const core::StopRequest* stop = nullptr;
  int wal_frames = 0;

  [[nodiscard]] int stop_signal() const noexcept { return stop != nullptr ? stop->pending() : 0; }

  /// Rests a little; false when the wait is over.
  [[nodiscard]] bool rest(int count) const noexcept {
    if (deadline.passed() || stop_signal() != 0) {
      return false;
    }
    forget_faults(); // the next try stands for itself
    const int ms = std::min(count + 1, k_longest_rest_ms);
    // Short enough to see a stop request in time; its descriptor is not waited for, since it also
    // wakes for signals that stop nothing.
    (void)::poll(nullptr, 0, static_cast<int>(std::min<std::int64_t>(ms, deadline.left().count())));
    return stop_signal() == 0;
  }

  /// As sqlite3_prepare_v2. An index is there for speed and may be dropped, or another may have got
  /// its name: where it is of no use, the statement is made without INDEXED BY.
  [[nodiscard]] int prepare(std::string_view sql, sqlite3_stmt** statement) const;
  [[noreturn]] void fail(int code) const;
  [[noreturn]] void fail_to_access(int primary, const std::string& text, int fault) const;
  void check(int code) const {
    if (code != SQLITE_OK) {
      fail(code);
    }
  }
};

int Connection::prepare(std::string_view sql, sqlite3_stmt** statement) const {
  forget_faults();
  const auto size = static_cast<int>(sql.size());
  const int code = sqlite3_prepare_v2(db, sql.data(), size, statement, nullptr);
  if (code != SQLITE_ERROR || sql.find(k_indexed_by) == std::string_view::npos) {
    return code;
  }
  std::string bare(sql);
  for (auto at = bare.find(k_indexed_by); at != std::string::npos; at = bare.find(k_indexed_by)) {
    const auto end = std::min(bare.find_first_of(" \n)", at + k_indexed_by.size()), bare.size());
    bare.erase(at, end - at);
  }
  return sqlite3_prepare_v2(db, bare.c_str(), -1, statement, nullptr);
}

void Connection::fail(int code) const {
  const int primary = code & 0xFF;
  const std::string text = sqlite3_errstr(code);
  const int fault = first_fault();
  if (primary == SQLITE_CORRUPT && fault != 0) {
    fail_to_access(SQLITE_IOERR, text, fault); // what could not be read is not damaged
  }
  // Nor is what cannot be locked, or not be released, held by others.
  const int lock_fault = fault != 0 ? fault : unreleased_lock();
  if ((primary == SQLITE_PROTOCOL && access != Database::Access::passive && lock_fault != 0) ||
      (primary == SQLITE_BUSY && stop_signal() == 0 && lock_fault == ENOLCK)) {
    fail_to_access(SQLITE_IOERR, text, lock_fault);
  }
  switch (primary) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    if (const int signal = stop_signal(); signal != 0) {
      throw core::Interrupted(signal);
    }
    throw locked_error(path, wait);
  case SQLITE_PROTOCOL:
    if (access == Database::Access::passive) {
      throw CannotLookPassively(core::Outcome::unavailable, path + ": " + text);
    }
    throw contended_error(path, text);
  case SQLITE_NOTADB:
    throw not_a_database_error(path);
  case SQLITE_CORRUPT:
    throw damaged_error(path, text);
  case SQLITE_NOMEM:
    throw core::Error(core::Outcome::unavailable,
                      "cannot use " + path + ": " + std::strerror(ENOMEM));
  case SQLITE_FULL:
  case SQLITE_IOERR:
  case SQLITE_READONLY:
  case SQLITE_CANTOPEN:
  case SQLITE_PERM:
    fail_to_access(primary, text, fault);
  default:
    throw statement_error(path, db != nullptr ? sqlite3_errmsg(db) : text.c_str(),
                          primary == SQLITE_MISUSE || primary == SQLITE_RANGE);
  }
}

void Connection::fail_to_access(int primary, const std::string& text, int fault) const {
  // SQLite keeps the errno of these two alone, and not always.
  const bool has_errno = db != nullptr && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN);
  const int kept = fault == 0 && has_errno ? sqlite3_system_errno(db) : fault;
  const int error = kept == 0 && primary == SQLITE_IOERR ? unreleased_lock() : kept;
  const bool refused = primary == SQLITE_CANTOPEN || primary == SQLITE_READONLY;
  const bool needs_recovery = access == Database::Access::read_only && primary == SQLITE_READONLY;
  if ((access == Database::Access::passive && refused) || needs_recovery) {
    throw CannotLookPassively(core::Outcome::unavailable, path + ": " + text);
  }
  if (primary == SQLITE_FULL || error == ENOSPC || error == EDQUOT) {
    throw os::unwritable_error("write the ledger", path, error == EDQUOT ? EDQUOT : ENOSPC);
  }
  throw access_error(refusal, access != Database::Access::read_write, path, error, text);
}

// ---- statements ---------------------------------------------------------------------------------

Statement::Statement(Statement&& other) noexcept
    : m_connection(other.m_connection), m_statement(std::exchange(other.m_statement, nullptr)) {
}

Statement::~Statement() {
  sqlite3_finalize(m_statement);
}

void Statement::bind_one(int index, const Value& value) {
  int code = SQLITE_OK;
  if (index == 1) {
    sqlite3_reset(m_statement);
  }
  switch (value.m_kind) {
  case Value::Kind::null:
    code = sqlite3_bind_null(m_statement, index);
    break;
  case Value::Kind::integer:
    code = sqlite3_bind_int64(m_statement, index, value.m_number);
    break;
  case Value::Kind::text:
    code = sqlite3_bind_text64(m_statement, index, value.m_text.data() ? value.m_text.data() : "",
                               value.m_text.size(), transient(), SQLITE_UTF8);
    break;
  }
  m_connection->check(code);
}

bool Statement::step() {
  forget_faults();
  const int code = sqlite3_step(m_statement);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    m_connection->fail(code);
  }
  return code == SQLITE_ROW;
}

int Statement::run() {
  while (step()) {
  }
  const int changed = sqlite3_changes(m_connection->db);
  sqlite3_reset(m_statement);
  return changed;
}

bool Statement::is_null(int column) const noexcept {
  return sqlite3_column_type(m_statement, column) == SQLITE_NULL;
}

std::int64_t Statement::integer(int column) const noexcept {
  return sqlite3_column_int64(m_statement, column);
}

std::string Statement::text(int column) const {
  const unsigned char* begin = sqlite3_column_text(m_statement, column);
  const int size = sqlite3_column_bytes(m_statement, column);
  return begin == nullptr ? std::string() : std::string(begin, begin + size);
}

std::optional<int> Statement::optional_int(int column) const noexcept {
  return is_null(column) ? std::nullopt : std::optional(sqlite3_column_int(m_statement, column));
}

const std::string& Statement::path() const noexcept {
  return m_connection->path;
}

// ---- the connection -----------------------------------------------------------------------------

void Database::Close::operator()(Connection* connection) const noexcept {
  sqlite3_close_v2(connection->db);
  delete connection;
}

Database Database::open(const std::string& path, Access access, core::Outcome refusal) {
  initialise_library();
  forget_faults();
  forget_unreleased_lock(); // of another connection
  Database database(new Connection);
  Connection& connection = *database.m_connection;
  connection.path = path;
  connection.access = access;
  connection.refusal = refusal;
  const bool writing = access == Access::read_write;
  const std::string name = access == Access::passive ? passive_uri(path) : path;
  // No mutexes: one thread. The path is a real one, so that any link in it was planted since.
  const int flags = (writing ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE |
                    (access == Access::passive ? SQLITE_OPEN_URI : 0);
  connection.check(sqlite3_open_v2(name.c_str(), &connection.db, flags, k_vfs_name));
  sqlite3_busy_handler(
      connection.db,
      [](void* self, int count) { return static_cast<Connection*>(self)->rest(count) ? 1 : 0; },
      &connection);
  // The WAL is kept and never checkpointed in passing: only checkpoint() does, under the guard.
  int keep = 1;
  sqlite3_file_control(connection.db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  sqlite3_db_config(connection.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_wal_hook(
      connection.db,
      [](void* self, sqlite3*, const char*, int frames) {
        static_cast<Connection*>(self)->wal_frames = frames;
        return SQLITE_OK;
      },
      &connection);
  if (writing && sqlite3_db_readonly(connection.db, "main") == 1) {
    // SQLite opens a file that it may not write read-only without a word.
    connection.fail(SQLITE_READONLY);
  }
  return database;
}

std::string Database::library_version() {
  return sqlite3_libversion();
}

void Database::set_wait(const os::Deadline& deadline, const core::StopRequest& stop) noexcept {
  m_connection->deadline = deadline;
  m_connection->wait = deadline.left();
  m_connection->stop = &stop;
}

void Database::exec(const char* sql) {
  forget_faults();
  m_connection->check(sqlite3_exec(m_connection->db, sql, nullptr, nullptr, nullptr));
}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  m_connection->check(m_connection->prepare(sql, &statement));
  return {*m_connection, statement};
}

std::optional<Statement> Database::try_prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = m_connection->prepare(sql, &statement);
  if (code == SQLITE_ERROR) {
    return std::nullopt;
  }
  m_connection->check(code);
  return Statement(*m_connection, statement);
}

void Database::begin_read() {
  const Looking looking(m_connection->access == Access::passive);
  exec("BEGIN; PRAGMA schema_version");
}

bool Database::prepare_to_write() {
  exec("PRAGMA synchronous=FULL; PRAGMA cache_size=-200; PRAGMA temp_store=MEMORY");
  Statement mode = prepare("PRAGMA journal_mode");
  return mode.step() && mode.text(0) == "wal";
}

void Database::use_wal() {
  for (int count = 0;; ++count) {
    forget_faults();
    sqlite3_stmt* raw = nullptr;
    int code = sqlite3_prepare_v2(m_connection->db, "PRAGMA journal_mode=WAL", -1, &raw, nullptr);
    Statement statement(*m_connection, raw);
    code = code == SQLITE_OK ? sqlite3_step(raw) : code;
    if (code == SQLITE_ROW) {
      if (statement.text(0) != "wal") {
        throw core::Error(core::Outcome::config,
                          path() + " cannot be used with a write-ahead log: its journal mode is " +
                              statement.text(0),
                          "keep it on a local file system that supports shared memory");
      }
      return;
    }
    // The change of mode needs the file for a moment alone and does not call the busy handler.
    if ((code & 0xFF) != SQLITE_BUSY || !m_connection->rest(count)) {
      m_connection->fail(code);
    }
  }
}

bool Database::in_transaction() const noexcept {
  return sqlite3_get_autocommit(m_connection->db) == 0;
}

void Database::rollback() noexcept {
  if (in_transaction()) {
    sqlite3_exec(m_connection->db, "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

bool Database::has_moved() const noexcept {
  int moved = 0;
  sqlite3_file_control(m_connection->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0) {
    // SQLite takes a look that failed for a file that is gone.
    sqlite3_file_control(m_connection->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  }
  return moved != 0;
}

int Database::wal_frames() const noexcept {
  return m_connection->wal_frames;
}

bool Database::checkpoint() noexcept {
  return sqlite3_wal_checkpoint_v2(m_connection->db, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr,
                                   nullptr) == SQLITE_OK;
}

void Database::release_memory() noexcept {
  sqlite3_db_release_memory(m_connection->db);
}

const std::string& Database::path() const noexcept {
  return m_connection->path;
}

} // namespace oncerun::ledger
