#pragma once

#include "core/ledger.hpp"
#include "ops/output.hpp"

#include <functional>
#include <string>

namespace oncerun::ops {

struct CheckReply {
  core::CheckAnswer answer = core::CheckAnswer::unclear;
  std::string detail; ///< "exit 10", "timed out after 60 s", …
};

struct CheckOptions {
  core::RunKey key;
  core::Guarantee guarantee = core::Guarantee::cautious;
  bool check_first = false;
  /// Runs the check about what was seen, as a start would.
  std::function<CheckReply(const core::Sighting&)> ask;
};

constexpr int k_check_present = 0;
constexpr int k_check_absent = 10;
constexpr int k_check_unclear = 80;

/// `oncerun check`: runs a check by hand and says what a start would make of its answer. Changes
/// nothing. Returns the exit code, one of the three above.
[[nodiscard]] int check(core::Ledger& ledger, const CheckOptions& options, Output& output);

} // namespace oncerun::ops
