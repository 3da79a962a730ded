#pragma once

#include "cli/arguments.hpp"
#include "cli/stderr_log.hpp"
#include "core/zone.hpp"
#include "lock/redis_url.hpp"
#include "run/plan.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace oncerun::cli {

/// The environment that oncerun was given, as text that outlives every change of our own.
class Environment {
 public:
  explicit Environment(const char* const* variables);
  [[nodiscard]] const std::vector<std::string>& entries() const noexcept { return m_entries; }
  /// nullptr if it is not set.
  [[nodiscard]] const char* get(std::string_view name) const noexcept;
  /// Inside a run only ONCERUN_LEDGER is still read, so that a nested oncerun is not steered by its
  /// parent.
  [[nodiscard]] bool inside_run() const noexcept { return get("ONCERUN_RUN_ID") != nullptr; }

 private:
  std::vector<std::string> m_entries;
};

/// Where the ledger is.
struct LedgerSpec {
  enum class Kind { sqlite, none };
  Kind kind = Kind::sqlite;
  std::string path;
  bool is_default = false;
};

struct LockSpec {
  enum class Kind { job_flock, path_flock, none, redis };
  Kind kind = Kind::job_flock;
  std::string path;
  bool given = false;
  lock::RedisUrl redis = {};
};

/// What goes with a lock on a server.
struct LeaseSettings {
  bool covers_job = true;
  std::string key; ///< empty: the job's own
  std::chrono::milliseconds ttl{30'000};
  std::chrono::milliseconds marks{std::chrono::days(35)};
  std::chrono::milliseconds connect_timeout{3'000};
  std::optional<int> replicas; ///< none: all
  bool renew = true;
  bool run_without = false;
};

/// Where to look and what to change: what every subcommand needs.
struct Stores {
  LedgerSpec ledger;
  LockSpec lock;
  LeaseSettings lease; ///< of a lock on a server
  std::optional<std::string> state;
  std::string spool; ///< empty: beside the ledger
};

/// One invocation that runs a command.
struct RunSettings {
  std::unique_ptr<core::Zone> zone; ///< plan.zone points to it
  run::Plan plan;
  Stores stores;
  bool explain = false;
  bool json = false;
};

/// How the outcome is told; needed also when the command line says nothing that can be run.
struct TellingSettings {
  std::map<core::Outcome, int> exit_codes; ///< --exit
  std::optional<std::string> report;
};

struct LogSettings {
  LogFormat format = LogFormat::text;
  bool verbose = false;
  bool quiet = false;
};

/// A run that a subcommand is about.
struct NamedRun {
  std::unique_ptr<core::Zone> zone;
  core::Period period;
  core::Slot slot;
  core::RunKey key;
  bool date_is_label = false;
};

/// The option's value, else that of the variable where it is read; an empty variable is none.
[[nodiscard]] std::optional<std::string> option_or_variable(const Arguments& arguments,
                                                            std::string_view option,
                                                            const Environment& environment,
                                                            std::string_view variable);

// Each throws core::UsageError for what is wrong by the command line alone.
[[nodiscard]] LogSettings log_settings(const Arguments& arguments);
[[nodiscard]] TellingSettings telling_settings(const Arguments& arguments);
/// A report, a state file or a lock in place of the ledger or of each other would destroy it. To be
/// called before a report of any other error can be written.
void refuse_shared_files(const Arguments& arguments, const Environment& environment);
[[nodiscard]] Stores stores(const Arguments& arguments, const Environment& environment);
[[nodiscard]] core::JobName job_name(const Arguments& arguments);
/// `known_period` and `known_zone` are the job's from the ledger, used where no option names them.
[[nodiscard]] NamedRun named_run(const Arguments& arguments, const Environment& environment,
                                 const std::string& known_period = {},
                                 const std::string& known_zone = {});
[[nodiscard]] run::CheckPlan check_plan(const Arguments& arguments);
[[nodiscard]] RunSettings run_settings(const Arguments& arguments, const Environment& environment,
                                       std::vector<std::string> command,
                                       const os::StandardFds& standard_fds);

} // namespace oncerun::cli
