#include "core/error.hpp"
#include "state/null_ledger.hpp"
#include "state/state_ledger.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <functional>
#include <iostream>

using namespace oncerun;
using namespace std::chrono_literals;
using core::OwnerLife;
using core::RunStatus;
using test::Forked;
using test::Pipe;
using test::Scratch;
using Names = std::vector<std::string>;

namespace {

const core::NoStopRequest k_no_stop;

core::RunKey key(int day) {
  return {core::JobName::parse("settle"), core::BizDate("2026-10-" + std::to_string(day))};
}

core::ClaimRequest request(int day, const std::string& run_id) {
  return {.key = key(day),
          .period = "day",
          .zone = "UTC",
          .run_id = run_id,
          .check_verdict = "",
          .evidence = std::nullopt};
}

std::unique_ptr<state::StateLedger> open_ledger(const Scratch& folder) {
  return state::open_state_ledger(folder / "st.json", [](const core::BizDate& date) {
    return date.label().size() == 10 && date.label() <= "2026-10-28";
  });
}

core::Decision by_table(const core::Sighting& seen) {
  return core::decide({.row = seen.row(),
                       .owner = seen.owner,
                       .at_or_below_floor = seen.at_or_below_floor,
                       .guarantee = core::Guarantee::at_least_once});
}

/// One process as the pipeline has it: a ledger and, while it runs, the job's lock.
struct Runner {
  explicit Runner(const Scratch& folder)
      : ledger(open_ledger(folder)), lock(ledger->state_lock()) {}

  [[nodiscard]] bool take(std::chrono::milliseconds wait = 0ms) {
    held = lock->acquire(key(26), wait, k_no_stop);
    return held != nullptr;
  }
  [[nodiscard]] core::ClaimOutcome claim(int day, const std::string& run_id,
                                         const core::Decider& decide = by_table) {
    return ledger->claim(*held, request(day, run_id), decide, k_no_stop);
  }
  /// Must succeed.
  [[nodiscard]] std::unique_ptr<core::Claim> claimed(int day, const std::string& run_id) {
    core::ClaimOutcome outcome = claim(day, run_id);
    REQUIRE(std::holds_alternative<core::Claimed>(outcome));
    return std::move(std::get<core::Claimed>(outcome).claim);
  }
  void run(int day, const std::string& run_id, RunStatus status) {
    REQUIRE(take(10s));
    CHECK(finish(*claimed(day, run_id), status) == core::Recorded::recorded);
    held->release();
  }
  static core::Recorded finish(core::Claim& claim, RunStatus status) {
    return claim.finish({.status = status,
                         .never_started = false,
                         .exit_code = status == RunStatus::done ? 0 : 3,
                         .signal = std::nullopt,
                         .usage = {},
                         .note = ""},
                        0ms, k_no_stop);
  }
  [[nodiscard]] bool settle(int day, RunStatus to) {
    return ledger->settle(
        key(day), ledger->look(key(day)),
        {.to = to, .kind = "resolve", .by = "me", .detail = "", .period = "", .zone = ""},
        k_no_stop);
  }

