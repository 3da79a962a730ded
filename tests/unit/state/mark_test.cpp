#include "core/error.hpp"
#include "state/mark.hpp"
#include "support/catch.hpp"

using namespace oncerun;
using Document = core::StateDocument;
using Status = core::StateDocument::Status;
using core::RunStatus;

namespace {

const std::string k_now = "2026-10-28T03:00:00.000Z";

core::BizDate day(int number) {
  return core::BizDate("2026-10-" + std::to_string(number));
}

core::RunKey key(int number) {
  return {core::JobName::parse("settle"), day(number)};
}

core::ClaimRequest request(int number, const std::string& run_id) {
  return {.key = key(number),
          .period = "day",
          .zone = "UTC",
          .run_id = run_id,
          .check_verdict = "",
          .evidence = std::nullopt};
}

const core::OwnerIdentity k_owner{
    .host = "h", .machine_id = "m", .boot_id = "b", .life_id = "l", .pid_namespace = 1, .pid = 2};

Document claimed(const Document& document, int number, const std::string& run_id,
                 bool new_generation = false) {
  return state::with_claim(document, request(number, run_id), core::Token{document.token + 1},
                           new_generation, k_owner, k_now);
}

core::AttemptResult result(RunStatus status) {
  return {.status = status,
          .never_started = false,
          .exit_code = status == RunStatus::done ? 0 : 3,
          .signal = std::nullopt,
          .usage = {},
          .note = "how it ended"};
}

Document ended(const Document& document, int number, RunStatus status) {
  return state::with_result(document, day(number), result(status), k_now);
}

Document run_once(const Document& document, int number, RunStatus status) {
  return ended(claimed(document, number, "run-" + std::to_string(number)), number, status);
}

Document settled(const Document& document, int number, RunStatus to) {
  return state::with_settlement(
      document, key(number),
      {.to = to, .kind = "resolve", .by = "me@here", .detail = "why", .period = "", .zone = ""},
      k_now);
}

/// What the file says of a day: a status, "held" for what is not knowable, "none".
std::string says(const Document& document, int number) {
  if (state::is_not_knowable(document, day(number))) {
    CHECK_FALSE(state::run_of(document, key(number)));
    return "held";
  }
  const std::optional<core::RunRecord> run = state::run_of(document, key(number));
  return run ? std::string(core::name_of(run->status)) : "none";
}

/// The same for the 24th to the 28th.
std::string says_all(const Document& document) {
  std::string text;
  for (int number = 24; number <= 28; ++number) {
    text += (text.empty() ? "" : " ") + says(document, number);
  }
  return text;
}

Document three_fields(int last, Status status, int pending) {
  Document document;
  if (last != 0) {
    document.last_published = day(last);
  }
  document.status = status;
  if (pending != 0) {
    document.pending_date = day(pending);
  }
  return document;
}

} // namespace

TEST_CASE("the three fields of another script") {
  CHECK(says_all(Document{}) == "none none none none none");
  CHECK(says_all(three_fields(26, Status::done, 0)) == "held held done none none");
  CHECK(says_all(three_fields(26, Status::none, 0)) == "held held done none none");
  CHECK(says_all(three_fields(25, Status::pending, 26)) == "held done pending none none");
  CHECK(says_all(three_fields(25, Status::failed, 27)) == "held done none failed none");
  CHECK(says_all(three_fields(25, Status::unknown, 26)) == "held done unknown none none");
  CHECK(says_all(three_fields(25, Status::none, 26)) == "held done unknown none none");
  // As a ledger's projection writes it: the oldest unsettled date beside a newer done one.
  CHECK(says_all(three_fields(27, Status::failed, 25)) == "held failed held done none");
  // A rerun of the newest done date: the mark rules.
  CHECK(says_all(three_fields(26, Status::pending, 26)) == "held held pending none none");
}

TEST_CASE("a script's mark has no attempt and no recorded end") {
  const Document document = three_fields(25, Status::pending, 26);
  const std::optional<core::RunRecord> run = state::run_of(document, key(26));
  REQUIRE(run);
  CHECK(run->run_id.empty());
  CHECK(run->attempts == 0);
  CHECK_FALSE(run->end_recorded);
  CHECK_FALSE(state::attempt_of(document, key(26).job));
  CHECK_FALSE(state::job_of(document, key(26).job));
}

