// A database that is somebody else's, or a ledger that somebody changed. Input: a letter, and what
// follows: `R` the file's bytes; `F` SQL that builds a foreign database; `L` SQL that changes a
// ledger. The program refuses with an error of its own or works; it never changes what is not its.

#include "fuzz/ledger_folder.hpp"

#include <set>

using namespace oncerun;
using fuzz::require;

namespace {

// No file but this one, no setting that outlives the connection, but those of the file's format.
int allow(void*, int action, const char* first, const char*, const char*, const char*) {
  if (action == SQLITE_ATTACH || action == SQLITE_DETACH || action == SQLITE_CREATE_VTABLE) {
    return SQLITE_DENY;
  }
  if (action == SQLITE_PRAGMA) {
    static const std::set<std::string> s_harmless{
        "user_version", "application_id", "journal_mode",   "page_size",
        "encoding",     "auto_vacuum",    "writable_schema"};
    return s_harmless.contains(first) ? SQLITE_OK : SQLITE_DENY;
  }
  return SQLITE_OK;
}

int give_up(void* steps) {
  return --*static_cast<int*>(steps) < 0 ? 1 : 0;
}

/// Runs the lines one by one, whichever of them work, within limits.
void build(const std::string& path, const std::string& sql) {
  const fuzz::Sqlite database(path);
  sqlite3_exec(database.get(), "PRAGMA max_page_count = 64", nullptr, nullptr, nullptr);
  sqlite3_limit(database.get(), SQLITE_LIMIT_LENGTH, 20'000);
  sqlite3_set_authorizer(database.get(), allow, nullptr);
  int steps = 20;
  sqlite3_progress_handler(database.get(), 500, give_up, &steps);
  for (const std::string& statement : fuzz::split(sql, '\n')) {
    sqlite3_exec(database.get(), statement.c_str(), nullptr, nullptr, nullptr);
  }
  sqlite3_exec(database.get(), "COMMIT", nullptr, nullptr, nullptr);
}

const std::set<std::string>& names_of_ours() {
  static const std::set<std::string> s_names{
      "oncerun_meta",      "oncerun_job",      "oncerun_spool",   "job_run",
      "job_shard",         "job_attempt",      "job_event",       "job_run_pending",
      "job_run_unsettled", "job_attempt_open", "job_attempt_run", "job_event_run"};
  return s_names;
}

/// Every table of a file with its rows, but for those of a ledger unless `ours`.
std::string contents(const std::string& path, bool ours) {
  const fuzz::Sqlite database(path);
  std::string text;
  const std::string names =
      database.query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid");
  for (const std::string& name : fuzz::split(names, '\n')) {
    if (name.empty() || (names_of_ours().contains(name) && !ours)) {
      continue;
    }
    std::string quoted = name;
    for (std::size_t at = 0; (at = quoted.find('"', at)) != std::string::npos; at += 2) {
      quoted.insert(at, "\"");
    }
    text += name + ":" + database.query("SELECT * FROM \"" + quoted + "\" LIMIT 100") + "\n";
  }
  return text;
}

/// Nobody's errors but ours come out, and none that blames the caller or calls it a bug.
template<typename Call>
bool works(Call&& call, core::Outcome* outcome = nullptr) {
  try {
    call();
    return true;
  } catch (const core::Error& error) {
    require(error.outcome() != core::Outcome::internal && error.outcome() != core::Outcome::usage,
            "what is wrong with a file is no bug and no usage", error.what());
    if (outcome != nullptr) {
      *outcome = error.outcome();
    }
    return false;
  }
}

void look_at_everything(const fuzz::Folder& folder) {
  (void)works([&] {
    const auto ledger = fuzz::open(folder);
    (void)works([&] { (void)ledger->look(fuzz::k_run); });
    (void)works([&] { (void)ledger->jobs(); });
    (void)works([&] { (void)ledger->overview({}); });
    (void)works([&] { (void)ledger->attempts({}); });
    (void)works([&] { (void)ledger->events({}); });
    (void)works([&] { (void)ledger->still_mine(fuzz::k_run, "x", {}); });
  });
}

/// Claims and finishes; whether all of it worked.
bool run_once(const fuzz::Folder& folder, core::Guarantee guarantee) {
  return works([&] {
    const auto ledger = fuzz::open(folder);
    auto outcome = fuzz::claim(*ledger, fuzz::k_run, guarantee);
    if (auto* claimed = std::get_if<core::Claimed>(&outcome)) {
      require(claimed->claim->run().serial > 0 && claimed->claim->run().token.value > 0,
              "a claim has a serial and a token");
      core::AttemptResult done;
      done.status = core::RunStatus::done;
      (void)claimed->claim->finish(done, std::chrono::milliseconds(200), fuzz::k_no_stop);
    }
  });
}

void write_everything(const fuzz::Folder& folder) {
  (void)works([&] {
    const auto ledger = fuzz::open(folder);
    (void)works([&] { ledger->set_job(fuzz::k_run.job, "hour", "", "x", fuzz::k_no_stop); });
    (void)works([&] {
      ledger->project(
          fuzz::k_run.job, [](const auto&) {}, fuzz::k_no_stop);
    });
    (void)works([&] {
      core::Settlement ready;
      ready.to = core::RunStatus::ready;
      ready.kind = "resolve";
      (void)ledger->settle(fuzz::k_other, ledger->look(fuzz::k_other), ready, fuzz::k_no_stop);
    });
    (void)works([&] { ledger->accept("x", fuzz::k_no_stop); });
  });
}

void check_foreign(const fuzz::Folder& folder) {
  const std::string before = fuzz::read_file(folder.ledger());
  const std::string tables = contents(folder.ledger(), true);
  look_at_everything(folder);
  require(fuzz::read_file(folder.ledger()) == before, "looking changes no byte of a file");
  if (!run_once(folder, core::Guarantee::cautious)) {
    require(fuzz::read_file(folder.ledger()) == before, "a file that is refused keeps its bytes");
    return;
  }
  const std::string after = contents(folder.ledger(), false);
  require(after == tables, "a ledger beside an application's tables leaves them alone");
}

void check_ledger(const fuzz::Folder& folder) {
  const std::string before = contents(folder.ledger(), true);
  look_at_everything(folder);
  require(contents(folder.ledger(), true) == before, "looking changes no row");
  if (!run_once(folder, core::Guarantee::at_least_once)) {
    require(contents(folder.ledger(), true) == before, "a ledger that is refused keeps its rows");
  }
  write_everything(folder);
}

const fuzz::Files& a_ledger() {
  static core::ClaimedRun s_dead{fuzz::k_run, "", {}, 0, 1, 1, "", "", false};
  static const fuzz::Files s_files = fuzz::ledger_with_a_dead_owner(&s_dead);
  return s_files;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder s_folder;
  if (size < 1) {
    return 0;
  }
  const std::string rest(fuzz::text_of(data + 1, size - 1));
  switch (data[0]) {
  case 'R':
    s_folder.restore({{"led.db", rest}});
    check_foreign(s_folder);
    break;
  case 'F':
    s_folder.restore({});
    build(s_folder.ledger(), rest);
    check_foreign(s_folder);
    break;
  case 'L':
    s_folder.restore(a_ledger());
    build(s_folder.ledger(), rest);
    check_ledger(s_folder);
    break;
  default:
    break;
  }
  return 0;
}
