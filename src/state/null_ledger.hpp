#pragma once

#include "core/ledger.hpp"

#include <memory>

namespace oncerun::state {

/// `--ledger none` without a state file: nothing is remembered, so every run is the first. The lock
/// alone keeps two from going on at the same time.
[[nodiscard]] std::unique_ptr<core::Ledger> null_ledger();

} // namespace oncerun::state
