#include "state/null_ledger.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"
#include "state/mark.hpp"

#include <algorithm>
#include <utility>

namespace oncerun::state {

namespace {

/// What this one process knows, for its own retries.
struct Memory {
  std::optional<core::RunRecord> run;
  std::int64_t last_token = 0;
};

core::RunRecord record_of(const core::ClaimedRun& claimed) {
  core::RunRecord run{claimed.key,
                      core::RunStatus::pending,
                      false,
                      false,
                      1,
                      0,
                      0,
                      "",
                      {},
                      "",
                      0,
                      "",
                      "",
                      "",
                      std::nullopt,
                      std::nullopt,
                      false,
                      ""};
  run.attempts = claimed.number;
  run.run_id = claimed.run_id;
  run.token = claimed.token;
  run.started_at = os::now_text();
  return run;
}

class NullClaim final : public core::Claim {
 public:
  NullClaim(core::ClaimedRun run, std::shared_ptr<Memory> memory)
      : m_run(std::move(run)), m_memory(std::move(memory)) {}
  [[nodiscard]] const core::ClaimedRun& run() const noexcept override { return m_run; }
  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  void release_tree() noexcept override {}
  [[nodiscard]] core::Recorded finish(const core::AttemptResult& result,
                                      std::chrono::milliseconds /*timeout*/,
                                      const core::StopRequest& /*stop*/) override {
    if (m_memory->run && m_memory->run->run_id == m_run.run_id) {
      m_memory->run->status = result.status;
      m_memory->run->never_started = result.never_started;
      m_memory->run->end_recorded = true;
    }
    return core::Recorded::recorded;
  }
  [[nodiscard]] std::string spool(const core::AttemptResult& /*result*/) override {
    throw core::Error(core::Outcome::unwritable, "without a ledger there is no spool");
  }

 private:
  core::ClaimedRun m_run;
  std::shared_ptr<Memory> m_memory;
};

[[noreturn]] void refuse() {
  throw core::Error(core::Outcome::config, "without a ledger nothing is remembered",
                    "name one with --ledger, or a state file with --state");
}

class NullLedger final : public core::Ledger {
 public:
  [[nodiscard]] core::Sighting look(const core::RunKey& run) override {
    core::Sighting sighting;
    if (m_memory->run && m_memory->run->key == run) {
      sighting.run = m_memory->run;
    }
    return sighting;
  }

  [[nodiscard]] core::ClaimOutcome claim(const core::HeldLock& /*lock*/,
                                         const core::ClaimRequest& request,
                                         const core::Decider& decide,
                                         const core::StopRequest& /*stop*/) override {
    core::Sighting sighting = look(request.key);
    const core::Decision decision = decide(sighting);
    if (decision.action != core::Action::start &&
        decision.action != core::Action::start_new_generation) {
      return core::NotClaimed{std::move(sighting), decision};
    }
    const std::int64_t given = m_memory->last_token == 0 ? request.lock_token.value : 0;
    m_memory->last_token = given != 0
                               ? given
                               : std::max(m_memory->last_token + 1,
                                          std::int64_t{os::now().time_since_epoch().count()});
    core::ClaimedRun claimed{.key = request.key,
                             .run_id = request.run_id,
                             .token = {m_memory->last_token},
                             .serial = 0,
                             .number = sighting.run ? sighting.run->attempts + 1 : 1,
                             .generation = 1,
                             .previous = std::string(core::previous_name(sighting.row())),
                             .ledger = describe(),
                             .first_of_job = false};
    m_memory->run = record_of(claimed);
    return core::Claimed{std::make_unique<NullClaim>(std::move(claimed), m_memory), std::nullopt};
  }

  /// As far as this process is concerned.
  [[nodiscard]] bool settle(const core::RunKey& run, const core::Sighting& /*seen*/,
                            const core::Settlement& settlement,
                            const core::StopRequest& /*stop*/) override {
    if (!m_memory->run) {
      m_memory->run = record_of({.key = run,
                                 .run_id = settlement.run_id,
                                 .token = settlement.token,
                                 .previous = {},
                                 .ledger = {}});
    }
    m_memory->run->status = settlement.to;
    m_memory->run->end_recorded = true;
    return true;
  }
  void project(const core::JobName& /*job*/,
               const std::function<void(const core::StateDocument&)>& /*write*/,
               const core::StopRequest& /*stop*/) override {}
  [[nodiscard]] bool still_mine(const core::RunKey& /*run*/, const std::string& /*run_id*/,
                                core::Token /*token*/) override {
    refuse();
  }
  [[nodiscard]] std::vector<core::JobRecord> jobs() override { return {}; }
  [[nodiscard]] std::vector<core::Sighting>
  overview(const std::optional<core::JobName>& /*job*/) override {
    return {};
  }
  [[nodiscard]] std::vector<core::AttemptRecord>
  attempts(const core::Selection& /*selection*/) override {
    return {};
  }
  [[nodiscard]] std::vector<core::EventRecord>
  events(const core::Selection& /*selection*/) override {
    return {};
  }
  void set_job(const core::JobName& /*job*/, const std::string& /*period*/,
               const std::string& /*zone*/, const std::string& /*by*/,
               const core::StopRequest& /*stop*/) override {
    refuse();
  }
  void accept(const std::string& /*by*/, const core::StopRequest& /*stop*/) override { refuse(); }
  [[nodiscard]] std::string describe() const override { return "none"; }
  [[nodiscard]] bool remembers() const noexcept override { return false; }

 private:
  std::shared_ptr<Memory> m_memory = std::make_shared<Memory>();
};

} // namespace

std::unique_ptr<core::Ledger> null_ledger() {
  return std::make_unique<NullLedger>();
}

} // namespace oncerun::state
