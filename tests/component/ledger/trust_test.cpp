#include "ledger/schema.hpp"
#include "ledger_fixture.hpp"
#include "support/catch.hpp"

#include <fstream>

using namespace oncerun;
using namespace oncerun::test;
using core::Guarantee;
using core::Outcome;
using core::OwnerLife;
using core::Reason;
using core::Recorded;
using core::RowState;
using core::RunStatus;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// Copies the database as a backup does: one consistent file.
void back_up(const std::string& path, const std::string& to) {
  Shell(path).exec("VACUUM INTO '" + to + "'");
}

void restore(const std::string& from, const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(path + suffix);
  }
  std::filesystem::copy_file(from, path);
}

} // namespace

TEST_CASE("a restored copy is refused until it is accepted") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto yesterday = key("settle", "2026-10-25");
  const auto today = key("settle", "2026-10-26");
  core::Token newest{0};
  {
    const auto ledger = open(path);
    REQUIRE(run_once(*ledger, yesterday));
    back_up(path, folder / "copy");
    const auto claimed = claim(*ledger, request(today));
    newest = claimed->run().token;
    REQUIRE(finish(*claimed, ended(RunStatus::done, 0)) == Recorded::recorded);
  }
  restore(folder / "copy", path);
  const auto ledger = open(path);
  CHECK(ledger->look(yesterday).row() == RowState::done);
  std::string message;
  CHECK(outcome_of([&] { (void)claim(*ledger, request(today)); }, &message) == Outcome::config);
  CHECK(message.find("restored") != std::string::npos);
  CHECK(status_in(path, today).empty());

  ledger->accept("op@host", k_no_stop);
  const auto claimed = claim(*ledger, request(today));
  REQUIRE(claimed);
  CHECK(claimed->run().token > newest);
  CHECK(claimed->run().serial > 1'000'000);
  CHECK(Shell(path).query("SELECT kind, by FROM job_event") == "ledger-accept|op@host");
}

TEST_CASE("a ledger that is gone is a restored copy too") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-25")));
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(path + suffix);
  }
  const auto ledger = open(path);
  CHECK(outcome_of([&] { (void)claim(*ledger, request(key("settle", "2026-10-25"))); }) ==
        Outcome::config);
  ledger->accept("op@host", k_no_stop);
  CHECK(run_once(*ledger, key("settle", "2026-10-26")));
}

TEST_CASE("what cannot be proven is held: another liveness file, another machine, another boot") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  leave_dead_claim(path, request(run));
  auto ledger = open(path);
  REQUIRE(ledger->look(run).owner == OwnerLife::dead);
  // A passive connection makes the shared memory read-only for all others of its process.
  ledger.reset();

  SECTION("the liveness file was deleted") {
    std::filesystem::remove(path + "-life");
    ledger = open(path);
    CHECK(ledger->look(run).owner == OwnerLife::not_provable);
    CHECK_FALSE(claim(*ledger, request(run), Guarantee::at_least_once));
    CHECK(status_in(path, run) == "pending");
    // A new file with a new id changes nothing about that.
    REQUIRE(run_once(*ledger, key("other", "2026-10-26")));
    CHECK(ledger->look(run).owner == OwnerLife::not_provable);
    core::Settlement settled{
        .to = RunStatus::done, .kind = "resolve", .by = {}, .detail = {}, .period = {}, .zone = {}};
    CHECK(ledger->settle(run, ledger->look(run), settled, k_no_stop));
    CHECK(ledger->look(run).owner == OwnerLife::settled);
  }
  SECTION("the row comes from another machine") {
    Shell(path).exec("UPDATE job_attempt SET machine_id = 'other', boot_id = 'other'");
    ledger = open(path);
    CHECK(ledger->look(run).owner == OwnerLife::not_provable);
    CHECK_FALSE(claim(*ledger, request(run), Guarantee::at_least_once));
  }
  SECTION("the machine was started anew") {
    if (os::this_process().machine_id.empty()) {
      Shell(path).exec("UPDATE job_attempt SET boot_id = 'before'");
      ledger = open(path);
      CHECK(ledger->look(run).owner == OwnerLife::not_provable);
    } else {
      Shell(path).exec("UPDATE job_attempt SET boot_id = 'before', life_id = 'before'");
      ledger = open(path);
      CHECK(ledger->look(run).owner == OwnerLife::dead);
      CHECK(claim(*ledger, request(run), Guarantee::at_least_once));
    }
  }
}

