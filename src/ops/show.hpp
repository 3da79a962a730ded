#pragma once

#include "core/ledger.hpp"
#include "ops/human.hpp"
#include "ops/output.hpp"

namespace oncerun::ops {

struct ShowOptions {
  core::RunKey key;
  Instant now;                 ///< for ages
  std::string ledger_argument; ///< as in StatusOptions
};

/// `oncerun show`: one run with all its attempts and events, and what a plain start would do now.
/// Returns the exit code: 0, or 1 when the ledger has no such run.
[[nodiscard]] int show(core::Ledger& ledger, const ShowOptions& options, Output& output);

} // namespace oncerun::ops
