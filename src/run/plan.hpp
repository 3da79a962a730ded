#pragma once

#include "core/calendar.hpp"
#include "core/decide.hpp"
#include "core/ending.hpp"
#include "core/names.hpp"
#include "core/period.hpp"
#include "core/zone.hpp"
#include "os/fd.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace oncerun::run {

struct CheckPlan {
  std::string command; ///< for /bin/sh -c
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds settle{30'000}; ///< between two answers of "absent" after a doubt
  int absent_code = 10;
  int present_code = 0;
  bool first = false; ///< ask also before the first attempt
  bool after = false; ///< ask also after exit 0
};

/// Everything that one invocation was asked for, checked and resolved. Made by cli/.
struct Plan {
  core::RunKey key;
  core::Period period;
  core::Slot slot;
  const core::Zone* zone = nullptr; ///< not owned
  /// --date was given as a label, not relative to an instant.
  bool date_is_label = false;

  core::Guarantee guarantee = core::Guarantee::cautious;
  std::optional<CheckPlan> check{};
  bool rerun = false;
  /// The run may be settled by its check, but not started (another date's command line).
  bool settle_only = false;

  std::chrono::milliseconds wait{0};
  bool replace = false;

  std::optional<std::chrono::milliseconds> timeout{};
  std::chrono::milliseconds kill_after{10'000};
  core::ExitCodes unknown_exit{};
  int retries = 0;
  std::chrono::milliseconds retry_delay{10'000};
  std::chrono::milliseconds record_timeout{30'000};

  std::optional<std::string> on_lost{}; ///< for /bin/sh -c, when the lock was lost

  std::optional<std::string> state_path{};
  /// Without a ledger: the state file is the truth, not a projection.
  bool state_is_truth = false;
  /// The ledger is the default one, which the user never named.
  bool ledger_is_default = false;

  std::vector<std::string> command{};
  std::vector<std::string> environment{}; ///< as oncerun was given it
  os::StandardFds standard_fds{};
};

} // namespace oncerun::run