TEST_CASE("a live owner is safe when the liveness file is deleted in mid-run") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  const auto mine = open(path);
  const auto held = claim(*mine, request(run));
  std::filesystem::remove(path + "-life");
  Child other([&] {
    const auto theirs = open(path);
    return claim(*theirs, request(run), Guarantee::at_least_once) ? 1 : 0;
  });
  CHECK(other.wait() == 0);
  CHECK(finish(*held, ended(RunStatus::done, 0)) == Recorded::recorded);
}

TEST_CASE("a ledger that is replaced in mid-run does not take the result in silence") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  const auto held = claim(*ledger, request(key("settle", "2026-10-26")));
  std::filesystem::rename(path, folder / "moved");
  CHECK(outcome_of([&] { (void)finish(*held, ended(RunStatus::done, 0)); }) ==
        Outcome::unavailable);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(held->spool(ended(RunStatus::done, 0)) == path + "-spool");
}

TEST_CASE("a log that is removed in mid-run does not take the result in silence") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  const auto held = claim(*ledger, request(key("settle", "2026-10-26")));
  std::filesystem::remove(path + "-wal");
  CHECK(outcome_of([&] { (void)finish(*held, ended(RunStatus::done, 0)); }) ==
        Outcome::unavailable);
  CHECK(held->spool(ended(RunStatus::done, 0)) == path + "-spool");
}

TEST_CASE("a look rolls back what a process that died in the middle of a change left") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-26")));
  // Copied in mid-change, without a write-ahead log: SQLite calls that a hot journal.
  const std::string copy = folder / "copy.db";
  {
    Shell shell(path);
    shell.exec(
        "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN IMMEDIATE;"
        "UPDATE job_run SET status = 'failed';"
        "CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM "
        "n WHERE i < 500) SELECT i, hex(randomblob(500)) FROM n");
    for (const char* suffix : {"", "-journal"}) {
      std::filesystem::copy_file(path + suffix, copy + suffix);
    }
    shell.exec("ROLLBACK");
  }
  REQUIRE(std::filesystem::file_size(copy) > std::filesystem::file_size(path));
  CHECK(open(copy)->look(key("settle", "2026-10-26")).row() == RowState::done);
  CHECK(Shell(copy).query("SELECT count(*) FROM sqlite_schema WHERE name = 'filler'") == "0");
}

TEST_CASE("a ledger opened through a symbolic link uses the same files") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const std::string link = folder / "link.db";
  std::filesystem::create_symlink(path, link);
  const auto run = key("settle", "2026-10-26");
  const auto through_link = open(link);
  CHECK(through_link->describe() ==
        "sqlite:" + std::filesystem::canonical(folder.path()).string() + "/led.db");
  const auto held = claim(*through_link, request(run));
  REQUIRE(held);
  CHECK(std::filesystem::is_symlink(link));
  CHECK_FALSE(std::filesystem::exists(link + "-life"));
  Child other([&] {
    const auto direct = open(path);
    return direct->look(run).owner == OwnerLife::alive && !claim(*direct, request(run)) ? 0 : 1;
  });
  CHECK(other.wait() == 0);
}

