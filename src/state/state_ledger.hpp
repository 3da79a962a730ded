#pragma once

#include "core/ledger.hpp"
#include "core/lock.hpp"
#include "os/atomic_file.hpp"
#include "state/state_lock.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace oncerun::state {

/// `--ledger none --state FILE`: the state file as the truth (design, section 5, "Ledger and state
/// file"; mark.hpp has what the file can remember). FILE.lock beside its real path is lock and
/// liveness file at once, and is never unlinked. Runs of the job are serialised by that lock: who
/// claims or settles without holding it (state_lock()) takes it for that time.
///
/// A file that cannot be read as a state file is an Error (held) everywhere: nothing starts and the
/// file stays as it is. Only the newest attempt is remembered, and no events.
class StateLedger final : public core::Ledger {
 public:
  explicit StateLedger(std::shared_ptr<StatePlace> place);

  /// The lock that the run is to be made under. Usable as long as this ledger.
  [[nodiscard]] std::unique_ptr<core::Lock> state_lock();

  [[nodiscard]] core::Sighting look(const core::RunKey& run) override;
  /// Throws Error (held) when another date's mark is unsettled: pending_other() has it.
  [[nodiscard]] core::ClaimOutcome claim(const core::HeldLock& lock,
                                         const core::ClaimRequest& request,
                                         const core::Decider& decide,
                                         const core::StopRequest& stop) override;
  /// Throws Error (held, config) as with_settlement (mark.hpp) does, (busy) while a run goes on.
  [[nodiscard]] bool settle(const core::RunKey& run, const core::Sighting& seen,
                            const core::Settlement& settlement,
                            const core::StopRequest& stop) override;
  [[nodiscard]] std::optional<core::Sighting> pending_other(const core::RunKey& run) override;
  /// Nothing to do: the file is what others read.
  void project(const core::JobName& /*job*/,
               const std::function<void(const core::StateDocument&)>& /*write*/,
               const core::StopRequest& /*stop*/) override {}
  [[nodiscard]] bool still_mine(const core::RunKey& run, const std::string& run_id,
                                core::Token token) override;
  [[nodiscard]] std::vector<core::JobRecord> jobs() override;
  [[nodiscard]] std::vector<core::Sighting>
  overview(const std::optional<core::JobName>& job) override;
  [[nodiscard]] std::vector<core::AttemptRecord>
  attempts(const core::Selection& selection) override;
  [[nodiscard]] std::vector<core::EventRecord>
  events(const core::Selection& /*selection*/) override {
    return {};
  }
  /// A period can only be changed while the file has no date, since dates of one period tell
  /// nothing about another's.
  void set_job(const core::JobName& job, const std::string& period, const std::string& zone,
               const std::string& by, const core::StopRequest& stop) override;
  void accept(const std::string& by, const core::StopRequest& stop) override;
  [[nodiscard]] std::string describe() const override { return "state:" + m_place->path; }

 private:
  [[nodiscard]] std::optional<core::StateDocument> read(const std::string& job,
                                                        const std::string& every) const;
  [[nodiscard]] core::Sighting sight(const core::StateDocument& document,
                                     const core::RunKey& key) const;
  void judge(const core::StateDocument& document, core::Sighting& sighting) const;
  /// FILE.lock, unless this process holds it already (then empty).
  [[nodiscard]] std::unique_ptr<core::HeldLock> serialise(const core::StopRequest& stop) const;
  [[nodiscard]] core::ClaimOutcome claim_locked(const core::ClaimRequest& request,
                                                const core::Decider& decide,
                                                std::unique_ptr<core::HeldLock> lock);
  [[nodiscard]] std::optional<core::OtherDateLives>
  refuse_other_mark(const core::StateDocument& document, const core::RunKey& key) const;
  [[nodiscard]] std::unique_ptr<core::Claim> write_claim(const core::StateDocument& document,
                                                         const core::ClaimRequest& request,
                                                         const core::Sighting& sighting,
                                                         bool new_generation,
                                                         std::unique_ptr<core::HeldLock> lock);
  void give_back(const core::StateDocument& claimed, const core::ClaimedRun& run,
                 os::AtomicFile& reserved) const;
  void write(const core::StateDocument& document) const;
  [[nodiscard]] const core::OwnerIdentity& self() const;

  std::shared_ptr<StatePlace> m_place;
  mutable std::optional<core::OwnerIdentity> m_self; ///< read when first needed: a skip needs none
};

/// Refuses (config) a network file system and a planted symbolic link. Makes nothing. A file of
/// another period than `every` is refused; empty: not compared.
[[nodiscard]] std::unique_ptr<StateLedger>
open_state_ledger(const std::string& path, IsValidDate is_valid_date, std::string every = {});

} // namespace oncerun::state
