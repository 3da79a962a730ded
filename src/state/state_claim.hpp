#pragma once

#include "core/ledger.hpp"
#include "os/atomic_file.hpp"
#include "os/life_bytes.hpp"
#include "state/state_lock.hpp"

#include <memory>
#include <optional>
#include <string>

namespace oncerun::state {

/// What a claim consists of once it is durable.
struct StateClaimParts {
  core::ClaimedRun run;
  core::StateDocument document; ///< as it was written with the claim
  os::HeldLife life;
  os::AtomicFile reserved; ///< room for the result, taken before the claim
  /// FILE.lock, where the run's lock is another one; else empty.
  std::unique_ptr<core::HeldLock> lock;
};

/// An attempt recorded in a state file. The lock is held as long as it lives, so that only the
/// command itself or a person can have changed the file meanwhile.
class StateClaim final : public core::Claim {
 public:
  StateClaim(std::shared_ptr<StatePlace> place, StateClaimParts parts);
  ~StateClaim() override;

  [[nodiscard]] const core::ClaimedRun& run() const noexcept override { return m_parts.run; }
  [[nodiscard]] int inherited_fd() const noexcept override { return m_parts.life.tree_fd(); }
  void release_tree() noexcept override { m_parts.life.release_tree(); }
  /// `marked_by_command` also when the file names the date as lastPublishedDate and the mark is
  /// gone: a command that used to keep the file itself goes on doing so. A file that is gone is
  /// written anew. `lost` when it tells of another attempt or another date's mark.
  [[nodiscard]] core::Recorded finish(const core::AttemptResult& result,
                                      std::chrono::milliseconds timeout,
                                      const core::StopRequest& stop) override;
  /// There is none: always throws Error (unwritable).
  [[nodiscard]] std::string spool(const core::AttemptResult& result) override;

 private:
  [[nodiscard]] core::Recorded record(const core::AttemptResult& result);
  /// The document that the result is written over; none if the mark is not ours any more.
  [[nodiscard]] std::optional<core::StateDocument> current(core::Recorded& why_not) const;

  std::shared_ptr<StatePlace> m_place;
  StateClaimParts m_parts;
  bool m_tried = false; ///< a result of ours may stand in the file already
};

} // namespace oncerun::state
