#include "cli/cli.hpp"

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/run_command.hpp"
#include "cli/settings.hpp"
#include "cli/stderr_log.hpp"
#include "core/ending.hpp"
#include "core/error.hpp"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>

namespace oncerun::cli {

namespace {

/// Help that was asked for belongs on stdout, and a full disk behind it is an error.
int print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !written) {
    throw core::Error(core::Outcome::unwritable, "cannot write to stdout");
  }
  return 0;
}

int dispatch(const SplitArguments& split, const Environment& environment,
             const os::StandardFds& standard_fds, StderrLog& log) {
  const Arguments arguments = Arguments::parse(split);
  if (arguments.has("help")) {
    return print(help_text(arguments.context()));
  }
  if (arguments.has("version")) {
    return print(version_text());
  }
  if (arguments.context() != k_run) {
    return run_subcommand(arguments, environment, split);
  }
  const LogSettings settings = log_settings(arguments);
  log = StderrLog(settings.format, settings.verbose, settings.quiet, ::isatty(STDERR_FILENO) != 0);
  if (!split.has_separator) {
    throw core::UsageError("there is no -- before the command",
                           "oncerun -j NAME -- COMMAND [ARG...]; oncerun --help tells more");
  }
  return run_command(arguments, environment, split.command, standard_fds, log);
}

} // namespace

std::string hint_of(const core::Error& error) {
  const bool bare = error.outcome() == core::Outcome::usage && error.hint().empty();
  return bare ? "see oncerun --help" : error.hint();
}

int main(int argc, const char* const* argv, const char* const* environ) {
  StderrLog log(LogFormat::text, false, false, false);
  try {
    const os::StandardFds standard_fds = os::reserve_standard_fds();
    const Environment environment(environ);
    return dispatch(split_arguments(argc, argv), environment, standard_fds, log);
  } catch (const core::Error& error) {
    log.say(run::Level::error, error.what(), hint_of(error));
    return core::row_of(error.outcome()).code;
  } catch (const core::Interrupted& stop) {
    log.say(run::Level::error, "stopped by " + core::signal_name(stop.signal()));
    return 128 + stop.signal();
  } catch (const std::bad_alloc&) {
    log.say(run::Level::error, "out of memory");
    return core::row_of(core::Outcome::unavailable).code;
  } catch (const std::exception& error) {
    log.say(run::Level::error, "internal error: " + std::string(error.what()),
            "this is a bug in oncerun; please report it");
    return core::row_of(core::Outcome::internal).code;
  }
}

} // namespace oncerun::cli
