#pragma once

#include "core/ledger.hpp"
#include "run/plan.hpp"

#include <string>
#include <vector>

namespace oncerun::run {

/// What the command sees (design, section 4): the environment as given, with oncerun's variables.
[[nodiscard]] std::vector<std::string> command_environment(const Plan& plan,
                                                           const core::ClaimedRun& run);

/// The attempt that a check is asked about.
struct Questioned {
  int generation = 1;
  std::string previous; ///< ONCERUN_PREVIOUS
  std::string run_id;   ///< empty: there was no attempt
  core::Token token;
};
[[nodiscard]] Questioned questioned(const core::Sighting& seen);
[[nodiscard]] Questioned questioned(const core::ClaimedRun& run);

/// What the check sees: job, date, period, key, generation, what went before, and of the doubtful
/// attempt its run id and token. Nothing that would make its processes look like the command's.
[[nodiscard]] std::vector<std::string> check_environment(const Plan& plan,
                                                         const Questioned& attempt);

/// The value of NAME in an environment; nullptr if it is not there.
[[nodiscard]] const char* find_variable(const std::vector<std::string>& environment,
                                        std::string_view name) noexcept;

} // namespace oncerun::run
