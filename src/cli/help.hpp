#pragma once

#include "cli/options.hpp"

#include <string>

namespace oncerun::cli {

/// The help of the run itself (k_run) or of a subcommand, grouped, at most 80 columns wide.
[[nodiscard]] std::string help_text(Context context);
/// oncerun's version and those of the libraries it was built with.
[[nodiscard]] std::string version_text();

} // namespace oncerun::cli