  std::unique_ptr<state::StateLedger> ledger;
  std::unique_ptr<core::Lock> lock;
  std::unique_ptr<core::HeldLock> held;
};

std::string says(core::Ledger& ledger, int day) {
  const core::Sighting seen = ledger.look(key(day));
  const std::string row = seen.run ? std::string(core::name_of(seen.run->status))
                                   : (seen.at_or_below_floor ? "not knowable" : "none");
  return row + ", " + std::string(core::name_of(seen.owner));
}

template<typename Action>
std::string refusal_of(Action&& action, core::Outcome outcome) {
  try {
    action();
  } catch (const core::Error& error) {
    CHECK(core::name_of(error.outcome()) == core::name_of(outcome));
    CHECK_FALSE(error.hint().empty());
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A lock that keeps nobody out.
class NoLock final : public core::HeldLock {
 public:
  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  [[nodiscard]] bool covers_job() const noexcept override { return false; }
  void release() noexcept override {}
};

std::unique_ptr<core::HeldLock> lock_for_test() {
  return std::make_unique<NoLock>();
}

/// A process that claims `day` and is then killed, having started a command that outlives it until
/// it is told to end.
class KilledOwner {
 public:
  KilledOwner(const Scratch& folder, int day, bool with_command)
      : m_owner([&, day, with_command] {
          Runner runner(folder);
          if (!runner.take()) {
            return 1;
          }
          const auto claim = runner.claimed(day, "killed");
          if (with_command && fork() == 0) {
            // As execve does: the command keeps the descriptors handed to it and no others.
            const int kept[] = {runner.held->inherited_fd(), claim->inherited_fd(), m_end.read_fd(),
                                m_gone.write_fd(), m_ready.write_fd()};
            for (int fd = 3; fd < 256; ++fd) {
              if (std::find(std::begin(kept), std::end(kept), fd) == std::end(kept)) {
                close(fd);
              }
            }
            m_ready.tell();
            char byte = 0;
            (void)!read(m_end.read_fd(), &byte, 1);
            _exit(0);
          }
          if (!with_command) {
            m_ready.tell();
          }
          (void)pause();
          return 0;
        }) {
    REQUIRE(m_ready.wait());
    m_pid = m_owner.pid();
  }
  [[nodiscard]] pid_t pid() const noexcept { return m_pid; }
  void kill() { CHECK(m_owner.kill() == -SIGKILL); }
  void end_command() {
    m_end.tell();
    CHECK_FALSE(m_gone.wait());
  }

 private:
  Pipe m_ready;
  Pipe m_end;
  Pipe m_gone; ///< ends with the last process of the tree
  Forked m_owner;
  pid_t m_pid = 0;
};

} // namespace

TEST_CASE("a date is claimed, done, and then left alone") {
  const Scratch folder;
  Runner runner(folder);
  CHECK(says(*runner.ledger, 26) == "none, settled");
  CHECK(test::names_in(folder.path()).empty()); // looking makes nothing
  REQUIRE(runner.take());
  {
    const auto claim = runner.claimed(26, "a");
    CHECK(claim->run().number == 1);
    CHECK(claim->run().generation == 1);
    CHECK(claim->run().previous == "none");
    CHECK(claim->run().first_of_job);
    CHECK(claim->run().ledger ==
          "state:" + std::filesystem::canonical(folder / "st.json").string());
    CHECK(claim->inherited_fd() >= 3);
    CHECK(says(*open_ledger(folder), 26) == "pending, alive");
    CHECK(open_ledger(folder)->still_mine(key(26), "a", claim->run().token));
    CHECK_FALSE(open_ledger(folder)->still_mine(key(26), "b", claim->run().token));
    CHECK(Runner::finish(*claim, RunStatus::done) == core::Recorded::recorded);
    CHECK_FALSE(open_ledger(folder)->still_mine(key(26), "a", claim->run().token));
  }
  runner.held->release();
  CHECK(says(*runner.ledger, 26) == "done, settled");
  CHECK(says(*runner.ledger, 25) == "not knowable, settled");
  CHECK(says(*runner.ledger, 27) == "none, settled");
  CHECK(test::names_in(folder.path()) == Names{"st.json", "st.json.lock"});
  CHECK((test::status_of(folder / "st.json").st_mode & 07777) == 0600);
  CHECK((test::status_of(folder / "st.json.lock").st_mode & 07777) == 0600);
  REQUIRE(runner.take());
  CHECK(std::get<core::NotClaimed>(runner.claim(26, "b")).decision.action == core::Action::leave);
  CHECK(std::get<core::NotClaimed>(runner.claim(25, "b")).decision.action == core::Action::hold);
}

TEST_CASE("a look at a date changes nothing") {
  const Scratch folder;
  Runner(folder).run(26, "a", RunStatus::done);
  const struct stat state_before = test::status_of(folder / "st.json");
  const struct stat lock_before = test::status_of(folder / "st.json.lock");
  const std::string text = test::read_text(folder / "st.json");
  for (int day = 25; day <= 27; ++day) {
    (void)open_ledger(folder)->look(key(day));
  }
  CHECK(test::read_text(folder / "st.json") == text);
  CHECK(test::status_of(folder / "st.json").st_ino == state_before.st_ino);
  CHECK(test::status_of(folder / "st.json").st_mtim.tv_nsec == state_before.st_mtim.tv_nsec);
  CHECK(test::status_of(folder / "st.json.lock").st_mtim.tv_nsec == lock_before.st_mtim.tv_nsec);
}

TEST_CASE("only one at a time claims, and all others know why not") {
  const Scratch folder;
  Runner owner(folder);
  REQUIRE(owner.take());
  const auto claim = owner.claimed(26, "a");
  Runner other(folder);
  CHECK_FALSE(other.take());
  CHECK(other.lock->is_held());
  REQUIRE(other.lock->holder());
  CHECK(other.lock->holder()->date == "2026-10-26");
  CHECK(other.lock->holder()->pid == getpid());
  // Under a lock of another kind the same is found out from the mark.
  other.held = owner.lock->acquire(key(26), 0ms, k_no_stop);
  CHECK_FALSE(other.held);
  const std::string text = test::read_text(folder / "st.json");
  const core::ClaimOutcome same =
      other.ledger->claim(*owner.held, request(26, "b"), by_table, k_no_stop);
  CHECK(std::get<core::NotClaimed>(same).decision.action == core::Action::busy);
  const core::ClaimOutcome next =
      other.ledger->claim(*owner.held, request(27, "b"), by_table, k_no_stop);
  CHECK(std::get<core::OtherDateLives>(next).run.key == key(26));
  CHECK(std::get<core::OtherDateLives>(next).owner == OwnerLife::alive);
  CHECK(contains(refusal_of([&] { (void)other.settle(26, RunStatus::done); }, core::Outcome::busy),
                 folder / "st.json.lock"));
  CHECK(test::read_text(folder / "st.json") == text);
}

TEST_CASE("of many that start at once one runs") {
  const Scratch folder;
  std::vector<std::unique_ptr<Forked>> starts;
  for (int i = 0; i < 12; ++i) {
    starts.push_back(std::make_unique<Forked>([&, i] {
      Runner runner(folder);
      if (!runner.take(60s)) {
        return 2;
      }
      core::ClaimOutcome outcome = runner.claim(26, "run-" + std::to_string(i));
      if (auto* claimed = std::get_if<core::Claimed>(&outcome)) {
        return Runner::finish(*claimed->claim, RunStatus::done) == core::Recorded::recorded ? 1 : 2;
      }
      return std::get<core::NotClaimed>(outcome).decision.action == core::Action::leave ? 0 : 2;
    }));
  }
  int runs = 0;
  for (const auto& start : starts) {
    const int code = start->wait();
    CHECK(code <= 1);
    runs += code;
  }
  CHECK(runs == 1);
}

TEST_CASE("a killed owner is dead, its living command an orphan that keeps the job locked") {
  const Scratch folder;
  const bool with_command = GENERATE(true, false);
  KilledOwner owner(folder, 26, with_command);
  const core::Sighting before = open_ledger(folder)->look(key(26));
  CHECK(before.owner == OwnerLife::alive);
  CHECK(before.pids == std::vector<pid_t>{owner.pid()});
  owner.kill();
  Runner next(folder);
  if (with_command) {
    CHECK(says(*next.ledger, 26) == "pending, orphaned");
    CHECK(next.ledger->look(key(26)).pids.size() == 1);
    CHECK_FALSE(next.take());
    REQUIRE(next.lock->holder());
    CHECK(next.lock->holder()->pid == owner.pid());
    owner.end_command();
  }
  CHECK(says(*next.ledger, 26) == "pending, dead");
  const std::string text = test::read_text(folder / "st.json");
  REQUIRE(next.take());
  const core::ClaimOutcome held = next.claim(26, "b", [](const core::Sighting& seen) {
    return core::decide({.row = seen.row(), .owner = seen.owner});
  });
  CHECK(std::get<core::NotClaimed>(held).decision.action == core::Action::hold);
  CHECK(test::read_text(folder / "st.json") == text);
  const auto claim = next.claimed(26, "b");
  CHECK(claim->run().number == 2);
  CHECK(claim->run().previous == "unknown");
  CHECK(Runner::finish(*claim, RunStatus::done) == core::Recorded::recorded);
}

TEST_CASE("the lock file is deleted during a run: never proven dead") {
  const Scratch folder;
  KilledOwner owner(folder, 26, true);
  REQUIRE(unlink((folder / "st.json.lock").c_str()) == 0);
  owner.kill();
  Runner next(folder);
  CHECK(says(*next.ledger, 26) == "pending, not-provable");
  REQUIRE(next.take()); // of a new file
  CHECK(std::get<core::NotClaimed>(next.claim(26, "b")).decision.action == core::Action::hold);
  CHECK(
      contains(refusal_of([&] { (void)next.claim(27, "b"); }, core::Outcome::held), "2026-10-26"));
  owner.end_command();
  CHECK(says(*next.ledger, 26) == "pending, not-provable");
  CHECK(next.settle(26, RunStatus::ready)); // as resolve --force does
  CHECK(says(*next.ledger, 26) == "ready, settled");
}

TEST_CASE("another date's mark is settled first and never overwritten") {
  const Scratch folder;
  Runner runner(folder);
  runner.run(25, "a", RunStatus::done);
  SECTION("its owner was killed") {
    KilledOwner owner(folder, 26, false);
    owner.kill();
  }
  SECTION("it is unknown") {
    runner.run(26, "b", RunStatus::unknown);
  }
  SECTION("it failed") {
    runner.run(26, "b", RunStatus::failed);
  }
  const std::string text = test::read_text(folder / "st.json");
  const std::optional<core::Sighting> other = runner.ledger->pending_other(key(27));
  REQUIRE(other);
  CHECK(other->run->key == key(26));
  CHECK_FALSE(runner.ledger->pending_other(key(26)));
  REQUIRE(runner.take());
  CHECK(contains(refusal_of([&] { (void)runner.claim(27, "c"); }, core::Outcome::held),
                 "2026-10-26"));
  CHECK(test::read_text(folder / "st.json") == text);
  // A done date is still known as such beside it.
  CHECK(std::get<core::NotClaimed>(runner.claim(25, "c")).decision.action == core::Action::leave);
  CHECK(runner.settle(26, RunStatus::done));
  CHECK_FALSE(runner.ledger->pending_other(key(27)));
  const auto claim = runner.claimed(27, "c");
  CHECK(claim->run().previous == "none");
  CHECK(Runner::finish(*claim, RunStatus::done) == core::Recorded::recorded);
}

TEST_CASE("another date that lives is told, under whatever lock") {
  const Scratch folder;
  KilledOwner owner(folder, 26, true);
  owner.kill();
  Runner next(folder);
  const core::ClaimOutcome outcome =
      next.ledger->claim(*lock_for_test(), request(27, "b"), by_table, k_no_stop);
  CHECK(std::get<core::OtherDateLives>(outcome).owner == OwnerLife::orphaned);
  CHECK_FALSE(std::get<core::OtherDateLives>(outcome).pids.empty());
  owner.end_command();
}

TEST_CASE("a mark of another script") {
  const Scratch folder;
  test::write_text(folder / "st.json", R"({"lastPublishedDate": "2026-10-25", "status": "pending",
                                           "pendingDate": "2026-10-26", "own": [1, 2]})");
  Runner runner(folder);
  CHECK(says(*runner.ledger, 25) == "done, settled");
  CHECK(says(*runner.ledger, 26) == "pending, dead");
  CHECK(runner.ledger->jobs().empty());
  CHECK(runner.ledger->overview(std::nullopt).empty());
  CHECK(runner.ledger->overview(key(26).job).size() == 2);
  runner.run(26, "a", RunStatus::done);
  CHECK(contains(test::read_text(folder / "st.json"), "\"own\""));
  CHECK(says(*runner.ledger, 26) == "done, settled");
}

TEST_CASE("a file that cannot be read holds everything and stays as it is") {
  const Scratch folder;
  test::write_text(folder / "st.json", R"({"lastPubl)");
  Runner runner(folder);
  REQUIRE(runner.take());
  const std::string text =
      refusal_of([&] { (void)runner.ledger->look(key(26)); }, core::Outcome::held);
  CHECK(contains(text, "st.json cannot be read as a state file"));
  (void)refusal_of([&] { (void)runner.claim(26, "a"); }, core::Outcome::held);
  (void)refusal_of([&] { (void)runner.ledger->pending_other(key(26)); }, core::Outcome::held);
  (void)refusal_of([&] { (void)runner.settle(26, RunStatus::done); }, core::Outcome::held);
  CHECK(test::read_text(folder / "st.json") == R"({"lastPubl)");
}

TEST_CASE("period and zone are fixed by the first claim") {
  const Scratch folder;
  Runner runner(folder);
  runner.run(26, "a", RunStatus::done);
  REQUIRE(runner.take());
  core::ClaimRequest other = request(27, "b");
  SECTION("zone") {
    other.zone = "Europe/Berlin";
    CHECK(contains(
        refusal_of([&] { (void)runner.ledger->claim(*runner.held, other, by_table, k_no_stop); },
                   core::Outcome::config),
        "--tz UTC, not --every day --tz Europe/Berlin"));
    runner.ledger->set_job(key(26).job, "", "Europe/Berlin", "me", k_no_stop);
    CHECK(std::holds_alternative<core::Claimed>(
        runner.ledger->claim(*runner.held, other, by_table, k_no_stop)));
  }
  SECTION("period") {
    other.period = "hour";
    (void)refusal_of([&] { (void)runner.ledger->claim(*runner.held, other, by_table, k_no_stop); },
                     core::Outcome::config);
    (void)refusal_of([&] { runner.ledger->set_job(key(26).job, "hour", "", "me", k_no_stop); },
                     core::Outcome::config);
  }
  SECTION("key") {
    other.sortable_labels = false;
    (void)refusal_of([&] { (void)runner.ledger->claim(*runner.held, other, by_table, k_no_stop); },
                     core::Outcome::usage);
  }
}

TEST_CASE("a retry claims while the claim before still lives") {
  const Scratch folder;
  Runner runner(folder);
  REQUIRE(runner.take());
  auto claim = runner.claimed(26, "a");
  CHECK(Runner::finish(*claim, RunStatus::failed) == core::Recorded::recorded);
  // To others the run is owned in between, to itself it is free.
  CHECK(says(*open_ledger(folder), 26) == "failed, alive");
  CHECK(says(*runner.ledger, 26) == "failed, settled");
  const core::Token first = claim->run().token;
  claim = runner.claimed(26, "b");
  CHECK(claim->run().number == 2);
  CHECK(claim->run().previous == "failed");
  CHECK(claim->run().token > first);
  CHECK(says(*runner.ledger, 26) == "pending, alive");
  CHECK(Runner::finish(*claim, RunStatus::failed) == core::Recorded::recorded);
  claim.reset();
  CHECK(says(*open_ledger(folder), 26) == "failed, settled");
}

TEST_CASE("the file changes while the command runs") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  Runner runner(folder);
  runner.run(25, "a", RunStatus::done);
  REQUIRE(runner.take());
  const auto claim = runner.claimed(26, "b");
  SECTION("the command writes that it is done, as it always did") {
    test::write_text(path, R"({"lastPublishedDate": "2026-10-26", "status": "done"})");
    CHECK(Runner::finish(*claim, RunStatus::failed) == core::Recorded::marked_by_command);
    CHECK(says(*runner.ledger, 26) == "done, settled");
  }
  SECTION("the command writes its own pending mark") {
    test::write_text(path, R"({"lastPublishedDate": "2026-10-25", "status": "pending",
                               "pendingDate": "2026-10-26", "own": 1})");
    CHECK(Runner::finish(*claim, RunStatus::done) == core::Recorded::recorded);
    CHECK(says(*runner.ledger, 26) == "done, settled");
    CHECK(contains(test::read_text(path), "\"own\": 1"));
  }
  SECTION("the file is gone") {
    unlink(path.c_str());
    CHECK(Runner::finish(*claim, RunStatus::failed) == core::Recorded::recorded);
    CHECK(says(*runner.ledger, 25) == "done, settled");
    CHECK(says(*open_ledger(folder), 26) == "failed, alive");
  }
  SECTION("it names another date") {
    const std::string text = R"({"lastPublishedDate": "2026-10-25", "status": "failed",
                                 "pendingDate": "2026-10-27"})";
    test::write_text(path, text);
    CHECK(Runner::finish(*claim, RunStatus::done) == core::Recorded::lost);
    CHECK(test::read_text(path) == text);
  }
  SECTION("it is broken") {
    test::write_text(path, "{");
    CHECK(contains(
        refusal_of([&] { (void)Runner::finish(*claim, RunStatus::done); }, core::Outcome::held),
        path));
    CHECK(test::read_text(path) == "{");
  }
  SECTION("its own keys change") {
    std::string text = test::read_text(path);
    text.insert(text.find('{') + 1, R"("own": 7,)");
    test::write_text(path, text);
    CHECK(Runner::finish(*claim, RunStatus::done) == core::Recorded::recorded);
    CHECK(contains(test::read_text(path), "\"own\": 7"));
  }
}

