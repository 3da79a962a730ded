#include "cli/settings.hpp"

#include "core/duration.hpp"
#include "core/error.hpp"
#include "core/exit_codes.hpp"
#include "core/scheduled_at.hpp"
#include "core/uuid.hpp"
#include "core/when.hpp"
#include "os/clock.hpp"
#include "os/zone.hpp"

#include <unistd.h>

#include <charconv>

namespace oncerun::cli {

namespace {

std::chrono::milliseconds duration(const Arguments& arguments, std::string_view option,
                                   std::chrono::milliseconds by_default) {
  const std::optional<std::string> text = arguments.value(option);
  return text ? core::parse_duration(*text, "--" + std::string(option)) : by_default;
}

int whole_number(const std::string& text, std::string_view option, int highest) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > highest) {
    throw core::UsageError("--" + std::string(option) + " is '" + text + "'",
                           "a whole number from 0 to " + std::to_string(highest));
  }
  return number;
}

core::Guarantee guarantee(const std::string& text) {
  for (const core::Guarantee one :
       {core::Guarantee::cautious, core::Guarantee::at_least_once, core::Guarantee::at_most_once}) {
    if (core::name_of(one) == text) {
      return one;
    }
  }
  throw core::UsageError("--guarantee is '" + text + "'",
                         "cautious, at-least-once or at-most-once; see oncerun-guarantees(7)");
}

/// Options that say the opposite of each other, or that nothing would come of.
void refuse_contradictions(const Arguments& arguments, const RunSettings& settings) {
  const run::Plan& plan = settings.plan;
  for (const char* option : {"check-timeout", "check-absent", "check-present", "check-settle",
                             "check-first", "check-after"}) {
    if (arguments.has(option) && !plan.check) {
      throw core::UsageError("--" + std::string(option) + " without --check",
                             "give the check with --check COMMAND");
    }
  }
  if (plan.guarantee == core::Guarantee::at_most_once && plan.retries > 0 && !plan.check) {
    throw core::UsageError("--retries with at-most-once needs a --check",
                           "without one a retry may do it twice");
  }
  if (arguments.has("retry-delay") && plan.retries == 0) {
    throw core::UsageError("--retry-delay without --retries", "say how often with --retries N");
  }
  if (arguments.has("verbose") && arguments.has("quiet")) {
    throw core::UsageError("--verbose and --quiet contradict each other", "leave one of them out");
  }
  if (settings.stores.state && plan.period.is_key()) {
    throw core::UsageError("--state cannot hold periods of --every key",
                           "their texts have no order; use the ledger alone");
  }
  if (settings.json && !settings.explain) {
    throw core::UsageError("--json goes with --explain when a command is run",
                           "the outcome as JSON: --report FILE");
  }
  const bool no_ledger = settings.stores.ledger.kind == LedgerSpec::Kind::none;
  if (!no_ledger) {
    return;
  }
  if (arguments.has("spool")) {
    throw core::UsageError("--spool without a ledger",
                           "it keeps results for a ledger; leave it out");
  }
  const bool has_marks = settings.stores.lock.kind == LockSpec::Kind::redis &&
                         settings.stores.lease.marks != std::chrono::milliseconds::zero();
  if (settings.stores.state || has_marks) {
    return;
  }
  if (settings.stores.lock.kind == LockSpec::Kind::none) {
    throw core::UsageError("with neither lock, ledger nor state file nothing is protected",
                           "give at least one of --lock flock:PATH, --ledger PATH, --state FILE");
  }
  if (settings.stores.lock.kind == LockSpec::Kind::job_flock) {
    throw core::UsageError("--lock flock keeps its file beside the ledger, and there is none",
                           "name the file: --lock flock:PATH");
  }
  for (const char* option : {"check", "rerun", "guarantee", "replace", "record-timeout"}) {
    if (arguments.has(option)) {
      throw core::UsageError("--" + std::string(option) + " needs a ledger or a state file",
                             "with neither nothing is remembered that could be in doubt");
    }
  }
}

} // namespace

