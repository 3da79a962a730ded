#pragma once

#include "core/records.hpp"
#include "core/stop.hpp"
#include "ledger/guard.hpp"
#include "ledger/known_runs.hpp"
#include "ledger/schema.hpp"
#include "ledger/spool.hpp"
#include "ledger/sqlite_db.hpp"
#include "os/life_bytes.hpp"

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace oncerun::ledger {

struct Options {
  std::string
      path; ///< of the ledger; links in it are resolved, so that all agree on one set of files
  std::string spool;                       ///< empty: beside the ledger; "none"; or a folder
  bool must_exist = false;                 ///< commands that look or repair make no ledger
  const core::StopRequest* stop = nullptr; ///< ends the waits of calls that take none; may be null
};

/// Device and inode of a file; zeros if there is none.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The file in which a run was claimed is not at its path any more (unavailable): a result written
/// into it would be lost without a word.
class LedgerReplaced : public core::Error {
 public:
  using core::Error::Error;
};

/// The files of one ledger and the connections of this process to it. Shared by the ledger and its
/// claims. Beside the real path P stand P-guard, P-life and P-spool (SQLite's own: P-wal, P-shm).
class Store {
 public:
  /// Throws Error (config): a link that others could have planted, a network file system, a folder,
  /// a hard link or a mount point (SQLite's files would not be beside it).
  explicit Store(Options options);

  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  [[nodiscard]] std::string life_path() const { return m_path + "-life"; }
  [[nodiscard]] KnownRuns known() const { return KnownRuns(life_path()); }
  [[nodiscard]] Guard& guard() noexcept { return m_guard; }
  [[nodiscard]] const core::OwnerIdentity& self();

  /// For looking: the writing connection if there is one, else the most passive that works;
  /// nullptr if there is no ledger. Throws Error.
  /// Begins a read transaction, which the caller ends (see Reading).
  [[nodiscard]] Database* reader();
  /// For writing; makes folders and file if they are missing, unless `must_exist`. Throws Error.
  [[nodiscard]] Database& writer(const os::Deadline& deadline, const core::StopRequest& stop);
  /// For the owner of a claim: the connection by which it was claimed, to the very file. Throws
  /// LedgerReplaced.
  [[nodiscard]] Database& claimed_writer(const os::Deadline& deadline,
                                         const core::StopRequest& stop);
  /// Before the guard is taken: reads the WAL, so that a stampede does that side by side.
  void warm_up(Database& writer);
  /// Under the guard: puts the file into WAL mode if it is not.
  void use_wal(Database& writer);
  /// The file was replaced: what follows opens the one that is there now.
  void forget_connections() noexcept;

  /// The spool of this invocation; nullopt for "none".
  [[nodiscard]] const std::optional<Spool>& spool() const noexcept { return m_spool; }
  [[nodiscard]] std::string spool_beside() const { return m_path + "-spool"; }
  /// Every spool whose results this ledger gets: the one beside it, this invocation's, and those
  /// that any attempt ever named.
  [[nodiscard]] std::vector<Spool> spools(Database& database, const Meta& meta) const;

  /// Serials whose Claim exists in this process: between retries they are no obstacle to us.
  [[nodiscard]] std::set<std::int64_t>& own() noexcept { return m_own; }
  [[nodiscard]] std::vector<std::string>& notices() noexcept { return m_notices; }

  /// Of the write-ahead log, which SQLite itself never looks at again once it is open.
  [[nodiscard]] FileIdentity log_identity() const;
  /// Before the first commit into a new log: makes the names of all files in the folder durable.
  /// What SQLite does about that cannot fail, and so proves nothing. Throws Error (unwritable).
  void sync_new_log() const;
  /// After the commit of count_change(): a copy from before it is seen as one. Never throws.
  void remember_change(std::int64_t change) noexcept;
  void remember_change(os::LifeFile& life, std::int64_t change) noexcept;

  /// Allocates room past the WAL's end, so that a command that fills the disk still gets its result
  /// recorded. Best effort.
  void reserve_room() const noexcept;

 private:
  [[nodiscard]] bool exists() const;
  void open_reader();
  [[nodiscard]] const core::StopRequest& stop() const noexcept;

  Options m_options;
  std::string m_path;
  Guard m_guard;
  std::optional<Spool> m_spool;
  std::optional<Database> m_reader;
  std::optional<Database> m_writer;
  bool m_warm = false; ///< the writer's settings are made
  bool m_wal = false;  ///< the writer's file is known to be in WAL mode
  std::optional<core::OwnerIdentity> m_self;
  std::set<std::int64_t> m_own;
  std::vector<std::string> m_notices;
};

/// One read transaction; `db()` is nullptr if there is no ledger.
class Reading {
 public:
  explicit Reading(Store& store) : m_database(store.reader()) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    if (m_database != nullptr) {
      m_database->rollback();
    }
  }
  [[nodiscard]] Database* db() const noexcept { return m_database; }

 private:
  Database* m_database;
};

/// One write transaction: guard, BEGIN IMMEDIATE, the schema, the liveness file; undone unless
/// committed. Throws Error, Interrupted.
class Writing {
 public:
  enum class Copies : std::uint8_t { refuse, accept };
  /// Refuses (config) a restored copy: its highest token lies below the one remembered beside it.
  Writing(Store& store, const os::Deadline& deadline, const core::StopRequest& stop,
          Copies copies = Copies::refuse);
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  [[nodiscard]] Store& store() noexcept { return m_store; }
  [[nodiscard]] Database& db() noexcept { return *m_database; }
  [[nodiscard]] os::LifeFile& life() noexcept { return *m_life; }
  [[nodiscard]] Meta& meta() noexcept { return m_meta; }
  [[nodiscard]] const Meta& meta() const noexcept { return m_meta; }
  [[nodiscard]] const std::string& now() const noexcept { return m_now; } ///< one instant for all
  /// Counts the change, so that a copy from before it is seen as restored.
  void commit();
  /// To be called for every row of job_run that is made.
  void know(const core::RunKey& run) { m_store.known().add(run); }

 private:
  Store& m_store;
  std::string m_now;
  Database* m_database = nullptr;
  std::optional<Guard::Held> m_guard;
  std::optional<Transaction> m_transaction; ///< destroyed before the guard
  std::optional<os::LifeFile> m_life;
  Meta m_meta;
};

} // namespace oncerun::ledger
