#pragma once

// A ledger in memory for tests of the layers above: it claims, settles and finishes by the same
// conditions as a real one. What only a kernel can know, whether an owner lives, follows from the
// Claim objects that exist, unless a test says otherwise.

#include "core/error.hpp"
#include "core/ledger.hpp"
#include "support/fake_store.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace oncerun::test {

/// A lock that a test holds without any file.
class FakeHeldLock final : public core::HeldLock {
 public:
  explicit FakeHeldLock(bool covers_job = true) : m_covers_job(covers_job) {}
  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  [[nodiscard]] bool covers_job() const noexcept override { return m_covers_job; }
  void release() noexcept override { m_released = true; }
  [[nodiscard]] bool released() const noexcept { return m_released; }

 private:
  bool m_covers_job;
  bool m_released = false;
};

class FakeLedger final : public core::Ledger {
 public:
  FakeLedger() : m_store(std::make_shared<FakeStore>()) {}

  // ---- what a test arranges -------------------------------------------------------------------

  /// The instant that everything written from now on carries.
  void set_now(const std::string& utc) { m_store->now = utc; }
  void put_job(const core::JobRecord& job) { m_store->jobs.insert_or_assign(job.job, job); }
  /// A row as it stands; its job is made up (daily, UTC) if it is not known yet.
  void put_run(const core::RunRecord& run) {
    m_store->know(run.key.job, "day", "UTC");
    m_store->runs.insert_or_assign(run.key, run);
  }
  void put_attempt(const core::AttemptRecord& attempt) { m_store->attempts.push_back(attempt); }
  void put_event(const core::EventRecord& event) { m_store->events.push_back(event); }
  /// Overrules what the existing Claim objects say about this attempt's owner.
  void set_life(const std::string& run_id, core::OwnerLife life, std::vector<pid_t> pids = {}) {
    m_store->lives[run_id] = {life, std::move(pids)};
  }
  /// What a command does that finishes its own run: UPDATE … WHERE run_id, token and pending.
  bool command_marks_done(const std::string& run_id, core::Token token) {
    for (auto& [key, run] : m_store->runs) {
      if (run.run_id == run_id && run.token == token && run.status == core::RunStatus::pending) {
        run.status = core::RunStatus::done;
        run.updated_at = m_store->now;
        return true;
      }
    }
    return false;
  }
  /// Every finish() from now on throws this; nullopt ends that.
  void fail_finish(std::optional<core::Error> error) { m_store->finish_error = std::move(error); }
  void fail_spool(std::optional<core::Error> error) { m_store->spool_error = std::move(error); }
  void fail_asking(std::optional<core::Error> error) { m_store->ask_error = std::move(error); }
  void fail_claim(std::optional<core::Error> error) { m_store->claim_error = std::move(error); }
  /// Called at the begin of each claim() and settle(): somebody else acts in between.
  void before_write(std::function<void()> hook) { m_store->before_write = std::move(hook); }

  // ---- what a test looks at -------------------------------------------------------------------

