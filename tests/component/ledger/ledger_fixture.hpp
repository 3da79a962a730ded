#pragma once

// What the tests of the SQLite ledger share: a folder, a lock held without a file, requests, and
// children that act as other oncerun processes.

#include "core/error.hpp"
#include "core/ledger.hpp"
#include "ledger/sqlite_ledger.hpp"
#include "os/host.hpp"
#include "support/catch.hpp"

#include <sqlite3.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace oncerun::test {

class TemporaryFolder {
 public:
  /// Below `parent` if that exists, else where temporary files go.
  explicit TemporaryFolder(const std::string& parent = {}) {
    const std::filesystem::path where = !parent.empty() && std::filesystem::is_directory(parent)
                                            ? std::filesystem::path(parent)
                                            : std::filesystem::temp_directory_path();
    std::string name = (where / "oncerun-ledger-XXXXXX").string();
    m_path = ::mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(m_path, ignored);
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return m_path + "/" + name; }
  [[nodiscard]] const std::string& path() const { return m_path; }

 private:
  std::string m_path;
};

class TestLock final : public core::HeldLock {
 public:
  explicit TestLock(bool covers_job) : m_covers_job(covers_job) {}
  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  [[nodiscard]] bool covers_job() const noexcept override { return m_covers_job; }
  void release() noexcept override {}

 private:
  bool m_covers_job;
};

inline const core::NoStopRequest k_no_stop;
inline const TestLock k_no_lock{false};
inline const TestLock k_job_lock{true};

inline core::RunKey key(const std::string& job, const std::string& date) {
  return {core::JobName::parse(job), core::BizDate(date)};
}

inline core::ClaimRequest request(const core::RunKey& run) {
  core::ClaimRequest asked{.key = run,
                           .period = "day",
                           .zone = "UTC",
                           .run_id = os::random_uuid(),
                           .check_verdict = {},
                           .evidence = {}};
  return asked;
}

/// What the pipeline decides by, with a guarantee and nothing else.
inline core::Decider by(core::Guarantee guarantee) {
  return [guarantee](const core::Sighting& seen) {
    core::Situation situation;
    situation.row = seen.row();
    situation.owner = seen.owner;
    situation.at_or_below_floor = seen.at_or_below_floor;
    situation.guarantee = guarantee;
    return core::decide(situation);
  };
}

inline std::unique_ptr<core::Ledger> open(const std::string& path, bool must_exist = false) {
  return ledger::open_sqlite(
      {.path = path, .spool = "", .must_exist = must_exist, .stop = nullptr});
}

inline core::AttemptResult ended(core::RunStatus status, int exit_code) {
  core::AttemptResult result;
  result.status = status;
  result.exit_code = exit_code;
  return result;
}

/// The claim, or a null pointer.
inline std::unique_ptr<core::Claim> claim(core::Ledger& ledger, const core::ClaimRequest& asked,
                                          core::Guarantee guarantee = core::Guarantee::cautious,
                                          const core::HeldLock& lock = k_no_lock) {
  core::ClaimOutcome outcome = ledger.claim(lock, asked, by(guarantee), k_no_stop);
  if (auto* claimed = std::get_if<core::Claimed>(&outcome)) {
    return std::move(claimed->claim);
  }
  return nullptr;
}

inline core::Recorded finish(core::Claim& claim, const core::AttemptResult& result) {
  return claim.finish(result, std::chrono::seconds(10), k_no_stop);
}

/// Claims and finishes a run as done.
inline bool run_once(core::Ledger& ledger, const core::RunKey& run) {
  const auto claimed = claim(ledger, request(run));
  return claimed && finish(*claimed, ended(core::RunStatus::done, 0)) == core::Recorded::recorded;
}

/// The outcome of the Error that `action` throws; `done` if it throws none.
inline core::Outcome outcome_of(const std::function<void()>& action,
                                std::string* message = nullptr) {
  try {
    action();
  } catch (const core::Error& error) {
    if (message != nullptr) {
      *message = error.what();
    }
    return error.outcome();
  }
  return core::Outcome::done;
}

