#include "ledger/sqlite_db.hpp"

#include "ledger/database_error.hpp"
#include "ledger/passive_uri.hpp"
#include "os/file.hpp"

#include <sqlite3.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace oncerun::ledger {

namespace {

constexpr const char* k_vfs_name = "oncerun";
constexpr std::chrono::milliseconds k_default_wait{10'000};
/// How long to rest at most before SQLite's locks are tried again. Our own processes queue at the
/// guard, so that only foreign ones (a shell, an application) are waited for like this.
constexpr int k_longest_rest_ms = 25;

// ---- a thin layer over SQLite's own file access -------------------------------------------------

sqlite3_vfs* g_base = nullptr;
sqlite3_vfs g_vfs{};
/// SQLite's methods for a database file, with xShmMap replaced.
sqlite3_io_methods g_methods{};
const sqlite3_io_methods* g_base_methods = nullptr;

/// Fills the pages of the shared memory at once: on a full disk a later touch of a page that has no
/// block would end the process by SIGBUS; here it is an error that SQLite can report.
int map_shared_memory(sqlite3_file* file, int region, int size, int extend,
                      void volatile** memory) {
  const int code = g_base_methods->xShmMap(file, region, size, extend, memory);
  if (code != SQLITE_OK || *memory == nullptr) {
    return code;
  }
  void* begin = const_cast<void*>(*memory);
  int error = 0;
  do {
    error = ::madvise(begin, static_cast<std::size_t>(size), MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  // EINVAL: a kernel before 5.14. ENOMEM is about memory, the others about the file's blocks.
  if (error == 0 || error == EINVAL) {
    return SQLITE_OK;
  }
  *memory = nullptr;
  return error == ENOMEM ? SQLITE_NOMEM : SQLITE_FULL;
}

/// While a passive look goes on. SQLite before 3.51 cannot read, without its shared memory, a WAL
/// that has a header and nothing else (a process died there): it tries a hundred times with ever
/// longer pauses, ten seconds in all, before it says SQLITE_PROTOCOL. Then another access works at
/// once, so the pauses are kept short.
bool g_looking = false;

class Looking {
 public:
  explicit Looking(bool passive) noexcept { g_looking = passive; }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;
  ~Looking() { g_looking = false; }
};

int pause(sqlite3_vfs* vfs, int microseconds) {
  constexpr int k_longest_us = 100;
  return g_base->xSleep(vfs, g_looking ? std::min(microseconds, k_longest_us) : microseconds);
}

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  int code = SQLITE_CANTOPEN;
  if ((flags & SQLITE_OPEN_WAL) != 0) {
    // With CREATE, SQLite would sync the folder at the first commit of each connection. The WAL is
    // kept, so that it is there but for the first time.
    code = g_base->xOpen(&g_vfs, name, file, flags & ~SQLITE_OPEN_CREATE, out_flags);
  }
  if ((code & 0xFF) == SQLITE_CANTOPEN) {
    code = g_base->xOpen(&g_vfs, name, file, flags, out_flags);
  }
  if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0 && file->pMethods != nullptr) {
    if (g_base_methods == nullptr) {
      g_base_methods = file->pMethods;
      g_methods = *file->pMethods;
      g_methods.xShmMap = map_shared_memory;
    }
    if (file->pMethods == g_base_methods) {
      file->pMethods = &g_methods;
    }
  }
  return code;
}

/// fs.protected_regular (proc_sys_fs(5)) refuses O_CREAT on another user's existing file in a
/// sticky folder, even to root; without O_CREAT the same file opens.
int open_call(const char* path, int flags, int mode) {
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) == 0) {
    const int fd = ::open(path, flags & ~O_CREAT);
    if (fd >= 0 || errno != ENOENT) {
      return fd;
    }
  }
  return ::open(path, flags, mode);
}

/// As root SQLite gives -wal and -shm to the database's owner at each open. Where they are his
/// already, the call would still change their inodes, and a look must change nothing.
int chown_call(int fd, uid_t owner, gid_t group) {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && info.st_uid == owner && info.st_gid == group) {
    return 0;
  }
  return ::fchown(fd, owner, group);
}

void initialise_library() {
  static bool s_done = false;
  if (s_done) {
    return;
  }
  // No page cache made in advance; a run touches a few dozen pages.
  sqlite3_config(SQLITE_CONFIG_PAGECACHE, nullptr, 0, 0);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  sqlite3_initialize();
  g_base = sqlite3_vfs_find(nullptr);
  if (g_base == nullptr) {
    throw core::Error(core::Outcome::internal, "SQLite has no file system layer");
  }
  g_vfs = *g_base;
  g_vfs.zName = k_vfs_name;
  g_vfs.pNext = nullptr;
  g_vfs.xOpen = open_file;
  g_vfs.xSleep = pause;
  sqlite3_vfs_register(&g_vfs, 0);
  if (g_base->iVersion >= 3 && g_base->xSetSystemCall != nullptr) {
    g_base->xSetSystemCall(g_base, "open", reinterpret_cast<sqlite3_syscall_ptr>(open_call));
    g_base->xSetSystemCall(g_base, "fchown", reinterpret_cast<sqlite3_syscall_ptr>(chown_call));
  }
  s_done = true;
}

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
    const int ms = std::min(count + 1, k_longest_rest_ms);
    // Short enough to see a stop request in time; its descriptor is not waited for, since it also
    // wakes for signals that stop nothing.
    (void)::poll(nullptr, 0, static_cast<int>(std::min<std::int64_t>(ms, deadline.left().count())));
    return stop_signal() == 0;
  }

  [[noreturn]] void fail(int code) const;
  [[noreturn]] void fail_to_access(int primary, const std::string& text) const;
  void check(int code) const {
    if (code != SQLITE_OK) {
      fail(code);
    }
  }
};

void Connection::fail(int code) const {
  const int primary = code & 0xFF;
  const std::string text = sqlite3_errstr(code);
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
    throw core::Error(core::Outcome::unavailable, "no memory to use " + path);
  case SQLITE_FULL:
  case SQLITE_IOERR:
  case SQLITE_READONLY:
  case SQLITE_CANTOPEN:
  case SQLITE_PERM:
    fail_to_access(primary, text);
  default:
    throw statement_error(path, db != nullptr ? sqlite3_errmsg(db) : text.c_str(),
                          primary == SQLITE_MISUSE || primary == SQLITE_RANGE);
  }
}

void Connection::fail_to_access(int primary, const std::string& text) const {
  // SQLite keeps the errno of these two alone.
  const bool has_errno = db != nullptr && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN);
  const int error = has_errno ? sqlite3_system_errno(db) : 0;
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
  m_connection->check(sqlite3_exec(m_connection->db, sql, nullptr, nullptr, nullptr));
}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  m_connection->check(sqlite3_prepare_v2(m_connection->db, sql.data(), static_cast<int>(sql.size()),
                                         &statement, nullptr));
  return {*m_connection, statement};
}

std::optional<Statement> Database::try_prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(m_connection->db, sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
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
