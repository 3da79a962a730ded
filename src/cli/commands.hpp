#pragma once

#include "cli/arguments.hpp"
#include "cli/settings.hpp"

namespace oncerun::cli {

/// Runs the subcommand that `arguments` name and returns its exit code.
[[nodiscard]] int run_subcommand(const Arguments& arguments, const Environment& environment,
                                 const SplitArguments& split);

} // namespace oncerun::cli