TEST_CASE("the state file of a job not known yet is evidence, taken in once") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  core::StateDocument state;
  state.last_published = core::BizDate("2026-10-26");
  const auto asked = [&](const std::string& date) {
    auto all = request(key("settle", date));
    all.evidence = state;
    return all;
  };
  const auto decision = [&](const core::ClaimRequest& request) {
    auto outcome = ledger->claim(k_no_lock, request, by(Guarantee::at_least_once), k_no_stop);
    return std::holds_alternative<core::NotClaimed>(outcome)
               ? std::get<core::NotClaimed>(outcome).decision.reason
               : Reason::first_time;
  };

  SECTION("the published date is done, earlier ones are held, later ones run; in any order") {
    const int order = GENERATE(0, 1, 2);
    for (int i = 0; i < 3; ++i) {
      switch ((order + i) % 3) {
      case 0:
        CHECK(decision(asked("2026-10-26")) == Reason::already_done);
        break;
      case 1:
        CHECK(decision(asked("2026-10-25")) == Reason::below_floor);
        break;
      default:
        CHECK(decision(asked("2026-10-27")) == Reason::first_time);
      }
    }
    CHECK(Shell(path).query("SELECT floor FROM oncerun_job") == "2026-10-26");
    CHECK(Shell(path).query("SELECT to_status FROM job_event WHERE kind = 'import'") == "done");
    CHECK(status_in(path, key("settle", "2026-10-25")).empty());
  }
  SECTION("a pending mark is unknown") {
    state.pending_date = core::BizDate("2026-10-27");
    state.status = core::StateDocument::Status::pending;
    auto outcome =
        ledger->claim(k_no_lock, asked("2026-10-27"), by(Guarantee::cautious), k_no_stop);
    REQUIRE(std::holds_alternative<core::NotClaimed>(outcome));
    CHECK(std::get<core::NotClaimed>(outcome).sighting.row() == RowState::unknown);
    CHECK(status_in(path, key("settle", "2026-10-27")) == "unknown");
    state.pending_date = core::BizDate("2026-10-28");
    CHECK(decision(asked("2026-10-29")) == Reason::first_time);
    CHECK(status_in(path, key("settle", "2026-10-28")).empty());
  }
  SECTION("a mark that a script left behind means nothing") {
    state.pending_date = core::BizDate("2026-10-26");
    state.status = core::StateDocument::Status::done;
    CHECK(decision(asked("2026-10-26")) == Reason::already_done);
    CHECK(Shell(path).query("SELECT count(*) FROM job_run") == "1");
  }
  SECTION("one that cannot be read is a hold that writes nothing") {
    auto unreadable = request(key("settle", "2026-10-27"));
    unreadable.evidence_unreadable = true;
    CHECK(decision(unreadable) == Reason::evidence_unreadable);
    CHECK(Shell(path).query("SELECT count(*) FROM sqlite_schema") == "0");
    // A job that is known needs no evidence.
    CHECK(decision(asked("2026-10-27")) == Reason::first_time);
    CHECK(decision(unreadable) != Reason::evidence_unreadable);
  }
}

TEST_CASE("the first claim fixes period and zone until the job is set anew") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto ledger = open(path);
  const auto run = key("settle", "2026-10-26");
  auto held = claim(*ledger, request(run));
  auto other = request(key("settle", "2026-10-27"));
  other.zone = "Europe/Berlin";
  std::string message;
  CHECK(outcome_of([&] { (void)claim(*ledger, other); }, &message) == Outcome::config);
  CHECK(message.find("UTC") != std::string::npos);
  CHECK(message.find("Europe/Berlin") != std::string::npos);
  CHECK(outcome_of([&] { ledger->set_job(run.job, "", "Europe/Berlin", "op@host", k_no_stop); }) ==
        Outcome::config); // a run is open
  REQUIRE(finish(*held, ended(RunStatus::done, 0)) == Recorded::recorded);
  ledger->set_job(run.job, "", "Europe/Berlin", "op@host", k_no_stop);
  CHECK(claim(*ledger, other));
  other = request(key("settle", "2026-10-28"));
  other.zone = "Europe/Berlin";
  other.period = "hour";
  CHECK(outcome_of([&] { (void)claim(*ledger, other); }) == Outcome::config);
  CHECK(outcome_of([&] {
          ledger->set_job(core::JobName::parse("nobody"), "day", "", "op@host", k_no_stop);
        }) == Outcome::config);
  CHECK(ledger->events({}).front().kind == "job-set");
}

TEST_CASE("a newer schema is refused and never changed") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-26")));
  Shell(path).exec("UPDATE oncerun_meta SET schema_version = 99; PRAGMA wal_checkpoint(TRUNCATE)");
  const std::string before = bytes_of(path);
  const auto ledger = open(path);
  std::string message;
  CHECK(outcome_of([&] { (void)ledger->look(key("settle", "2026-10-26")); }, &message) ==
        Outcome::config);
  CHECK(message.find("99") != std::string::npos);
  CHECK(outcome_of([&] { (void)claim(*ledger, request(key("settle", "2026-10-27"))); }) ==
        Outcome::config);
  CHECK(outcome_of([&] { (void)ledger->overview(std::nullopt); }) == Outcome::config);
  CHECK(bytes_of(path) == before);
}