TEST_CASE("tokens grow although the file is lost") {
  const Scratch folder;
  Runner runner(folder);
  runner.run(26, "a", RunStatus::done);
  const std::vector<core::JobRecord> jobs = runner.ledger->jobs();
  REQUIRE(jobs.size() == 1);
  unlink((folder / "st.json").c_str());
  REQUIRE(runner.take());
  CHECK(runner.claimed(26, "b")->run().token > jobs[0].last_token);
}

TEST_CASE("a restored copy is refused until it is accepted") {
  const Scratch folder;
  Runner runner(folder);
  runner.run(25, "a", RunStatus::done);
  const std::string yesterday = test::read_text(folder / "st.json");
  runner.run(26, "b", RunStatus::done);
  test::write_text(folder / "st.json", yesterday);
  REQUIRE(runner.take());
  CHECK(contains(refusal_of([&] { (void)runner.claim(26, "c"); }, core::Outcome::config),
                 "restored copy"));
  CHECK(test::read_text(folder / "st.json") == yesterday);
  runner.ledger->accept("me", k_no_stop);
  const auto claim = runner.claimed(26, "c");
  CHECK(Runner::finish(*claim, RunStatus::done) == core::Recorded::recorded);
}

TEST_CASE("what cannot be changed or accepted says why and writes nothing") {
  const Scratch folder;
  Runner runner(folder);
  const core::JobName job = core::JobName::parse("settle");
  const auto set = [&](const std::string& period) {
    return refusal_of([&] { runner.ledger->set_job(job, period, "", "me", k_no_stop); },
                      core::Outcome::config);
  };
  CHECK(contains(set("hour"), "does not exist"));
  CHECK(contains(refusal_of([&] { runner.ledger->accept("me", k_no_stop); }, core::Outcome::config),
                 "does not exist"));
  CHECK_FALSE(test::exists(folder / "st.json"));
  {
    REQUIRE(runner.take());
    (void)runner.claimed(26, "a"); // its owner is gone, and nobody knows
  }
  const std::string open = test::read_text(folder / "st.json");
  CHECK(contains(set("day"), "a run that is open"));
  CHECK(test::read_text(folder / "st.json") == open);
  CHECK(runner.settle(26, RunStatus::done));
  CHECK(contains(set("hour"), "dates of --every day"));
  runner.ledger->set_job(job, "", "Europe/Berlin", "me", k_no_stop);
  CHECK(runner.ledger->jobs().at(0).zone == "Europe/Berlin");
}

