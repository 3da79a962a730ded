// argv: the cut at the first `--`, the parser, and what becomes of the values. Input: the words,
// separated by NUL.

#include "cli/arguments.hpp"
#include "cli/settings.hpp"
#include "core/duration.hpp"
#include "core/exit_codes.hpp"
#include "core/redact.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/reference_arguments.hpp"

#include <algorithm>

using namespace oncerun;
using fuzz::require;
using Words = std::vector<std::string>;

namespace {

cli::SplitArguments split(const Words& words) {
  std::vector<const char*> argv{"oncerun"};
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  argv.push_back(nullptr);
  return cli::split_arguments(static_cast<int>(argv.size()) - 1, argv.data());
}

/// Everything after the first `--` stays byte for byte, and nothing of it comes before.
void check_cut(const Words& words, const cli::SplitArguments& cut) {
  const auto separator = std::find(words.begin(), words.end(), "--");
  require(cut.own == Words(words.begin(), separator), "what stands before -- is oncerun's");
  require(cut.has_separator == (separator != words.end()), "the separator is seen");
  const Words command = separator == words.end() ? Words{} : Words(separator + 1, words.end());
  require(cut.command == command, "what stands after -- is the command, byte for byte");
}

void check_same(const cli::Arguments& arguments, const fuzz::ReferenceArguments& expected) {
  require(arguments.context() == expected.context, "the subcommand is the one that is named");
  for (const cli::Option& option : cli::options()) {
    const auto found = expected.values.find(std::string(option.name));
    require(arguments.has(option.name) == (found != expected.values.end()),
            "an option is there if it is given", option.name);
    if (found != expected.values.end()) {
      require(arguments.values(option.name) == found->second,
              "values arrive as they were given, in their order", option.name);
    }
  }
}

/// Whatever was accepted is accepted again, with the same meaning, when each value is attached.
void check_attached(const cli::Arguments& arguments, const fuzz::ReferenceArguments& expected) {
  Words words;
  for (const cli::Subcommand& one : cli::subcommands()) {
    if (one.context == expected.context) {
      words = fuzz::split(one.name, ' ');
    }
  }
  for (const auto& [name, values] : expected.values) {
    if (values.empty()) {
      words.push_back("--" + name);
    }
    for (const std::string& value : values) {
      words.push_back("--" + name + "=" + value);
    }
  }
  std::optional<cli::Arguments> again;
  require(fuzz::accepts([&] { again = cli::Arguments::parse(split(words)); }),
          "attached values are accepted, whatever they are");
  check_same(*again, expected);
  require(again->context() == arguments.context(), "the place stays the same");
}

void check_durations(const run::Plan& plan) {
  for (const auto& duration : {plan.wait, plan.kill_after, plan.retry_delay, plan.record_timeout}) {
    require(duration.count() >= 0 && duration <= core::k_max_duration, "a duration is in range");
  }
  require(!plan.timeout || plan.timeout->count() > 0, "a limit of nothing is refused");
  require(!plan.check || plan.check->timeout.count() > 0, "a check has time to answer");
}

void check_settings(const cli::RunSettings& settings, const cli::Arguments& arguments,
                    const Words& command) {
  const run::Plan& plan = settings.plan;
  require(plan.command == command && !command.empty() && !command.front().empty(),
          "the command of the plan is the one that was given");
  require(plan.key.job.text() == arguments.value("job"), "the job is the one that is named");
  require(core::is_utf8(plan.key.job.text()) && !core::has_control_character(plan.key.job.text()),
          "a job's name is clean");
  require(plan.state_path == arguments.value("state"), "the state file is the one that is named");
  require(core::name_of(plan.guarantee) == arguments.value("guarantee").value_or("cautious"),
          "the guarantee is the one that is named");
  require(plan.retries >= 0 && plan.retries <= 1000, "retries are bounded");
  require(plan.check.has_value() == arguments.has("check"), "a check is asked if one is given");
  require(!plan.check || plan.check->absent_code != plan.check->present_code,
          "a check can say both");
  require(core::parse_exit_codes(core::print_exit_codes(plan.unknown_exit), "x") ==
              plan.unknown_exit,
          "exit codes are printed as they are read");
  check_durations(plan);
  const bool forgets =
      settings.stores.ledger.kind == cli::LedgerSpec::Kind::none && !plan.state_path;
  require(!forgets || settings.stores.lock.kind == cli::LockSpec::Kind::path_flock,
          "a run without any protection is refused");
  require(!(plan.guarantee == core::Guarantee::at_most_once && plan.retries > 0 && !plan.check),
          "at most once is not retried blindly");
}

/// A broken surrounding (the system's zone) is no property of the command line.
void read_settings(const cli::Arguments& arguments, const cli::SplitArguments& cut) {
  static const char* const s_variables[] = {"HOME=/nonexistent", "TZ=UTC", nullptr};
  const cli::Environment environment(s_variables);
  try {
    (void)cli::log_settings(arguments);
    for (const auto& [outcome, code] : cli::telling_settings(arguments).exit_codes) {
      require(code >= 0 && code <= 255 && core::row_of(outcome).code >= 0, "--exit maps a code");
    }
    check_settings(cli::run_settings(arguments, environment, cut.command, {}), arguments,
                   cut.command);
  } catch (const core::UsageError&) {
  } catch (const core::Error& error) {
    require(error.outcome() == core::Outcome::config, "a zone that cannot be used is config",
            error.what());
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Words words = fuzz::split(fuzz::text_of(data, size), '\0');
  const cli::SplitArguments cut = split(words);
  check_cut(words, cut);
  const auto expected = fuzz::ReferenceParser(cut.own).parse();
  std::optional<cli::Arguments> arguments;
  if (!fuzz::accepts([&] { arguments = cli::Arguments::parse(cut); })) {
    require(!expected || expected->dashed_value, "what the grammar allows is accepted");
    return 0;
  }
  require(expected.has_value(), "what the grammar does not allow is refused");
  check_same(*arguments, *expected);
  check_attached(*arguments, *expected);
  if (arguments->context() == cli::k_run) {
    read_settings(*arguments, cut);
  }
  return 0;
}