TEST_CASE("migrations run in one transaction, in order, from where the ledger stands") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-26")));
  const ledger::Migration steps[] = {{2, "ALTER TABLE oncerun_job ADD COLUMN two TEXT"},
                                     {3, "ALTER TABLE oncerun_job RENAME COLUMN two TO three"}};
  auto database = ledger::Database::open(path, ledger::Database::Access::read_write);
  {
    ledger::Transaction transaction(database);
    ledger::ensure_schema(database, 2, steps);
    CHECK(ledger::schema_version(database) == 2);
  }
  CHECK(ledger::schema_version(database) == 1); // not committed
  {
    ledger::Transaction transaction(database);
    ledger::ensure_schema(database, 3, steps);
    transaction.commit();
  }
  CHECK(ledger::schema_version(database) == 3);
  CHECK(Shell(path).query("SELECT count(three) FROM oncerun_job") == "0");
  CHECK(outcome_of([&] { ledger::ensure_schema(database, 2, steps); }) == Outcome::config);
}

TEST_CASE("the ledger may live in an application's database, but never over its tables") {
  const TemporaryFolder folder;
  const std::string path = folder / "app.db";
  SECTION("beside foreign tables") {
    Shell(path).exec("PRAGMA user_version = 42; CREATE TABLE orders (id INTEGER PRIMARY KEY);"
                     "INSERT INTO orders VALUES (7)");
    CHECK(run_once(*open(path), key("settle", "2026-10-26")));
    CHECK(Shell(path).query("SELECT id FROM orders; PRAGMA user_version") == "7\n42");
  }
  SECTION("a foreign table with one of our names") {
    const std::string table = GENERATE("job_run", "Job_Event", "oncerun_meta");
    Shell(path).exec("CREATE TABLE " + table + " (id INTEGER PRIMARY KEY)");
    const auto ledger = open(path);
    std::string message;
    CHECK(outcome_of([&] { (void)claim(*ledger, request(key("settle", "2026-10-26"))); },
                     &message) == Outcome::config);
    CHECK(message.find(table) != std::string::npos);
    CHECK(Shell(path).query("SELECT name FROM sqlite_schema") == table);
  }
}

TEST_CASE("what is no ledger, or cannot be one, is refused") {
  const TemporaryFolder folder;
  const auto run = key("settle", "2026-10-26");
  const auto refused = [&](const std::string& path) {
    return outcome_of([&] {
      const auto ledger = open(path);
      (void)ledger->look(run);
      (void)claim(*ledger, request(run));
    });
  };
  CHECK(refused(folder.path()) == Outcome::config);
  write_file(folder / "text", std::string(5000, 'x'));
  CHECK(refused(folder / "text") == Outcome::config);
  CHECK(bytes_of(folder / "text") == std::string(5000, 'x'));
  write_file(folder / "one", "");
  std::filesystem::create_hard_link(folder / "one", folder / "two");
  CHECK(refused(folder / "two") == Outcome::config);
  CHECK(refused(folder / "text/led.db") != Outcome::done);
  if (::geteuid() == 0) {
    const std::string planted = folder / "planted.db";
    std::filesystem::create_symlink(folder / "led.db", planted);
    REQUIRE(::lchown(planted.c_str(), 65534, 65534) == 0);
    CHECK(refused(planted) == Outcome::config);
    CHECK_FALSE(std::filesystem::exists(folder / "led.db"));
  } else {
    WARN("not root: a link of another user cannot be made");
  }
  // Commands that only look make nothing.
  const auto looking = open(folder / "none.db", true);
  CHECK_FALSE(looking->look(run).job);
  CHECK(looking->jobs().empty());
  CHECK(looking->overview(std::nullopt).empty());
  CHECK(looking->attempts({}).empty());
  CHECK(outcome_of([&] { looking->accept("op@host", k_no_stop); }) == Outcome::config);
  CHECK_FALSE(std::filesystem::exists(folder / "none.db"));
}