TEST_CASE("a verdict is written only over what was seen") {
  const Scratch folder;
  Runner runner(folder);
  runner.run(26, "a", RunStatus::unknown);
  const core::Sighting seen = runner.ledger->look(key(26));
  runner.run(26, "b", RunStatus::unknown);
  CHECK_FALSE(runner.ledger->settle(
      key(26), seen,
      {.to = RunStatus::done, .kind = "check", .by = "me", .detail = "", .period = "", .zone = ""},
      k_no_stop));
  CHECK(says(*runner.ledger, 26) == "unknown, settled");
  CHECK(runner.settle(26, RunStatus::skipped));
  CHECK(says(*runner.ledger, 26) == "skipped, settled");
  const std::vector<core::AttemptRecord> attempts = runner.ledger->attempts({});
  REQUIRE(attempts.size() == 1);
  CHECK(attempts[0].run_id == "b");
  CHECK(contains(attempts[0].note, "resolve by me"));
}

TEST_CASE("a verdict on a job that the file does not know needs its period") {
  const Scratch folder;
  Runner runner(folder);
  (void)refusal_of([&] { (void)runner.settle(26, RunStatus::skipped); }, core::Outcome::config);
  CHECK_FALSE(test::exists(folder / "st.json"));
  CHECK(runner.ledger->settle(key(26), {},
                              {.to = RunStatus::skipped,
                               .kind = "resolve",
                               .by = "me",
                               .detail = "",
                               .period = "day",
                               .zone = "UTC"},
                              k_no_stop));
  CHECK(says(*runner.ledger, 26) == "skipped, settled");
  CHECK(runner.ledger->jobs().at(0).period == "day");
}

