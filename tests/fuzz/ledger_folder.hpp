#pragma once

// What the targets around a ledger's files share: a folder in memory that is made anew for each
// input, a ledger with one dead owner to start from, and another program's view of a database.

#include "core/ledger.hpp"
#include "fuzz/fuzz.hpp"
#include "ledger/sqlite_ledger.hpp"
#include "os/host.hpp"

#include <sqlite3.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>

namespace oncerun::fuzz {

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Names and contents of a folder.
using Files = std::map<std::string, std::string>;

class Folder {
 public:
  Folder() {
    const std::filesystem::path shared = "/dev/shm";
    const std::filesystem::path where =
        std::filesystem::is_directory(shared) ? shared : std::filesystem::temp_directory_path();
    std::string name = (where / "oncerun-test-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "there is a folder for the files");
    m_path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(m_path); }

  [[nodiscard]] std::string operator/(const std::string& name) const { return m_path + "/" + name; }
  [[nodiscard]] std::string ledger() const { return *this / "led.db"; }

  [[nodiscard]] Files files() const {
    Files found;
    for (const auto& entry : std::filesystem::directory_iterator(m_path)) {
      found[entry.path().filename().string()] = read_file(entry.path().string());
    }
    return found;
  }
  void restore(const Files& files) const {
    for (const auto& entry : std::filesystem::directory_iterator(m_path)) {
      std::filesystem::remove_all(entry.path());
    }
    for (const auto& [name, bytes] : files) {
      write_file(*this / name, bytes);
    }
  }

 private:
  std::string m_path;
};

/// A database as another program sees it. Statements that fail are passed over: input is input.
class Sqlite {
 public:
  explicit Sqlite(const std::string& path) {
    require(sqlite3_open(path.c_str(), &m_db) == SQLITE_OK, "a database can be opened");
  }
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;
  ~Sqlite() { sqlite3_close(m_db); }
  [[nodiscard]] sqlite3* get() const { return m_db; }

  /// Rows by '\n', columns by '|'; what cannot be queried gives the error's text.
  [[nodiscard]] std::string query(const std::string& sql) const {
    std::string text;
    sqlite3_stmt* statement = nullptr;
    int code = sqlite3_prepare_v2(m_db, sql.c_str(), -1, &statement, nullptr);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
      code = sqlite3_step(statement);
      for (int i = 0; code == SQLITE_ROW && i < sqlite3_column_count(statement); ++i) {
        const auto* value = sqlite3_column_text(statement, i); // in UTF-8, whatever the file has
        const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement, i));
        text.append(i == 0 ? "\n" : "|").append(reinterpret_cast<const char*>(value), bytes);
      }
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? text : "error: " + std::string(sqlite3_errmsg(m_db));
  }

 private:
  sqlite3* m_db = nullptr;
};

class NoLock final : public core::HeldLock {
 public:
  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  [[nodiscard]] bool covers_job() const noexcept override { return true; }
  void release() noexcept override {}
};

inline const NoLock k_lock;
inline const core::NoStopRequest k_no_stop;
inline const core::RunKey k_run{core::JobName::parse("settle"), core::BizDate("2024-10-26")};
inline const core::RunKey k_other{core::JobName::parse("other"), core::BizDate("2024-10-26")};

inline core::ClaimRequest request(const core::RunKey& key) {
  core::ClaimRequest asked{.key = key,
                           .period = "day",
                           .zone = "UTC",
                           .run_id = os::random_uuid(),
                           .check_verdict = {},
                           .evidence = {}};
  asked.timeout = std::chrono::milliseconds(200);
  return asked;
}

inline std::unique_ptr<core::Ledger> open(const Folder& folder) {
  return ledger::open_sqlite(
      {.path = folder.ledger(), .spool = "", .must_exist = false, .stop = nullptr});
}

/// Claims what may be claimed by the rules, under this guarantee.
inline core::ClaimOutcome claim(core::Ledger& ledger, const core::RunKey& key,
                                core::Guarantee guarantee) {
  return ledger.claim(
      k_lock, request(key),
      [guarantee](const core::Sighting& seen) {
        core::Situation situation;
        situation.row = seen.row();
        situation.owner = seen.owner;
        situation.at_or_below_floor = seen.at_or_below_floor;
        situation.guarantee = guarantee;
        return core::decide(situation);
      },
      k_no_stop);
}

/// The files of a ledger in which "other" is done and the owner of "settle" died.
inline Files ledger_with_a_dead_owner(core::ClaimedRun* dead) {
  const Folder folder;
  {
    const auto ledger = open(folder);
    auto other = claim(*ledger, k_other, core::Guarantee::cautious);
    core::AttemptResult done;
    done.status = core::RunStatus::done;
    done.exit_code = 0;
    const auto recorded = std::get<core::Claimed>(other).claim->finish(
        done, std::chrono::milliseconds(1000), k_no_stop);
    require(recorded == core::Recorded::recorded, "a result is recorded");
    // Going out of scope finishes nothing: this is what a killed oncerun leaves behind.
    *dead = std::get<core::Claimed>(claim(*ledger, k_run, core::Guarantee::cautious)).claim->run();
  }
  // The log into the file, so that one file is the ledger.
  (void)Sqlite(folder.ledger()).query("PRAGMA wal_checkpoint(TRUNCATE)");
  Files files = folder.files();
  for (const char* suffix : {"-wal", "-shm"}) {
    files.erase("led.db" + std::string(suffix));
  }
  return files;
}

} // namespace oncerun::fuzz
