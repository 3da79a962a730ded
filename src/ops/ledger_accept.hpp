#pragma once

#include "core/ledger.hpp"
#include "ops/output.hpp"

#include <string>

namespace oncerun::ops {

struct LedgerAcceptOptions {
  std::string by; ///< user@host
};

/// `oncerun ledger accept`: goes on with a ledger that was restored from an older copy. Returns the
/// exit code, 0.
[[nodiscard]] int ledger_accept(core::Ledger& ledger, const LedgerAcceptOptions& options,
                                const core::StopRequest& stop, Output& output);

} // namespace oncerun::ops