TEST_CASE("a link to the file shares its lock, and a planted one is refused") {
  const Scratch folder;
  REQUIRE(mkdir((folder / "real").c_str(), 0700) == 0);
  REQUIRE(symlink("real/st.json", (folder / "st.json").c_str()) == 0);
  Runner runner(folder);
  runner.run(26, "a", RunStatus::done);
  CHECK(test::names_in(folder / "real") == Names{"st.json", "st.json.lock"});
  CHECK(test::names_in(folder.path()) == Names{"real", "st.json"});
  REQUIRE(lchown((folder / "st.json").c_str(), 65534, 65534) == 0);
  (void)refusal_of([&] { (void)open_ledger(folder); }, core::Outcome::config);
}

TEST_CASE("a full disk before the claim starts nothing, one after it still takes the result") {
  const Scratch folder;
  const int code =
      Forked([&] {
        if (unshare(CLONE_NEWNS) != 0 ||
            mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
          return 77;
        }
        Runner runner(folder);
        runner.run(25, "a", RunStatus::done);
        const std::string text = test::read_text(folder / "st.json");
        if (!runner.take()) {
          return 1;
        }
        test::write_text(folder / "ballast", std::string(2 << 20, 'x'));
        const std::string refused =
            refusal_of([&] { (void)runner.claim(26, "b"); }, core::Outcome::unwritable);
        if (!contains(refused, "No space left") || test::read_text(folder / "st.json") != text ||
            test::names_in(folder.path()) != Names{"ballast", "st.json", "st.json.lock"}) {
          return 2;
        }
        unlink((folder / "ballast").c_str());
        const auto claim = runner.claimed(26, "b");
        test::write_text(folder / "ballast", std::string(2 << 20, 'x'));
        const bool recorded = Runner::finish(*claim, RunStatus::done) == core::Recorded::recorded;
        return recorded && says(*runner.ledger, 26) == "done, settled" ? 0 : 3;
      }).wait();
  if (code == 77) {
    std::cerr << "skipped: no mount namespace is permitted here\n";
  } else {
    CHECK(code == 0);
  }
}

