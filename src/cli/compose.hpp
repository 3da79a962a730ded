#pragma once

#include "cli/settings.hpp"
#include "core/ledger.hpp"
#include "core/lock.hpp"

#include <memory>

namespace oncerun::cli {

/// The parts that an invocation works with, put together from what was asked for.
struct Composition {
  std::unique_ptr<core::Ledger> ledger;
  std::unique_ptr<core::Lock> lock;
};

/// For a run; plan and stop request must outlive it. A stop request ends every wait of a look, too.
/// With `look_only` (--explain) nothing is made that does not exist.
[[nodiscard]] Composition compose(const Stores& stores, const run::Plan& plan, bool look_only,
                                  const core::StopRequest& stop);

/// For a subcommand: no lock. A ledger that does not exist is an Error (unavailable) that says so.
[[nodiscard]] std::unique_ptr<core::Ledger> open_existing(const Stores& stores);

/// The ledger that ONCERUN_RUN_LEDGER describes ("sqlite:/path", "state:/path"). Throws Error
/// (unavailable), or UsageError outside a run.
[[nodiscard]] std::unique_ptr<core::Ledger> open_described(const std::string& description);

} // namespace oncerun::cli