TEST_CASE("a claim is a mark with its owner") {
  const Document document = claimed(three_fields(25, Status::done, 0), 26, "a");
  CHECK(says_all(document) == "held done pending none none");
  CHECK(document.last_published == day(25));
  CHECK(document.status == Status::pending);
  CHECK(document.job == "settle");
  CHECK(document.every == "day");
  CHECK(document.zone == "UTC");
  const std::optional<core::RunRecord> run = state::run_of(document, key(26));
  REQUIRE(run);
  CHECK(run->run_id == "a");
  CHECK(run->token == core::Token{1});
  CHECK(run->serial == 1);
  CHECK(run->attempts == 1);
  CHECK(run->generation == 1);
  CHECK_FALSE(run->end_recorded);
  CHECK(run->started_at == k_now);
  CHECK(run->finished_at.empty());
  const core::OwnerIdentity owner = state::owner_of(document);
  CHECK(owner.life_id == "l");
  CHECK(owner.pid == 2);
  // What it is about is not said of the date before.
  CHECK(state::run_of(document, key(25))->run_id.empty());
}

TEST_CASE("a result moves the last date on, or leaves the mark") {
  const Document first = run_once(Document{}, 26, RunStatus::done);
  CHECK(says_all(first) == "held held done none none");
  CHECK(first.status == Status::done);
  CHECK_FALSE(first.pending_date);
  CHECK(state::run_of(first, key(26))->run_id == "run-26");
  CHECK(state::run_of(first, key(26))->exit_code == 0);
  CHECK(state::run_of(first, key(26))->finished_at == k_now);

  const Document failed = run_once(first, 27, RunStatus::failed);
  CHECK(says_all(failed) == "held held done failed none");
  CHECK(failed.last_published == day(26));
  CHECK(state::run_of(failed, key(27))->exit_code == 3);

  const Document again = claimed(failed, 27, "second");
  CHECK(again.attempts == 2);
  CHECK(again.generation == 1);
  CHECK_FALSE(again.exit_code);
  CHECK(says_all(ended(again, 27, RunStatus::unknown)) == "held held done unknown none");
  CHECK(says_all(ended(again, 27, RunStatus::done)) == "held held held done none");
}

TEST_CASE("never started is told from failed") {
  Document document = claimed(Document{}, 26, "a");
  document = state::with_result(document, day(26),
                                {.status = RunStatus::failed,
                                 .never_started = true,
                                 .exit_code = std::nullopt,
                                 .signal = std::nullopt,
                                 .usage = {},
                                 .note = "no such file"},
                                k_now);
  CHECK(state::run_of(document, key(26))->never_started);
  CHECK_FALSE(state::run_of(claimed(document, 26, "b"), key(26))->never_started);
}

TEST_CASE("a rerun is the next generation, and the last date does not go back") {
  const Document done = run_once(Document{}, 26, RunStatus::done);
  const Document rerun = claimed(done, 26, "again", true);
  CHECK(rerun.generation == 2);
  CHECK(rerun.attempts == 2);
  CHECK(rerun.last_published == day(26));
  CHECK(says(rerun, 26) == "pending");
  CHECK(says(ended(rerun, 26, RunStatus::failed), 26) == "failed");
  CHECK(ended(rerun, 26, RunStatus::failed).last_published == day(26));
  const Document next = run_once(ended(rerun, 26, RunStatus::done), 27, RunStatus::done);
  CHECK(next.generation == 1);
  CHECK(next.attempts == 1);
}

TEST_CASE("a mark on an older date ends without moving the last date") {
  const Document older = run_once(three_fields(27, Status::failed, 25), 25, RunStatus::done);
  CHECK(older.last_published == day(27));
  CHECK(says_all(older) == "held held held done none");
  // The attempt was the 25th's: nothing of it is said of the 27th. Its token stays used up.
  CHECK(state::run_of(older, key(27))->run_id.empty());
  CHECK(older.token == 1);
}

TEST_CASE("an operator settles the mark") {
  const Document doubt = run_once(three_fields(25, Status::done, 0), 26, RunStatus::unknown);
  SECTION("done") {
    const Document document = settled(doubt, 26, RunStatus::done);
    CHECK(says_all(document) == "held held done none none");
    CHECK(document.status == Status::done);
    CHECK(state::run_of(document, key(26))->note == "resolve by me@here: why");
  }
  SECTION("ready") {
    const Document document = settled(doubt, 26, RunStatus::ready);
    CHECK(says_all(document) == "held done ready none none");
    // Other scripts know no "ready".
    CHECK(document.status == Status::unknown);
    CHECK(says(claimed(document, 26, "b"), 26) == "pending");
    CHECK(says(run_once(document, 26, RunStatus::failed), 26) == "failed");
  }
  SECTION("ready after a failure still reads as failed to others") {
    const Document failed = run_once(three_fields(25, Status::done, 0), 26, RunStatus::failed);
    CHECK(settled(failed, 26, RunStatus::ready).status == Status::failed);
  }
  SECTION("skipped") {
    const Document document = settled(doubt, 26, RunStatus::skipped);
    CHECK(says_all(document) == "held done skipped none none");
    CHECK(document.last_published == day(25));
    CHECK(document.status == Status::done);
    // It stays so, whatever becomes of the next date, and is forgotten only as too old.
    CHECK(says_all(claimed(document, 27, "b")) == "held done skipped pending none");
    CHECK(says_all(run_once(document, 27, RunStatus::failed)) == "held done skipped failed none");
    CHECK(says_all(run_once(document, 27, RunStatus::done)) == "held held held done none");
    CHECK_FALSE(run_once(document, 27, RunStatus::done).skipped_date);
  }
  SECTION("undone") {
    Document document = settled(doubt, 26, RunStatus::skipped);
    document = settled(document, 26, RunStatus::ready);
    CHECK(says_all(document) == "held done ready none none");
    document = run_once(document, 26, RunStatus::done);
    CHECK(says_all(document) == "held held done none none");
    document = settled(document, 26, RunStatus::ready);
    CHECK(says_all(document) == "held held ready none none");
    CHECK(document.last_published == day(26));
  }
}