/// A child process that runs `action` and exits with what it returns; -1 if it throws.
class Child {
 public:
  explicit Child(const std::function<int()>& action) : m_pid(::fork()) {
    if (m_pid == 0) {
      int code = 255;
      try {
        code = action();
      } catch (const std::exception&) {
      }
      ::_exit(code);
    }
  }
  Child(Child&& other) noexcept : m_pid(std::exchange(other.m_pid, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (m_pid > 0) {
      ::kill(m_pid, SIGKILL);
      (void)wait();
    }
  }
  [[nodiscard]] pid_t pid() const { return m_pid; }
  /// The exit code; 128 + N for a signal.
  int wait() {
    int status = 0;
    while (::waitpid(m_pid, &status, 0) < 0 && errno == EINTR) {
    }
    m_pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int kill_and_wait() {
    ::kill(m_pid, SIGKILL);
    return wait();
  }

 private:
  pid_t m_pid;
};

/// A pipe by which processes tell each other that they have come somewhere.
class Signpost {
 public:
  Signpost() { REQUIRE(::pipe(m_fds) == 0); }
  Signpost(const Signpost&) = delete;
  Signpost& operator=(const Signpost&) = delete;
  ~Signpost() {
    ::close(m_fds[0]);
    ::close(m_fds[1]);
  }
  void reached(int count = 1) const {
    for (int i = 0; i < count; ++i) {
      (void)!::write(m_fds[1], "x", 1);
    }
  }
  void wait() const {
    char byte = 0;
    while (::read(m_fds[0], &byte, 1) < 0 && errno == EINTR) {
    }
  }
  [[nodiscard]] int write_end() const { return m_fds[1]; }

 private:
  int m_fds[2] = {-1, -1};
};

/// A claimed attempt whose oncerun was killed: a child claims, says so, and is killed.
inline void leave_dead_claim(const std::string& path, const core::ClaimRequest& asked,
                             core::Guarantee guarantee = core::Guarantee::cautious) {
  Signpost claimed;
  Child child([&] {
    const auto ledger = open(path);
    const auto held = claim(*ledger, asked, guarantee);
    if (!held) {
      return 1;
    }
    claimed.reached();
    ::pause();
    return 0;
  });
  claimed.wait();
  child.kill_and_wait();
}

/// Another program's look at the database, by SQLite alone.
class Shell {
 public:
  explicit Shell(const std::string& path) {
    REQUIRE(sqlite3_open(path.c_str(), &m_db) == SQLITE_OK);
    sqlite3_busy_timeout(m_db, 10'000);
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  ~Shell() { sqlite3_close(m_db); }
  void exec(const std::string& sql) {
    INFO(sql);
    REQUIRE(sqlite3_exec(m_db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  /// Rows by '\n', columns by '|', as the sqlite3 shell prints them.
  std::string query(const std::string& sql) {
    INFO(sql);
    std::string text;
    const auto add = [](void* to, int count, char** values, char**) {
      auto& out = *static_cast<std::string*>(to);
      for (int i = 0; i < count; ++i) {
        out += (i == 0 ? (out.empty() ? "" : "\n") : "|");
        out += values[i] != nullptr ? values[i] : "";
      }
      return 0;
    };
    REQUIRE(sqlite3_exec(m_db, sql.c_str(), add, &text, nullptr) == SQLITE_OK);
    return text;
  }
  [[nodiscard]] int changes() const { return sqlite3_changes(m_db); }

 private:
  sqlite3* m_db = nullptr;
};

inline std::string status_in(const std::string& path, const core::RunKey& run) {
  return Shell(path).query("SELECT status FROM job_run WHERE job_name = '" + run.job.text() +
                           "' AND biz_date = '" + run.date.label() + "'");
}

} // namespace oncerun::test
