#pragma once

#include "core/lock.hpp"
#include "os/file_lock.hpp"
#include "state/state_file.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace oncerun::state {

/// What ledger, lock and claims of one state file share within this process.
struct StatePlace {
  std::string path;      ///< real path of the state file
  std::string lock_path; ///< FILE.lock: lock and liveness file
  IsValidDate is_valid_date;
  std::string every;            ///< the period that is asked for; empty: not compared
  bool locked = false;          ///< this process holds the lock
  std::int64_t own_serial = -1; ///< of the attempt that this process holds the bytes of
};

/// FILE.lock, locked by flock(2). While it exists nobody else writes the state file.
class HeldStateLock final : public os::HeldFlock {
 public:
  HeldStateLock(os::UniqueFd fd, std::shared_ptr<StatePlace> place);
  ~HeldStateLock() override;
  void release() noexcept override;

 private:
  std::shared_ptr<StatePlace> m_place;
};

/// nullptr if somebody else holds it. Throws Error (unwritable, config), Interrupted.
[[nodiscard]] std::unique_ptr<core::HeldLock> take_state_lock(std::shared_ptr<StatePlace> place,
                                                              std::chrono::milliseconds wait,
                                                              const core::StopRequest& stop);

/// The run's lock where the state file is the truth: runs of the job are serialised by it. Who
/// holds it is told by the mark in the state file, so that a holder who has not claimed yet is not
/// known.
[[nodiscard]] std::unique_ptr<core::Lock> make_state_lock(std::shared_ptr<StatePlace> place);

} // namespace oncerun::state