TEST_CASE("an operator settles a date without a mark") {
  const Document done = run_once(Document{}, 25, RunStatus::done);
  CHECK(says_all(settled(done, 27, RunStatus::done)) == "held held held done none");
  CHECK(says_all(settled(done, 27, RunStatus::skipped)) == "held done held skipped none");
  CHECK(says_all(settled(done, 24, RunStatus::ready)) == "ready done none none none");
  CHECK_THROWS_AS(settled(done, 24, RunStatus::done), core::Error);
  CHECK_THROWS_AS(settled(done, 24, RunStatus::skipped), core::Error);
  const Document first = settled(Document{}, 26, RunStatus::skipped);
  CHECK(says_all(first) == "held held skipped none none");
  CHECK(first.status == Status::none);
  CHECK(first.job == "settle");
}

TEST_CASE("another date's mark is never overwritten by a verdict") {
  const Document doubt = run_once(three_fields(25, Status::done, 0), 26, RunStatus::unknown);
  CHECK_THROWS_AS(settled(doubt, 27, RunStatus::ready), core::Error);
  const Document done = settled(doubt, 27, RunStatus::done);
  CHECK(says_all(done) == "held held unknown done none");
  CHECK(done.status == Status::unknown);
  CHECK(done.run_id == "run-26");
  CHECK(says_all(settled(doubt, 28, RunStatus::skipped)) == "held done unknown held skipped");
}

TEST_CASE("what is done is not said to be skipped: one file cannot say both of a date") {
  Document done;
  done.last_published = day(26);
  done.status = Status::done;
  CHECK_THROWS_AS(settled(done, 26, RunStatus::skipped), core::Error);
  // Also while a further generation of it is open.
  const Document again = claimed(done, 26, "b", true);
  CHECK_THROWS_AS(settled(again, 26, RunStatus::skipped), core::Error);
  CHECK(says_all(settled(again, 26, RunStatus::done)) == "held held done none none");
}

TEST_CASE("skipping an older mark leaves it not knowable") {
  const Document older = three_fields(27, Status::failed, 25);
  const Document document = settled(older, 25, RunStatus::skipped);
  CHECK(says_all(document) == "held held held done none");
  CHECK_FALSE(document.skipped_date);
}

TEST_CASE("the newest attempt as history") {
  const Document open = claimed(Document{}, 26, "a");
  const std::optional<core::AttemptRecord> attempt = state::attempt_of(open, key(26).job);
  REQUIRE(attempt);
  CHECK(attempt->key == key(26));
  CHECK(attempt->result.empty());
  CHECK(attempt->ended_at.empty());
  const Document done = ended(open, 26, RunStatus::done);
  CHECK(state::attempt_of(done, key(26).job)->result == "done");
  CHECK(state::attempt_of(done, key(26).job)->ended_at == k_now);
}

TEST_CASE("unknown keys stay through everything") {
  Document document = three_fields(25, Status::done, 0);
  document.unknown_keys = R"({"zeta":1})";
  document = run_once(document, 26, RunStatus::unknown);
  document = settled(document, 26, RunStatus::skipped);
  CHECK(document.unknown_keys == R"({"zeta":1})");
}

TEST_CASE("what a command is told of the attempt before") {
  using namespace core;
  using namespace state;
  CHECK(previous_name(RowState::none) == "none");
  CHECK(previous_name(RowState::failed) == "failed");
  CHECK(previous_name(RowState::never_started) == "never-started");
  CHECK(previous_name(RowState::unknown) == "unknown");
  CHECK(previous_name(RowState::late_success) == "unknown");
  CHECK(previous_name(RowState::pending) == "unknown");
  CHECK(previous_name(RowState::ready) == "ready");
  CHECK(previous_name(RowState::done) == "done");
  CHECK(previous_name(RowState::skipped) == "skipped");
}
