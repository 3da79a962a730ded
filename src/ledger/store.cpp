#include "ledger/store.hpp"

#include "core/uuid.hpp"
#include "os/file.hpp"
#include "os/host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace oncerun::ledger {

namespace {

constexpr std::chrono::milliseconds k_look_wait{10'000};
/// For a lock on the database that another program than oncerun holds.
constexpr std::chrono::milliseconds k_foreign_wait{10'000};
/// What a result's commit needs at most: some 14 pages.
constexpr off_t k_wal_room = 64 * 1024;

/// A database has at least one page, and that at least 512 bytes (SQLite's file format, section
/// 1.2). SQLite itself takes a shorter file for an empty one and overwrites it.
constexpr off_t k_least_database = 512;

std::string checked_path(const std::string& path) {
  os::refuse_planted_link(path);
  const std::string real = os::real_path(path);
  struct stat info {};
  if (::stat(real.c_str(), &info) != 0) {
    if (errno != ENOENT) {
      throw os::unwritable_error("look at the ledger", real, errno);
    }
  } else if (!S_ISREG(info.st_mode)) {
    throw core::Error(core::Outcome::config,
                      real + (S_ISDIR(info.st_mode) ? " is a folder" : " is not a regular file"),
                      "name a file with --ledger");
  } else if (info.st_size > 0 && info.st_size < k_least_database) {
    throw core::Error(core::Outcome::config, real + " is not a database",
                      "name another file with --ledger");
  } else if (info.st_nlink > 1) {
    throw core::Error(core::Outcome::config,
                      real +
                          " has more than one name (hard links), and the files beside it only one",
                      "keep the ledger under one name; a symbolic link is fine");
  } else if (os::is_mount_point(real)) {
    throw core::Error(core::Outcome::config,
                      real +
                          " is a mount point by itself, and the files beside it would be elsewhere",
                      "mount its folder instead");
  }
  os::refuse_network_file_system(real);
  return real;
}

std::optional<Spool> chosen_spool(const std::string& choice, const std::string& path) {
  if (choice == "none") {
    return std::nullopt;
  }
  if (choice.empty()) {
    return Spool(path + "-spool", path);
  }
  // Absolute, since later starts find it by this name from wherever they are.
  const std::string folder = choice.starts_with('/') ? choice : os::real_path(".") + "/" + choice;
  return Spool(folder + "/" + core::name_uuid(path) + ".spool", path);
}

} // namespace

Store::Store(Options options)
    : m_options(std::move(options)), m_path(checked_path(m_options.path)),
      m_guard(m_path + "-guard", m_path), m_spool(chosen_spool(m_options.spool, m_path)) {
}

const core::OwnerIdentity& Store::self() {
  if (!m_self) {
    m_self = os::this_process();
  }
  return *m_self;
}

const core::StopRequest& Store::stop() const noexcept {
  static const core::NoStopRequest s_none;
  return m_options.stop != nullptr ? *m_options.stop : s_none;
}

bool Store::exists() const {
  struct stat info {};
  return ::stat(m_path.c_str(), &info) == 0;
}

Database* Store::reader() {
  if (m_writer) {
    m_writer->set_wait(os::Deadline::after(k_look_wait), stop());
    m_writer->begin_read();
    return &*m_writer;
  }
  if (!m_reader && !exists()) {
    return nullptr;
  }
  open_reader();
  return &*m_reader;
}

void Store::open_reader() {
  using Access = Database::Access;
  const auto begin = [&](Database& database) {
    database.set_wait(os::Deadline::after(k_look_wait), stop());
    database.begin_read();
  };
  if (m_reader && m_reader->has_moved()) {
    m_reader.reset();
  }
  // A command that only looks is told that it cannot; one that runs, that nothing can be recorded.
  const auto refusal =
      m_options.must_exist ? core::Outcome::unavailable : core::Outcome::unwritable;
  try {
    if (!m_reader) {
      m_reader = Database::open(m_path, Access::passive, refusal);
    }
    begin(*m_reader);
    return;
  } catch (const CannotLookPassively&) {
    m_reader.reset();
  }
  try {
    m_reader = Database::open(m_path, Access::read_only, refusal);
    begin(*m_reader);
    return;
  } catch (const CannotLookPassively&) {
    m_reader.reset();
  }
  // A process died while it made the file: what it left has to be rolled back first (SQLite's "hot
  // journal"), and only a connection that may write does that.
  m_reader = Database::open(m_path, Access::read_write, refusal);
  begin(*m_reader);
}

Database& Store::writer(const os::Deadline& deadline, const core::StopRequest& stop_request) {
  if (m_writer && m_writer->has_moved()) {
    forget_connections();
  }
  if (m_writer) {
    m_writer->rollback();
    m_writer->set_wait(deadline, stop_request);
    return *m_writer;
  }
  if (!exists()) {
    if (m_options.must_exist) {
      throw core::Error(core::Outcome::config, "there is no ledger at " + m_path,
                        "name it with --ledger; the first start of a job makes it");
    }
    // SQLite would take the umask into account and not the owner. Closed before SQLite opens it:
    // closing a descriptor later would drop SQLite's own locks (fcntl(2), "lost locks").
    const std::string folder = os::parent_of(m_path);
    os::make_directories(folder);
    (void)os::open_or_create(m_path, folder);
  }
  m_reader.reset();
  m_writer = Database::open(m_path, Database::Access::read_write);
  m_writer->set_wait(deadline, stop_request);
  return *m_writer;
}

Database& Store::claimed_writer(const os::Deadline& deadline,
                                const core::StopRequest& stop_request) {
  if (!m_writer || m_writer->has_moved()) {
    throw LedgerReplaced(core::Outcome::unavailable,
                         m_path + " was removed or replaced while the run went on");
  }
  m_writer->rollback();
  m_writer->set_wait(deadline, stop_request);
  return *m_writer;
}

void Store::forget_connections() noexcept {
  m_reader.reset();
  m_writer.reset();
  m_warm = false;
  m_wal = false;
}

void Store::warm_up(Database& writer) {
  if (!m_warm) {
    m_wal = writer.prepare_to_write();
    m_warm = true;
  }
}

void Store::use_wal(Database& writer) {
  if (!m_wal) {
    refuse_unusable(writer);
    writer.use_wal();
    m_wal = true;
  }
}

std::vector<Spool> Store::spools(Database& database, const Meta& meta) const {
  std::set<std::string> paths{spool_beside()};
  if (m_spool) {
    paths.insert(m_spool->path());
  }
  if (meta.has_spools) {
    Statement named = database.prepare("SELECT path FROM oncerun_spool");
    while (named.step()) {
      paths.insert(named.text(0));
    }
  }
  std::vector<Spool> all;
  for (const std::string& path : paths) {
    all.emplace_back(path, m_path);
  }
  return all;
}

FileIdentity Store::log_identity() const {
  struct stat info {};
  for (int tries = 0; tries < 2; ++tries) { // a look that fails once proves nothing
    if (::stat((m_path + "-wal").c_str(), &info) == 0) {
      return {info.st_dev, info.st_ino};
    }
  }
  return {};
}

void Store::sync_new_log() const {
  struct stat info {};
  if (::stat((m_path + "-wal").c_str(), &info) == 0 && info.st_size > 0) {
    return;
  }
  const std::string folder = os::parent_of(m_path);
  if (const int error = os::sync_directory(folder); error != 0) {
    throw os::unwritable_error("sync", folder, error);
  }
}

void Store::remember_change(std::int64_t change) noexcept {
  try {
    os::LifeFile life = os::LifeFile::open(life_path(), m_path);
    remember_change(life, change);
  } catch (const std::exception& error) {
    m_notices.push_back(error.what());
  }
}

void Store::remember_change(os::LifeFile& life, std::int64_t change) noexcept {
  try {
    life.remember_token(change);
  } catch (const std::exception& error) {
    // The change stands; only a restored copy would go unnoticed.
    m_notices.push_back(error.what());
  }
}

void Store::reserve_room() const noexcept {
  // SQLite holds its locks on the database and on -shm, none on -wal: this descriptor drops
  // nothing.
  const os::UniqueFd fd(::open((m_path + "-wal").c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (fd && ::fstat(fd.get(), &info) == 0 && info.st_blocks * 512 < info.st_size + k_wal_room) {
    (void)::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, info.st_size, k_wal_room);
  }
}

Writing::Writing(Store& store, const os::Deadline& deadline, const core::StopRequest& stop,
                 Copies copies)
    : m_store(store) {
  Database* database = &store.writer(deadline, stop);
  store.warm_up(*database);
  m_guard.emplace(store.guard().lock(deadline, stop));
  if (database->has_moved()) {
    // writer() sees that too, and opens the file that is there now.
    database = &store.writer(deadline, stop);
    store.warm_up(*database);
  }
  // Behind the guard other starts queue, and each is through in milliseconds: that may take as long
  // as it takes. Whoever still holds the database itself is somebody else's program.
  const os::Deadline store_deadline = os::Deadline::after(k_foreign_wait);
  database->set_wait(store_deadline.left() < deadline.left() ? store_deadline : deadline, stop);
  store.use_wal(*database);
  m_database = database;
  m_transaction.emplace(*database);
  store.sync_new_log();
  m_now = os::now_text();
  std::optional<Meta> meta = read_current_meta(*database);
  const bool made = !meta && ensure_schema(*database);
  m_meta = meta ? std::move(*meta) : read_meta(*database);
  m_life = os::LifeFile::open(store.life_path(), store.path());
  if (made) {
    store.known().begin();
  }
  if (copies == Copies::refuse && m_meta.last_token < m_life->highest_token()) {
    throw core::Error(core::Outcome::config,
                      store.path() +
                          " is older than what was recorded in it before: a copy restored "
                          "from a backup, or a new file in place of a lost one",
                      "see what ran since, then `oncerun ledger accept`");
  }
}

void Writing::commit() {
  ++m_meta.last_token;
  write_meta(*m_database, m_meta);
  m_transaction->commit();
  m_store.remember_change(*m_life, m_meta.last_token);
}

} // namespace oncerun::ledger
