#pragma once

#include "core/ledger.hpp"
#include "ledger/store.hpp"
#include "os/life_bytes.hpp"

#include <memory>
#include <string>

namespace oncerun::ledger {

/// A claimed attempt in an SQLite ledger.
class SqliteClaim final : public core::Claim {
 public:
  SqliteClaim(std::shared_ptr<Store> store, core::ClaimedRun run, std::string ledger_id,
              os::HeldLife life, SpoolSlot slot);
  ~SqliteClaim() override;

  [[nodiscard]] const core::ClaimedRun& run() const noexcept override { return m_run; }
  [[nodiscard]] int inherited_fd() const noexcept override { return m_life.tree_fd(); }
  void while_running() noexcept override;
  void while_waiting() noexcept override;
  void release_tree() noexcept override { m_life.release_tree(); }
  [[nodiscard]] core::Recorded finish(const core::AttemptResult& result,
                                      std::chrono::milliseconds timeout,
                                      const core::StopRequest& stop) override;
  [[nodiscard]] std::string spool(const core::AttemptResult& result) override;

 private:
  [[nodiscard]] core::Recorded try_finish(const core::AttemptResult& result,
                                          const os::Deadline& deadline,
                                          const core::StopRequest& stop);
  [[nodiscard]] core::Recorded record(const core::AttemptResult& result,
                                      const os::Deadline& deadline, const core::StopRequest& stop);
  /// Throws LedgerReplaced when the write-ahead log is not the one that the claim was written to.
  void refuse_replaced_log() const;
  [[nodiscard]] SpooledResult spooled(const core::AttemptResult& result) const;

  std::shared_ptr<Store> m_store;
  core::ClaimedRun m_run;
  std::string m_ledger_id;
  os::HeldLife m_life;
  SpoolSlot m_slot;
  FileIdentity m_log;     ///< of the write-ahead log that has the claim
  std::string m_ended_at; ///< when finish() or spool() was first called
};

} // namespace oncerun::ledger
