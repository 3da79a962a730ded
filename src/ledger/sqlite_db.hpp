#pragma once

#include "core/error.hpp"
#include "core/stop.hpp"
#include "os/clock.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace oncerun::ledger {

/// One value bound to a statement: an integer, a text (copied when bound), or NULL.
class Value {
 public:
  Value(std::int64_t number) noexcept : m_kind(Kind::integer), m_number(number) {}
  Value(int number) noexcept : Value(std::int64_t{number}) {}
  Value(bool flag) noexcept : Value(std::int64_t{flag}) {}
  Value(std::string_view text) noexcept : m_kind(Kind::text), m_text(text) {}
  Value(const std::string& text) noexcept : Value(std::string_view(text)) {}
  Value(const char* text) noexcept : Value(std::string_view(text)) {}
  Value(std::nullopt_t) noexcept {}
  Value(const std::optional<int>& number) noexcept {
    if (number) {
      m_kind = Kind::integer;
      m_number = *number;
    }
  }

 private:
  friend class Statement;
  enum class Kind : std::uint8_t { null, integer, text };
  Kind m_kind = Kind::null;
  std::int64_t m_number = 0;
  std::string_view m_text;
};

/// What SQLite says no to in a passive look (no -wal or -shm, or one that needs recovery), or in a
/// read-only one (a journal that has to be rolled back): the caller falls back to the next access.
class CannotLookPassively : public core::Error {
 public:
  using core::Error::Error;
};

struct Connection;

/// A prepared statement. Parameters are numbered from 1, columns from 0.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  template<typename... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, Value(values)), ...);
    return *this;
  }
  /// Whether there is a row. Throws Error by the rules of Database.
  [[nodiscard]] bool step();
  /// Runs a statement that gives no row; returns how many rows it changed.
  int run();

  [[nodiscard]] bool is_null(int column) const noexcept;
  [[nodiscard]] std::int64_t integer(int column) const noexcept; ///< 0 for NULL
  [[nodiscard]] std::string text(int column) const;              ///< "" for NULL
  [[nodiscard]] std::optional<int> optional_int(int column) const noexcept;
  [[nodiscard]] const std::string& path() const noexcept; ///< of the database, for messages

 private:
  friend class Database;
  Statement(Connection& connection, sqlite3_stmt* statement) noexcept
      : m_connection(&connection), m_statement(statement) {}
  void bind_one(int index, const Value& value);

  Connection* m_connection; ///< outlives the statement
  sqlite3_stmt* m_statement;
};

/// One connection. The only file that knows sqlite3.h stands behind it. SQLite's errors become
/// core::Error: busy beyond the deadline → unavailable; no space → unwritable; no permission, I/O →
/// what open() was given; no database, damaged → config. A wait that a stop request ended
/// is core::Interrupted.
class Database {
 public:
  enum class Access : std::uint8_t {
    read_write, ///< an existing file; WAL, synchronous=FULL
    read_only,  ///< makes -wal and -shm if they are missing
    passive,    ///< changes no file (readonly_shm); fails where -wal or -shm is missing
  };
  /// `path` must be a real path: links in it are refused. Nothing is read yet. `refusal` is the
  /// outcome of errors by which the file cannot be accessed.
  [[nodiscard]] static Database open(const std::string& path, Access access,
                                     core::Outcome refusal = core::Outcome::unwritable);
  /// The library's version, for --version.
  [[nodiscard]] static std::string library_version();

  /// For how long the following calls wait for other processes, and what ends that.
  void set_wait(const os::Deadline& deadline, const core::StopRequest& stop) noexcept;
  /// One or more statements without parameters.
  void exec(const char* sql);
  /// Also where an index that the SQL names by INDEXED BY is missing.
  [[nodiscard]] Statement prepare(std::string_view sql);
  /// As prepare, but nullopt where the SQL does not fit the schema (SQLITE_ERROR).
  [[nodiscard]] std::optional<Statement> try_prepare(std::string_view sql);
  template<typename... Values>
  int run(std::string_view sql, const Values&... values) {
    return prepare(sql).bind(values...).run();
  }

  /// Begins a transaction that reads one state of everything until rollback(). Reads at once, so
  /// that a passive look that cannot be is known here (CannotLookPassively).
  void begin_read();
  /// Sets up a connection that writes (synchronous=FULL); says whether the file is in WAL mode.
  [[nodiscard]] bool prepare_to_write();
  /// Puts the file into WAL mode, for good; waits for others who use it. Under the guard.
  void use_wal();
  [[nodiscard]] bool in_transaction() const noexcept;
  /// Ends a transaction that is open; never throws.
  void rollback() noexcept;
  /// Whether the file was renamed, removed or replaced since it was opened.
  [[nodiscard]] bool has_moved() const noexcept;
  /// Frames in the WAL after the last commit of this connection; 0 before.
  [[nodiscard]] int wal_frames() const noexcept;
  /// Copies what can be copied from the WAL into the database without waiting for anyone. Only
  /// under the guard. False if that failed.
  bool checkpoint() noexcept;
  /// Gives the page cache back.
  void release_memory() noexcept;
  [[nodiscard]] const std::string& path() const noexcept;

 private:
  struct Close {
    void operator()(Connection* connection) const noexcept;
  };
  explicit Database(Connection* connection) noexcept : m_connection(connection) {}
  std::unique_ptr<Connection, Close> m_connection;
};

/// BEGIN IMMEDIATE; rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : m_database(database) {
    m_database.exec("BEGIN IMMEDIATE");
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() { m_database.rollback(); }
  void commit() { m_database.exec("COMMIT"); }

 private:
  Database& m_database;
};

} // namespace oncerun::ledger