  [[nodiscard]] const core::RunRecord* run(const core::RunKey& key) const {
    const auto found = m_store->runs.find(key);
    return found == m_store->runs.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const std::vector<core::AttemptRecord>& all_attempts() const {
    return m_store->attempts;
  }
  [[nodiscard]] const std::vector<core::EventRecord>& all_events() const { return m_store->events; }
  [[nodiscard]] const std::vector<core::AttemptResult>& spooled() const { return m_store->spooled; }
  [[nodiscard]] int accepted() const noexcept { return m_store->accepted; }

  // ---- core::Ledger ---------------------------------------------------------------------------

  [[nodiscard]] core::Sighting look(const core::RunKey& key) override { return m_store->see(key); }

  [[nodiscard]] core::ClaimOutcome claim(const core::HeldLock& lock,
                                         const core::ClaimRequest& request,
                                         const core::Decider& decide,
                                         const core::StopRequest& stop) override {
    m_store->begin_write(stop);
    if (m_store->claim_error) {
      throw core::Error(*m_store->claim_error);
    }
    const auto job = m_store->jobs.find(request.key.job);
    const bool first = job == m_store->jobs.end();
    if (!first && (job->second.period != request.period || job->second.zone != request.zone)) {
      throw core::Error(core::Outcome::config, "the job's period or zone differs from the ledger's",
                        "oncerun job set changes them");
    }
    if (first && request.evidence_unreadable) {
      return core::NotClaimed{{}, {core::Action::hold, core::Reason::in_doubt}};
    }
    if (first && request.evidence) {
      m_store->import(request);
    }
    core::Sighting sighting = m_store->see(request.key);
    const core::Decision decision = decide(sighting);
    const bool rerun = decision.action == core::Action::start_new_generation;
    if (decision.action != core::Action::start && !rerun) {
      return core::NotClaimed{std::move(sighting), decision};
    }
    if (lock.covers_job()) {
      if (std::optional<core::OtherDateLives> other = m_store->other_date(request.key)) {
        return std::move(*other);
      }
    }
    core::ClaimedRun claimed = m_store->write_claim(request, sighting, rerun);
    claimed.ledger = describe();
    claimed.first_of_job = first;
    std::optional<core::Unsettled> unsettled = m_store->unsettled(request);
    return core::Claimed{std::make_unique<FakeClaim>(m_store, std::move(claimed)),
                         std::move(unsettled)};
  }

  [[nodiscard]] bool settle(const core::RunKey& key, const core::Sighting& seen,
                            const core::Settlement& settlement,
                            const core::StopRequest& stop) override {
    m_store->begin_write(stop);
    return m_store->settle(key, seen, settlement);
  }

  void project(const core::JobName& job,
               const std::function<void(const core::StateDocument&)>& write,
               const core::StopRequest&) override {
    write(m_store->projection(job));
  }

  [[nodiscard]] bool still_mine(const core::RunKey& key, const std::string& run_id,
                                core::Token token) override {
    if (m_store->ask_error) {
      throw core::Error(*m_store->ask_error);
    }
    const core::RunRecord* row = run(key);
    return row != nullptr && row->status == core::RunStatus::pending && row->run_id == run_id &&
           row->token == token;
  }

  [[nodiscard]] std::vector<core::JobRecord> jobs() override {
    std::vector<core::JobRecord> all;
    for (const auto& [name, job] : m_store->jobs) {
      all.push_back(job);
    }
    return all;
  }

  [[nodiscard]] std::vector<core::Sighting>
  overview(const std::optional<core::JobName>& job) override {
    std::vector<core::Sighting> found;
    // The map's order is by job, then date: backwards it meets each job's newest date first.
    std::set<core::JobName> seen;
    for (auto at = m_store->runs.rbegin(); at != m_store->runs.rend(); ++at) {
      const core::RunRecord& row = at->second;
      if (job && row.key.job != *job) {
        continue;
      }
      const bool newest = seen.insert(row.key.job).second;
      if (newest || FakeStore::open_or_unsettled(row)) {
        found.push_back(m_store->see(row.key));
      }
    }
    return found;
  }

  [[nodiscard]] std::vector<core::AttemptRecord>
  attempts(const core::Selection& selection) override {
    return select(m_store->attempts, selection, [](const core::AttemptRecord& attempt) {
      return std::pair(attempt.claimed_at, attempt.serial);
    });
  }

  [[nodiscard]] std::vector<core::EventRecord> events(const core::Selection& selection) override {
    return select(m_store->events, selection,
                  [](const core::EventRecord& event) { return event.at; });
  }

  void set_job(const core::JobName& job, const std::string& period, const std::string& zone,
               const std::string& by, const core::StopRequest& stop) override {
    m_store->begin_write(stop);
    const auto found = m_store->jobs.find(job);
    if (found == m_store->jobs.end()) {
      throw core::Error(core::Outcome::config, "the ledger does not know the job " + job.text());
    }
    for (const auto& [key, row] : m_store->runs) {
      if (key.job == job && !row.end_recorded) {
        throw core::Error(core::Outcome::config, "a run of the job is open: " + key.date.label());
      }
    }
    found->second.period = period.empty() ? found->second.period : period;
    found->second.zone = zone.empty() ? found->second.zone : zone;
    m_store->note_event(core::RunKey{job, core::BizDate("")}, "job-set", "", "", by,
                        found->second.period + " " + found->second.zone);
  }

  void accept(const std::string& by, const core::StopRequest& stop) override {
    m_store->begin_write(stop);
    ++m_store->accepted;
    m_store->last_serial += 1'000'000;
    m_store->note_event(std::nullopt, "ledger-accept", "", "", by, "");
  }

  [[nodiscard]] std::string describe() const override { return "fake:memory"; }

 private:
  class FakeClaim final : public core::Claim {
   public:
    FakeClaim(std::shared_ptr<FakeStore> store, core::ClaimedRun claimed)
        : m_store(std::move(store)), m_run(std::move(claimed)) {
      m_store->claims.insert(m_run.run_id);
    }
    ~FakeClaim() override { m_store->claims.erase(m_run.run_id); }
    FakeClaim(const FakeClaim&) = delete;
    FakeClaim& operator=(const FakeClaim&) = delete;

    [[nodiscard]] const core::ClaimedRun& run() const noexcept override { return m_run; }
    [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
    void release_tree() noexcept override {}
    [[nodiscard]] core::Recorded finish(const core::AttemptResult& result,
                                        std::chrono::milliseconds,
                                        const core::StopRequest& stop) override {
      if (const int signal = stop.pending()) {
        throw core::Interrupted(signal);
      }
      if (m_store->finish_error) {
        throw core::Error(*m_store->finish_error);
      }
      return m_store->finish(m_run, result);
    }
    [[nodiscard]] std::string spool(const core::AttemptResult& result) override {
      if (m_store->spool_error) {
        throw core::Error(*m_store->spool_error);
      }
      m_store->spooled.push_back(result);
      return "fake:spool";
    }

   private:
    std::shared_ptr<FakeStore> m_store;
    core::ClaimedRun m_run;
  };

  template<class Record, class Order>
  static std::vector<Record> select(const std::vector<Record>& all,
                                    const core::Selection& selection, Order order) {
    std::vector<Record> found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](const Record& record) {
      const std::optional<core::RunKey> key = record.key;
      return (!selection.job || (key && key->job == *selection.job)) &&
             (!selection.date || (key && key->date == *selection.date));
    });
    std::stable_sort(found.begin(), found.end(), [&](const Record& left, const Record& right) {
      return order(right) < order(left);
    });
    if (selection.limit > 0 && found.size() > static_cast<std::size_t>(selection.limit)) {
      found.erase(found.begin() + selection.limit, found.end());
    }
    return found;
  }

  std::shared_ptr<FakeStore> m_store;
};

} // namespace oncerun::test
