#pragma once

#include "core/ledger.hpp"
#include "core/stop.hpp"
#include "run/log.hpp"
#include "run/plan.hpp"

#include <memory>

namespace oncerun::state {
class Projection;
}

namespace oncerun::run {

/// Keeps the state file a projection of the ledger. Does nothing without --state, and nothing where
/// the state file itself is the truth.
class Publisher {
 public:
  Publisher(const Plan& plan, core::Ledger& ledger, const core::StopRequest& stop, Log& log);
  ~Publisher();

  /// Told after the first look: only a ledger that does not know the job takes the file as
  /// evidence.
  void ledger_knows_job(bool known) noexcept { m_job_known = known; }
  [[nodiscard]] bool job_is_known() const noexcept { return m_job_known; }

  /// Whether the state file can be replaced at all, before anything is claimed. Throws core::Error.
  void check_writable();
  /// Writes the ledger's `pending` durably and takes room for the result, so that a disk that is
  /// full by then still takes it. Throws core::Error, core::Interrupted: then nothing may start.
  void before_start();
  /// Brings a state file up to date that a killed process, or a resolve, left behind what the
  /// ledger says of this date. Only looks if the file is as it should be, or the run is still in
  /// doubt.
  void repair(const core::Sighting& seen) noexcept;
  /// Writes what the ledger says now. The result is in the ledger: a failure is said, no more.
  void after_result() noexcept;

 private:
  [[nodiscard]] bool is_stale(const core::StateDocument& document,
                              const core::Sighting& seen) const;
  void write(const core::StopRequest& stop);

  const Plan& m_plan;
  core::Ledger& m_ledger;
  const core::StopRequest& m_stop;
  Log& m_log;
  std::unique_ptr<state::Projection> m_projection;
  bool m_job_known = false;
};

} // namespace oncerun::run
