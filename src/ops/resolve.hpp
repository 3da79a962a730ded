#pragma once

#include "core/ledger.hpp"
#include "ops/output.hpp"

#include <functional>
#include <string>

namespace oncerun::ops {

struct ResolveOptions {
  core::RunKey key;
  // Exactly one of the three.
  bool done = false;  ///< it happened
  bool ready = false; ///< it did not: the next start runs it without asking
  bool skip = false;  ///< it shall not run
  /// Ends an orphaned tree first, and accepts an owner about whom nothing can be proven.
  bool force = false;
  std::string reason; ///< for the audit trail; one line
  std::string by;     ///< user@host
  /// Period and zone for a job that the ledger does not know yet; usually empty.
  std::string period;
  std::string zone;
  /// With them: whether its labels have an order, and what its state file says.
  bool sortable_labels = true;
  std::optional<core::StateDocument> evidence{};
  /// Ends the processes of an orphaned tree; returns whether all are gone. Called only with force.
  std::function<bool(const core::Sighting&)> end_tree;
};

/// `oncerun resolve`: what an operator knows becomes the run's status, audited in the history, and
/// undone by another resolve. Returns the exit code, 0. Throws UsageError for options that say
/// nothing or too much; Error (busy) while an owner or its tree lives or when the run changed
/// meanwhile, Error (held) when nothing can be proven and force is not given. Then nothing changed.
[[nodiscard]] int resolve(core::Ledger& ledger, const ResolveOptions& options,
                          const core::StopRequest& stop, Output& output);

} // namespace oncerun::ops