LogSettings log_settings(const Arguments& arguments) {
  LogSettings settings;
  settings.verbose = arguments.has("verbose");
  settings.quiet = arguments.has("quiet");
  const std::string format = arguments.value("log-format").value_or("text");
  if (format == "json") {
    settings.format = LogFormat::json;
  } else if (format == "journal") {
    settings.format = LogFormat::journal;
  } else if (format != "text") {
    throw core::UsageError("--log-format is '" + format + "'", "text, json or journal");
  }
  return settings;
}

TellingSettings telling_settings(const Arguments& arguments) {
  TellingSettings settings;
  for (const std::string& mapping : arguments.values("exit")) {
    const auto [outcome, code] = core::parse_exit_mapping(mapping);
    settings.exit_codes[outcome] = code;
  }
  settings.report = arguments.value("report");
  return settings;
}

core::JobName job_name(const Arguments& arguments) {
  const std::optional<std::string> job = arguments.value("job");
  if (!job) {
    throw core::UsageError("no job is named", "give it a name: --job NAME");
  }
  return core::JobName::parse(*job);
}

NamedRun named_run(const Arguments& arguments, const Environment& environment,
                   const std::string& known_period, const std::string& known_zone) {
  const core::JobName job = job_name(arguments);
  const std::string every =
      arguments.value("every").value_or(known_period.empty() ? "day" : known_period);
  const core::Period period = core::Period::parse(every);
  const auto now = std::chrono::floor<std::chrono::seconds>(os::now());
  const std::optional<std::string> scheduled =
      option_or_variable(arguments, "scheduled-at", environment, "ONCERUN_SCHEDULED_AT");
  const std::chrono::sys_seconds from = scheduled ? core::parse_scheduled_at(*scheduled, now) : now;

  std::unique_ptr<core::Zone> zone;
  const std::optional<std::string> zone_option = arguments.value("tz");
  if (period.is_key()) {
    if (!arguments.has("date")) {
      throw core::UsageError("--every key needs --date", "any text of 1 to 512 bytes");
    }
    if (zone_option) {
      throw core::UsageError("--tz means nothing with --every key",
                             "a key is cut from no calendar; leave --tz out");
    }
  }
  std::string zone_name = zone_option.value_or(known_zone);
  if (zone_name.empty() && !zone_option) {
    zone_name = os::system_zone_name(environment.get("TZ"));
  }
  zone = os::load_zone(zone_name);
  bool label = false;
  core::Slot slot =
      core::resolve_when(arguments.value("date").value_or("this"), period, *zone, from, now, label);
  if (period.is_key()) {
    zone.reset();
  }
  core::RunKey key{job, slot.label};
  return {std::move(zone), period, std::move(slot), std::move(key), label};
}

run::CheckPlan check_plan(const Arguments& arguments) {
  run::CheckPlan plan;
  const std::optional<std::string> command = arguments.value("check");
  if (!command || command->empty()) {
    throw core::UsageError("no check is given", "--check COMMAND, run by /bin/sh -c");
  }
  plan.command = *command;
  plan.timeout = duration(arguments, "check-timeout", plan.timeout);
  plan.settle = duration(arguments, "check-settle", plan.settle);
  if (plan.timeout == std::chrono::milliseconds::zero()) {
    throw core::UsageError("--check-timeout is 0", "a check needs time to answer");
  }
  if (const auto code = arguments.value("check-absent")) {
    plan.absent_code = core::parse_exit_code(*code, "--check-absent");
  }
  if (const auto code = arguments.value("check-present")) {
    plan.present_code = core::parse_exit_code(*code, "--check-present");
  }
  if (plan.absent_code == plan.present_code) {
    throw core::UsageError("--check-absent and --check-present are the same code",
                           "the check must be able to say one or the other");
  }
  plan.first = arguments.has("check-first");
  plan.after = arguments.has("check-after");
  return plan;
}

