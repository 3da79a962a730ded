#include "cli/compose.hpp"

#include "core/error.hpp"
#include "ledger/sqlite_ledger.hpp"
#include "lock/flock_lock.hpp"
#include "lock/redis_lock.hpp"
#include "os/file.hpp"
#include "os/host.hpp"
#include "run/evidence.hpp"
#include "state/null_ledger.hpp"
#include "state/state_ledger.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace oncerun::cli {

namespace {

/// Where the ledger really is, so that a symbolic link to it shares locks and everything else that
/// lies beside it. Its folder is made if it is missing, unless nothing may be made.
std::string real_ledger_path(const std::string& path, bool look_only) {
  const std::string parent = os::parent_of(path);
  struct stat info {};
  const bool exists = ::stat(parent.c_str(), &info) == 0;
  if ((exists && !S_ISDIR(info.st_mode)) || (!exists && errno == ENOTDIR)) {
    throw core::Error(core::Outcome::config,
                      "there can be no ledger at " + path + ": its folder is a file",
                      "name another file with --ledger");
  }
  if (!exists) {
    if (look_only) {
      return path;
    }
    os::make_directories(parent);
  }
  return os::real_path(path);
}

std::unique_ptr<core::Lock> lock_on_server(const Stores& stores, const core::RunKey& run) {
  const LeaseSettings& lease = stores.lease;
  return lock::redis_lock({.server = {.url = stores.lock.redis,
                                      .ttl = lease.ttl,
                                      .marks = lease.marks,
                                      .connect_timeout = lease.connect_timeout,
                                      .replicas = lease.replicas,
                                      .renew = lease.renew},
                           .run = run,
                           .key = lease.key,
                           .covers_job = lease.covers_job,
                           .run_without = lease.run_without});
}

std::unique_ptr<core::Lock> lock_beside(const Stores& stores, const std::string& ledger_path,
                                        const core::RunKey& run) {
  switch (stores.lock.kind) {
  case LockSpec::Kind::redis:
    return lock_on_server(stores, run);
  case LockSpec::Kind::none:
    return lock::no_lock();
  case LockSpec::Kind::path_flock:
    return lock::path_flock(stores.lock.path);
  case LockSpec::Kind::job_flock:
    break;
  }
  return lock::job_flock(ledger_path + "-locks", ledger_path, run.job);
}

Composition compose_state(const Stores& stores, const run::Plan& plan) {
  std::unique_ptr<state::StateLedger> ledger = state::open_state_ledger(
      *stores.state,
      [&plan](const core::BizDate& date) { return run::is_plausible_date(plan, date); },
      plan.period.text());
  Composition parts;
  switch (stores.lock.kind) {
  case LockSpec::Kind::none:
    parts.lock = lock::no_lock();
    break;
  case LockSpec::Kind::path_flock:
    parts.lock = lock::path_flock(stores.lock.path);
    break;
  case LockSpec::Kind::redis:
    parts.lock = lock_on_server(stores, plan.key);
    break;
  case LockSpec::Kind::job_flock:
    parts.lock = ledger->state_lock();
    break;
  }
  parts.ledger = std::move(ledger);
  return parts;
}

core::Error no_ledger(const std::string& path) {
  return core::Error(core::Outcome::unavailable, "there is no ledger at " + path,
                     "name it with --ledger; a first run makes it");
}

std::unique_ptr<core::Ledger> open_sqlite_at(const std::string& path, const std::string& spool,
                                             bool must_exist,
                                             const core::StopRequest* stop = nullptr) {
  return ledger::open_sqlite({path, spool, must_exist, stop});
}

} // namespace

Composition compose(const Stores& stores, const run::Plan& plan, bool look_only,
                    const core::StopRequest& stop) {
  if (stores.ledger.kind == LedgerSpec::Kind::none) {
    if (stores.state) {
      return compose_state(stores, plan);
    }
    return {state::null_ledger(), lock_beside(stores, "", plan.key)};
  }
  const std::string path = real_ledger_path(stores.ledger.path, look_only);
  return {open_sqlite_at(stores.ledger.path, stores.spool, false, &stop),
          lock_beside(stores, path, plan.key)};
}

std::unique_ptr<core::Ledger> open_existing(const Stores& stores) {
  if (stores.ledger.kind == LedgerSpec::Kind::none) {
    if (!stores.state) {
      throw core::UsageError("with --ledger none there is nothing to look at",
                             "name the state file with --state FILE");
    }
    return state::open_state_ledger(*stores.state, {});
  }
  if (::access(stores.ledger.path.c_str(), F_OK) != 0 && errno == ENOENT) {
    throw no_ledger(stores.ledger.path);
  }
  return open_sqlite_at(stores.ledger.path, stores.spool, true);
}

std::unique_ptr<core::Ledger> open_described(const std::string& description) {
  constexpr std::string_view k_sqlite = "sqlite:";
  constexpr std::string_view k_state = "state:";
  if (description.starts_with(k_sqlite)) {
    return open_sqlite_at(description.substr(k_sqlite.size()), "", true);
  }
  if (description.starts_with(k_state)) {
    return state::open_state_ledger(description.substr(k_state.size()), {});
  }
  if (description == "none") {
    return state::null_ledger();
  }
  throw core::UsageError("ONCERUN_RUN_LEDGER is not set or not understood",
                         "this subcommand is for a command that oncerun started");
}

} // namespace oncerun::cli
