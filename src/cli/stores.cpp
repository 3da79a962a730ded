#include "cli/lease_settings.hpp"
#include "cli/settings.hpp"
#include "core/error.hpp"
#include "core/redact.hpp"
#include "os/file.hpp"

#include <unistd.h>

namespace oncerun::cli {

namespace {

/// The default ledger: /var/lib/oncerun for root, else the user's state directory as the XDG base
/// directory specification says (a relative value is ignored there, too).
std::string default_ledger(const Environment& environment) {
  if (::geteuid() == 0) {
    return "/var/lib/oncerun/ledger.db";
  }
  const char* state_home = environment.get("XDG_STATE_HOME");
  if (state_home != nullptr && *state_home == '/') {
    return std::string(state_home) + "/oncerun/ledger.db";
  }
  const char* home = environment.get("HOME");
  if (home != nullptr && *home == '/') {
    return std::string(home) + "/.local/state/oncerun/ledger.db";
  }
  throw core::UsageError("there is no default ledger: neither XDG_STATE_HOME nor HOME is set",
                         "name one with --ledger PATH");
}

LedgerSpec ledger_spec(const Arguments& arguments, const Environment& environment) {
  const std::optional<std::string> text =
      option_or_variable(arguments, "ledger", environment, "ONCERUN_LEDGER");
  if (!text) {
    return {LedgerSpec::Kind::sqlite, default_ledger(environment), true};
  }
  if (*text == "none") {
    return {LedgerSpec::Kind::none, "", false};
  }
  std::string path = *text;
  if (path.starts_with("sqlite:")) {
    path.erase(0, std::string_view("sqlite:").size());
  } else if (path.find("://") != std::string::npos) {
    throw core::UsageError("this version has no ledger on a server: " + core::redact(path),
                           "use a path, sqlite:PATH or none");
  }
  if (path.empty()) {
    throw core::UsageError("--ledger names no file", "a path, sqlite:PATH or none");
  }
  return {LedgerSpec::Kind::sqlite, path, false};
}

LockSpec lock_spec(const Arguments& arguments, const Environment& environment) {
  const std::optional<std::string> text =
      option_or_variable(arguments, "lock", environment, "ONCERUN_LOCK");
  if (!text) {
    return {};
  }
  if (*text == "flock") {
    return {LockSpec::Kind::job_flock, "", true};
  }
  if (*text == "none") {
    return {LockSpec::Kind::none, "", true};
  }
  if (text->starts_with("flock:") && text->size() > std::string_view("flock:").size()) {
    return {LockSpec::Kind::path_flock, text->substr(std::string_view("flock:").size()), true};
  }
  if (lock::is_redis_url(*text)) {
    return {LockSpec::Kind::redis, "", true, lock::parse_redis_url(*text)};
  }
  if (text->find("://") != std::string::npos || *text == "ledger") {
    throw core::UsageError("this version has no such lock: " + core::redact(*text),
                           "use flock, flock:PATH, none or redis://HOST");
  }
  throw core::UsageError("--lock is '" + *text + "'", "flock, flock:PATH, none or redis://HOST");
}

/// The file that a path names, however it is written; the path itself where nothing is there yet.
std::string file_of(const std::string& path) {
  try {
    return os::real_path(path);
  } catch (const core::Error&) {
    return path; // what is wrong with it is said by whoever uses it
  }
}

/// What `read` finds, or what it is without: a wrong spec is said in its turn.
template<typename Spec, typename Read>
Spec if_readable(Spec otherwise, const Read& read) {
  try {
    return read();
  } catch (const core::UsageError&) {
    return otherwise;
  }
}

/// What is named, as far as it can be read.
Stores named_stores(const Arguments& arguments, const Environment& environment) {
  Stores found;
  found.state = arguments.value("state");
  found.ledger = if_readable(LedgerSpec{LedgerSpec::Kind::none, "", false},
                             [&] { return ledger_spec(arguments, environment); });
  found.lock = if_readable(LockSpec{}, [&] { return lock_spec(arguments, environment); });
  return found;
}

} // namespace

Environment::Environment(const char* const* variables) {
  for (const char* const* entry = variables; entry != nullptr && *entry != nullptr; ++entry) {
    m_entries.emplace_back(*entry);
  }
}

const char* Environment::get(std::string_view name) const noexcept {
  for (const std::string& entry : m_entries) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return entry.c_str() + name.size() + 1;
    }
  }
  return nullptr;
}

std::optional<std::string> option_or_variable(const Arguments& arguments, std::string_view option,
                                              const Environment& environment,
                                              std::string_view variable) {
  if (std::optional<std::string> value = arguments.value(option)) {
    return value;
  }
  const bool readable = !environment.inside_run() || variable == "ONCERUN_LEDGER";
  const char* text = readable ? environment.get(variable) : nullptr;
  return text != nullptr && *text != '\0' ? std::optional<std::string>(text) : std::nullopt;
}

void refuse_shared_files(const Arguments& arguments, const Environment& environment) {
  const Stores stores = named_stores(arguments, environment);
  const std::optional<std::string> report = arguments.value("report");
  const bool has_ledger = stores.ledger.kind == LedgerSpec::Kind::sqlite;
  const bool has_lock = stores.lock.kind == LockSpec::Kind::path_flock;
  if (int{has_ledger} + int{has_lock} + int{stores.state.has_value()} + int{report.has_value()} <
      2) {
    return; // the usual case: each path that is looked at costs a system call a component
  }
  std::map<std::string, std::string_view> taken;
  const auto take = [&taken](const std::string& path, std::string_view option) {
    const auto [at, fresh] = taken.emplace(file_of(path), option);
    if (!fresh && at->second != option) {
      throw core::UsageError(std::string(option) + " and " + std::string(at->second) +
                                 " name the same file, " + path,
                             "give each a file of its own");
    }
  };
  if (has_ledger) {
    for (const char* suffix : {"", "-wal", "-shm", "-journal", "-guard", "-life", "-spool"}) {
      take(file_of(stores.ledger.path) + suffix, "--ledger");
    }
  }
  if (stores.state) {
    take(*stores.state, "--state");
    take(file_of(*stores.state) + ".lock", "--state");
  }
  if (has_lock) {
    take(stores.lock.path, "--lock");
  }
  if (report) {
    take(*report, "--report");
  }
}

Stores stores(const Arguments& arguments, const Environment& environment) {
  Stores found;
  found.state = arguments.value("state");
  if (found.state && found.state->empty()) {
    throw core::UsageError("--state names no file", "--state FILE");
  }
  found.ledger = ledger_spec(arguments, environment);
  found.lock = lock_spec(arguments, environment);
  if (found.lock.kind == LockSpec::Kind::redis) {
    found.lease = lease_settings(arguments);
    take_redis_password(arguments, environment, found.lock.redis);
  } else {
    refuse_lease_options(arguments);
  }
  if (const std::optional<std::string> spool = arguments.value("spool")) {
    if (spool->empty()) {
      throw core::UsageError("--spool names no folder", "a folder, or none");
    }
    found.spool = *spool;
  }
  return found;
}

} // namespace oncerun::cli
