#include "ledger_fixture.hpp"
#include "support/catch.hpp"

#include <fstream>

using namespace oncerun;
using namespace oncerun::test;
using core::Outcome;
using core::RunStatus;

namespace {

const std::string k_most = "9223372036854775807";

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Every row that decides something, as another program reads it.
std::string rows_of(const std::string& path) {
  Shell shell(path);
  return shell.query("SELECT * FROM oncerun_meta") + shell.query("SELECT * FROM oncerun_job") +
         shell.query("SELECT * FROM job_attempt");
}

} // namespace

TEST_CASE("a ledger that somebody changed by hand is refused as damaged, and nothing starts") {
  const auto [what, sql, says] = GENERATE(table<std::string, std::string, std::string>({
      {"a serial beyond all counting", "UPDATE oncerun_meta SET last_serial = " + k_most, k_most},
      {"a negative serial", "UPDATE oncerun_meta SET last_serial = -1", "-1"},
      {"a token beyond all counting", "UPDATE oncerun_meta SET last_token = " + k_most, k_most},
      {"a job's token", "UPDATE oncerun_job SET last_token = " + k_most, k_most},
      {"attempts", "UPDATE job_run SET attempts = 2147483647", "2147483647"},
      {"generations", "UPDATE job_run SET generation = " + k_most, k_most},
      {"a run's serial", "UPDATE job_run SET serial = " + k_most, k_most},
      {"a version of another size", "UPDATE oncerun_meta SET schema_version = 4294967297", "newer"},
      {"a trigger that refuses",
       "CREATE TRIGGER t BEFORE UPDATE ON job_run BEGIN SELECT RAISE(ABORT, 'not here'); END",
       "not here"},
      {"a trigger that undoes",
       "CREATE TRIGGER t BEFORE UPDATE ON job_run BEGIN SELECT RAISE(IGNORE); END",
       "changed no row"},
  }));
  INFO(what);
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto run = key("settle", "2026-10-26");
  leave_dead_claim(path, request(run));
  Shell(path).exec(sql);
  const std::string before = rows_of(path);
  std::string message;
  CHECK(outcome_of(
            [&] {
              const auto ledger = open(path);
              (void)claim(*ledger, request(run), core::Guarantee::at_least_once);
            },
            &message) == Outcome::config);
  CHECK(message.find(says) != std::string::npos);
  CHECK(message.find(path) != std::string::npos);
  CHECK(rows_of(path) == before);
}

TEST_CASE("a name that no job has makes its rows unreadable, not the command line wrong") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-26")));
  for (const char* table : {"oncerun_job", "job_run", "job_attempt"}) {
    Shell(path).exec("UPDATE " + std::string(table) +
                     " SET job_name = 'two' || char(10) || 'lines'");
  }
  const auto ledger = open(path, true);
  CHECK(outcome_of([&] { (void)ledger->jobs(); }) == Outcome::config);
  CHECK(outcome_of([&] { (void)ledger->overview({}); }) == Outcome::config);
  CHECK(outcome_of([&] { (void)ledger->attempts({}); }) == Outcome::config);
  // Another job is nobody's business.
  CHECK(run_once(*ledger, key("other", "2026-10-26")));
}

TEST_CASE("a table that is gone is a damaged ledger") {
  const char* table = GENERATE("oncerun_job", "oncerun_spool", "job_run", "job_attempt");
  INFO(table);
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  REQUIRE(run_once(*open(path), key("settle", "2026-10-26")));
  Shell(path).exec("ALTER TABLE " + std::string(table) + " RENAME TO moved");
  const auto ledger = open(path);
  CHECK(outcome_of([&] { (void)claim(*ledger, request(key("settle", "2026-10-27"))); }) ==
        Outcome::config);
  CHECK(outcome_of([&] { (void)ledger->overview({}); }) != Outcome::internal);
  CHECK(outcome_of([&] { (void)ledger->attempts({}); }) != Outcome::internal);
}

TEST_CASE("a file that calls itself a ledger and is none keeps its bytes") {
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  Shell(path).exec("CREATE TABLE oncerun_meta (id, schema_version);"
                   "INSERT INTO oncerun_meta VALUES (1, 1)");
  const std::string before = bytes_of(path);
  CHECK(outcome_of([&] { (void)claim(*open(path), request(key("settle", "2026-10-26"))); }) ==
        Outcome::config);
  CHECK(bytes_of(path) == before);
}