namespace {

void set_limits(run::Plan& plan, const Arguments& arguments) {
  if (arguments.has("timeout")) {
    plan.timeout = duration(arguments, "timeout", {});
    if (plan.timeout == std::chrono::milliseconds::zero()) {
      throw core::UsageError("--timeout is 0", "leave it out for no limit");
    }
  }
  plan.kill_after = duration(arguments, "kill-after", plan.kill_after);
  plan.retry_delay = duration(arguments, "retry-delay", plan.retry_delay);
  plan.record_timeout = duration(arguments, "record-timeout", plan.record_timeout);
  plan.wait = duration(arguments, "wait", plan.wait);
  if (const auto retries = arguments.value("retries")) {
    constexpr int k_most_retries = 1000;
    plan.retries = whole_number(*retries, "retries", k_most_retries);
  }
  plan.unknown_exit = core::parse_exit_codes(
      arguments.value("unknown-exit").value_or(std::string(core::k_default_unknown_exit)),
      "--unknown-exit");
}

/// A run inside a run of the same job and date would wait for itself.
void refuse_own_ancestor(const run::Plan& plan, const Environment& environment) {
  const char* ancestors = environment.get("ONCERUN_ANCESTORS");
  if (ancestors == nullptr) {
    return;
  }
  const std::string list = ":" + std::string(ancestors) + ":";
  if (list.find(":" + core::ancestor_hash(plan.key) + ":") != std::string::npos) {
    throw core::UsageError("this is already inside a run of " + plan.key.job.text() + " " +
                               plan.key.date.label(),
                           "a command cannot run its own job and date once more");
  }
}

} // namespace

namespace {

/// With a lease TERM must come so early that KILL has ended the tree before the lease ends, and so
/// late that a renewal can come first.
void set_lease_limits(RunSettings& settings, const Arguments& arguments) {
  run::Plan& plan = settings.plan;
  plan.on_lost = arguments.value("on-lost");
  if (settings.stores.lock.kind != LockSpec::Kind::redis) {
    return;
  }
  const std::chrono::milliseconds ttl = settings.stores.lease.ttl;
  if (!arguments.has("kill-after")) {
    constexpr int k_share = 5;
    plan.kill_after = std::min(plan.kill_after, ttl / k_share);
  }
  constexpr int k_least_share = 4;
  if (plan.kill_after * k_least_share > ttl) {
    throw core::UsageError("--kill-after is more than a quarter of --lock-ttl",
                           "TERM goes out two --kill-after before the lock ends, and renewals need "
                           "the time before it");
  }
}

} // namespace

RunSettings run_settings(const Arguments& arguments, const Environment& environment,
                         std::vector<std::string> command, const os::StandardFds& standard_fds) {
  NamedRun named = named_run(arguments, environment);
  RunSettings settings{.zone = std::move(named.zone),
                       .plan = run::Plan{.key = named.key,
                                         .period = named.period,
                                         .slot = named.slot,
                                         .check = {},
                                         .timeout = {},
                                         .state_path = {},
                                         .command = std::move(command),
                                         .environment = environment.entries(),
                                         .standard_fds = standard_fds},
                       .stores = stores(arguments, environment)};
  run::Plan& plan = settings.plan;
  plan.zone = settings.zone.get();
  plan.date_is_label = named.date_is_label;
  if (const auto text = arguments.value("guarantee")) {
    plan.guarantee = guarantee(*text);
  }
  if (arguments.has("check")) {
    plan.check = check_plan(arguments);
  }
  plan.rerun = arguments.has("rerun");
  plan.replace = arguments.has("replace");
  set_limits(plan, arguments);
  set_lease_limits(settings, arguments);
  plan.state_path = settings.stores.state;
  plan.state_is_truth =
      settings.stores.state && settings.stores.ledger.kind == LedgerSpec::Kind::none;
  plan.ledger_is_default = settings.stores.ledger.is_default;
  settings.explain = arguments.has("explain");
  settings.json = arguments.has("json");
  refuse_contradictions(arguments, settings);
  refuse_own_ancestor(plan, environment);
  if (plan.command.empty() || plan.command.front().empty()) {
    throw core::UsageError("there is no command after --", "oncerun -j NAME -- COMMAND [ARG...]");
  }
  return settings;
}

} // namespace oncerun::cli