TEST_CASE("there is no spool") {
  const Scratch folder;
  Runner runner(folder);
  REQUIRE(runner.take());
  const auto claim = runner.claimed(26, "a");
  CHECK_THROWS_AS(claim->spool({}), core::Error);
}

TEST_CASE("nothing at all remembers only for the retries of one invocation") {
  const auto ledger = state::null_ledger();
  CHECK_FALSE(ledger->remembers());
  CHECK_FALSE(ledger->look(key(26)).run);
  const auto claim_now = [&](const std::string& run_id) {
    core::ClaimOutcome outcome =
        ledger->claim(*lock_for_test(), request(26, run_id), by_table, k_no_stop);
    REQUIRE(std::holds_alternative<core::Claimed>(outcome));
    return std::move(std::get<core::Claimed>(outcome).claim);
  };
  const auto first = claim_now("a");
  CHECK(first->inherited_fd() == -1);
  CHECK(first->run().number == 1);
  CHECK(Runner::finish(*first, RunStatus::failed) == core::Recorded::recorded);
  CHECK(ledger->look(key(26)).row() == core::RowState::failed);
  const auto second = claim_now("b");
  CHECK(second->run().number == 2);
  CHECK(second->run().previous == "failed");
  CHECK(second->run().token > first->run().token);
  CHECK_FALSE(state::null_ledger()->look(key(26)).run);

  // And there is nothing to be looked at, changed or kept.
  CHECK(ledger->jobs().empty());
  CHECK(ledger->overview({}).empty());
  CHECK(ledger->attempts({}).empty());
  CHECK(ledger->events({}).empty());
  CHECK_THROWS_AS(second->spool({}), core::Error);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { (void)ledger->still_mine(key(26), "b", {}); },
           [&] { ledger->set_job(key(26).job, "day", "", "me", k_no_stop); },
           [&] { ledger->accept("me", k_no_stop); }}) {
    CHECK(contains(refusal_of(call, core::Outcome::config), "nothing is remembered"));
  }
}
