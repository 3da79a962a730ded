#pragma once

#include "core/ledger.hpp"
#include "ledger/store.hpp"

#include <memory>

namespace oncerun::ledger {

/// The ledger in an SQLite file (design, section 7; man page oncerun(1), FILES). Nothing is opened
/// or made before the first call that needs it; the path is checked at once. Throws Error (config).
[[nodiscard]] std::unique_ptr<core::Ledger> open_sqlite(const Options& options);

/// The version of the SQLite library, for --version.
[[nodiscard]] std::string sqlite_version();

class SqliteLedger final : public core::Ledger {
 public:
  explicit SqliteLedger(const Options& options) : m_store(std::make_shared<Store>(options)) {}

  [[nodiscard]] core::Sighting look(const core::RunKey& run) override;
  [[nodiscard]] bool may_know(const core::RunKey& run) override;
  [[nodiscard]] core::ClaimOutcome claim(const core::HeldLock& lock,
                                         const core::ClaimRequest& request,
                                         const core::Decider& decide,
                                         const core::StopRequest& stop) override;
  [[nodiscard]] bool settle(const core::RunKey& run, const core::Sighting& seen,
                            const core::Settlement& settlement,
                            const core::StopRequest& stop) override;
  void project(const core::JobName& job,
               const std::function<void(const core::StateDocument&)>& write,
               const core::StopRequest& stop) override;
  [[nodiscard]] bool still_mine(const core::RunKey& run, const std::string& run_id,
                                core::Token token) override;

  [[nodiscard]] std::vector<core::JobRecord> jobs() override;
  [[nodiscard]] std::vector<core::Sighting>
  overview(const std::optional<core::JobName>& job) override;
  [[nodiscard]] std::vector<core::AttemptRecord>
  attempts(const core::Selection& selection) override;
  [[nodiscard]] std::vector<core::EventRecord> events(const core::Selection& selection) override;

  void set_job(const core::JobName& job, const std::string& period, const std::string& zone,
               const std::string& by, const core::StopRequest& stop) override;
  void accept(const std::string& by, const core::StopRequest& stop) override;

  [[nodiscard]] std::vector<std::string> take_notices() override;
  [[nodiscard]] std::string describe() const override;

 private:
  std::shared_ptr<Store> m_store; ///< shared with the claims
};

} // namespace oncerun::ledger
