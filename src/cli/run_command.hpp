#pragma once

#include "cli/arguments.hpp"
#include "cli/settings.hpp"
#include "cli/stderr_log.hpp"

#include <string>
#include <vector>

namespace oncerun::cli {

/// `oncerun [OPTIONS] -- COMMAND`: runs it and returns the exit code; writes --report also for an
/// error. Throws what is wrong before there is anything to report.
[[nodiscard]] int run_command(const Arguments& arguments, const Environment& environment,
                              const std::vector<std::string>& command,
                              const os::StandardFds& standard_fds, StderrLog& log);

} // namespace oncerun::cli
