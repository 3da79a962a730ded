#include "ledger_fixture.hpp"
#include "support/catch.hpp"

#include <sys/syscall.h>

using namespace oncerun;
using namespace oncerun::test;
using core::Outcome;
using core::RunStatus;

namespace {

int g_reads = 0;

/// What is read from the ledger's files, by a ledger that has read nothing yet.
template<typename Action>
int reads_of(const std::string& path, Action&& action) {
  const auto ledger = open(path, true);
  g_reads = 0;
  action(*ledger);
  return g_reads;
}

/// 20000 runs of long ago, and their attempts, fill some thousand pages.
void fill(const std::string& path, const std::string& job, const std::string& status) {
  Shell shell(path);
  shell.exec("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
             "INSERT INTO job_run (job_name, biz_date, status, run_id, updated_at) "
             "SELECT '" +
             job + "', '1970-' || i, '" + status +
             "', hex(randomblob(18)), '1970-01-01T00:00:00Z' FROM n");
  shell.exec("INSERT INTO job_attempt (serial, run_id, job_name, biz_date, generation, number, "
             "fencing_token, guarantee, previous, host, machine_id, boot_id, life_id, pid_ns, pid, "
             "claimed_at, ended_at, ended_by, result) "
             "SELECT max(1000000, (SELECT max(serial) FROM job_attempt)) + row_number() OVER (), "
             "run_id, job_name, biz_date, 1, 1, 1, 'cautious', 'none', '', '', '', '', 0, 0, "
             "updated_at, updated_at, 'owner', status FROM job_run WHERE serial = 0 "
             "AND job_name = '" +
             job + "'");
}

} // namespace

/// In place of the C library's, for this test program: SQLite reads by it.
extern "C" ssize_t pread64(int fd, void* buffer, std::size_t size, off64_t offset) {
  ++g_reads;
  return syscall(SYS_pread64, fd, buffer, size, offset);
}

TEST_CASE("what is asked of a job whose history is long reads a few pages of it") {
  constexpr int k_few = 60;
  const TemporaryFolder folder;
  const std::string path = folder / "led.db";
  const auto job = core::JobName::parse("settle");
  const auto failed = claim(*open(path), request(key("settle", "2026-10-24")));
  REQUIRE(finish(*failed, ended(RunStatus::failed, 3)) == core::Recorded::recorded);
  REQUIRE(run_once(*open(path), key("settle", "2026-10-25")));
  REQUIRE(run_once(*open(path), key("other", "2026-10-25")));
  fill(path, "settle", "done");
  fill(path, "other", "done");
  CHECK(reads_of(path, [&](core::Ledger& ledger) {
          CHECK(ledger.overview(std::nullopt).size() == 3);
        }) < k_few);

  // Nor does it matter how much of other jobs is unsettled.
  REQUIRE(run_once(*open(path), key("neglected", "2026-10-25")));
  fill(path, "neglected", "failed");
  CHECK(reads_of(path, [&](core::Ledger& ledger) { CHECK(ledger.overview(job).size() == 2); }) <
        k_few);
  CHECK(reads_of(path, [&](core::Ledger& ledger) {
          ledger.set_job(job, "", "Europe/Berlin", "a test", k_no_stop);
        }) < k_few);
  leave_dead_claim(path, [&] {
    auto asked = request(key("settle", "2026-10-26"));
    asked.zone = "Europe/Berlin";
    return asked;
  }());
  CHECK(reads_of(path, [&](core::Ledger& ledger) {
          CHECK(outcome_of([&] { ledger.set_job(job, "", "UTC", "a test", k_no_stop); }) ==
                Outcome::config);
        }) < k_few);
}
