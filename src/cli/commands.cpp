#include "cli/commands.hpp"

#include "child/supervise.hpp"
#include "cli/compose.hpp"
#include "core/error.hpp"
#include "ops/check.hpp"
#include "ops/history.hpp"
#include "ops/human.hpp"
#include "ops/job_set.hpp"
#include "ops/ledger_accept.hpp"
#include "ops/output.hpp"
#include "ops/resolve.hpp"
#include "ops/show.hpp"
#include "ops/status.hpp"
#include "ops/still_mine.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/host.hpp"
#include "os/signals.hpp"
#include "os/zone.hpp"
#include "run/asking.hpp"
#include "run/evidence.hpp"

#include <charconv>

namespace oncerun::cli {

namespace {

/// What a pasted command line needs to find the same ledger, in whatever folder it is pasted.
std::string ledger_argument(const Stores& stores) {
  const auto word = [](const std::string& path) {
    return ops::printable(ops::shell_word(os::real_path(path)));
  };
  if (stores.ledger.kind == LedgerSpec::Kind::none) {
    return " -L none" + (stores.state ? " -s " + word(*stores.state) : "");
  }
  return stores.ledger.is_default ? "" : " -L " + word(stores.ledger.path);
}

struct KnownJob {
  std::string period;
  std::string zone;
};

/// The job's period and zone, so that nobody has to repeat them.
KnownJob known_job(core::Ledger& ledger, const core::JobName& job) {
  for (const core::JobRecord& record : ledger.jobs()) {
    if (record.job == job) {
      return {record.period, record.zone};
    }
  }
  return {};
}

class Subcommands {
 public:
  Subcommands(const Arguments& arguments, const Environment& environment)
      : m_arguments(arguments), m_environment(environment),
        m_output(ops::Output::standard(arguments.has("json"))) {}

  int run(const SplitArguments& split) {
    if (split.has_separator) {
      throw core::UsageError("a subcommand takes no command after --",
                             "to run something: oncerun -j NAME -- COMMAND");
    }
    const int code = dispatch();
    m_output.close();
    return code;
  }

 private:
  int dispatch() {
    switch (m_arguments.context()) {
    case k_status:
      return status();
    case k_history:
      return history();
    case k_show:
      return show();
    case k_resolve:
      return resolve();
    case k_check:
      return check();
    case k_still_mine:
      return still_mine();
    case k_job_set:
      return job_set();
    case k_ledger_accept: {
      const auto ledger = open();
      return ops::ledger_accept(*ledger, {os::who_am_i()}, signals(), m_output);
    }
    default:
      throw core::UsageError("unknown subcommand");
    }
  }

  std::unique_ptr<core::Ledger> open() {
    m_stores = stores(m_arguments, m_environment);
    return open_existing(m_stores);
  }

  os::Signals& signals() {
    if (!m_signals) {
      m_signals.emplace();
    }
    return *m_signals;
  }

  std::optional<core::JobName> job_if_named() const {
    return m_arguments.has("job") ? std::optional(job_name(m_arguments)) : std::nullopt;
  }

  NamedRun named(core::Ledger& ledger) const {
    const KnownJob known = known_job(ledger, job_name(m_arguments));
    return named_run(m_arguments, m_environment, known.period, known.zone);
  }

  int status() {
    const std::optional<core::JobName> job = job_if_named();
    const auto ledger = open();
    return ops::status(*ledger, {job, os::now(), ledger_argument(m_stores)}, m_output);
  }

  int history() {
    core::Selection selection;
    selection.job = job_if_named();
    if (const std::optional<std::string> limit = m_arguments.value("limit")) {
      const auto [end, error] =
          std::from_chars(limit->data(), limit->data() + limit->size(), selection.limit);
      if (error != std::errc() || end != limit->data() + limit->size() || selection.limit < 0) {
        throw core::UsageError("--limit is '" + *limit + "'", "a number of lines, 0 for all");
      }
    }
    if (m_arguments.has("date") && !selection.job) {
      throw core::UsageError("--date without --job", "a date is a job's");
    }
    const auto ledger = open();
    if (m_arguments.has("date")) {
      selection.date = named(*ledger).key.date;
    }
    return ops::history(*ledger, {selection}, m_output);
  }

  int show() {
    (void)job_name(m_arguments);
    const auto ledger = open();
    return ops::show(*ledger, {named(*ledger).key, os::now(), ledger_argument(m_stores)}, m_output);
  }

  int resolve() {
    (void)job_name(m_arguments);
    if (!m_arguments.has("date")) {
      throw core::UsageError("no date is named", "say which run it is about: --date WHEN");
    }
    const auto ledger = open();
    const NamedRun run = named(*ledger);
    ops::ResolveOptions options{
        .key = run.key, .reason = {}, .by = {}, .period = {}, .zone = {}, .end_tree = {}};
    options.done = m_arguments.has("done");
    options.ready = m_arguments.has("ready");
    options.skip = m_arguments.has("skip");
    options.force = m_arguments.has("force");
    options.reason = m_arguments.value("reason").value_or("");
    options.by = os::who_am_i();
    if (m_arguments.has("every") || m_arguments.has("tz")) {
      options.period = run.period.text();
      options.zone = run.zone ? run.zone->name() : "";
      take_evidence(run, *ledger, options);
    }
    options.end_tree = [&](const core::Sighting&) {
      constexpr std::chrono::milliseconds k_kill_after{10'000};
      return child::end_processes(
          [&] {
            const core::Sighting seen = ledger->look(run.key);
            return seen.owner == core::OwnerLife::orphaned ? seen.pids : std::vector<pid_t>{};
          },
          k_kill_after, signals());
    };
    return ops::resolve(*ledger, options, signals(), m_output);
  }

  /// A job that the ledger does not know may have a state file that tells what happened before.
  void take_evidence(const NamedRun& run, core::Ledger& ledger, ops::ResolveOptions& options) {
    run::Plan plan{.key = run.key, .period = run.period, .slot = run.slot};
    plan.zone = run.zone.get();
    plan.state_path = m_stores.state;
    core::ClaimRequest request{.key = run.key,
                               .period = options.period,
                               .zone = options.zone,
                               .run_id = {},
                               .check_verdict = {},
                               .evidence = {}};
    run::take_evidence(plan, !known_job(ledger, run.key.job).period.empty(), request);
    if (request.evidence_unreadable) {
      throw core::Error(core::Outcome::held, *m_stores.state + " cannot be read as a state file",
                        "repair it by hand, or move it away if it tells nothing");
    }
    options.sortable_labels = !run.period.is_key();
    options.evidence = request.evidence;
  }

  int check() {
    (void)job_name(m_arguments);
    const run::CheckPlan plan_of_check = check_plan(m_arguments);
    const auto ledger = open();
    NamedRun run = named(*ledger);
    run::Plan plan{.key = run.key, .period = run.period, .slot = run.slot};
    plan.zone = run.zone.get();
    plan.check = plan_of_check;
    plan.environment = m_environment.entries();
    return ops::check(*ledger,
                      {.key = run.key,
                       .ask =
                           [&](const core::Sighting& seen) {
                             const child::CheckResult result =
                                 run::ask_once(plan, run::questioned(seen), signals());
                             return ops::CheckReply{result.answer, result.detail};
                           }},
                      m_output);
  }

  int still_mine() {
    const auto text = [this](std::string_view name) {
      const char* value = m_environment.get(name);
      return std::string(value != nullptr ? value : "");
    };
    const ops::StillMineOptions options{text("ONCERUN_JOB"), text("ONCERUN_BIZ_DATE"),
                                        text("ONCERUN_RUN_ID"), text("ONCERUN_TOKEN"),
                                        m_arguments.has("verbose")};
    return ops::still_mine([&] { return open_described(text("ONCERUN_RUN_LEDGER")); }, options,
                           m_output);
  }

  int job_set() {
    const core::JobName job = job_name(m_arguments);
    ops::JobSetOptions options{.job = job, .period = {}, .zone = {}, .by = {}};
    if (const auto every = m_arguments.value("every")) {
      options.period = core::Period::parse(*every).text();
    }
    if (const auto zone = m_arguments.value("tz")) {
      options.zone = os::load_zone(*zone)->name();
    }
    options.by = os::who_am_i();
    const auto ledger = open();
    return ops::job_set(*ledger, options, signals(), m_output);
  }

  const Arguments& m_arguments;
  const Environment& m_environment;
  ops::Output m_output;
  Stores m_stores;
  std::optional<os::Signals> m_signals;
};

} // namespace

int run_subcommand(const Arguments& arguments, const Environment& environment,
                   const SplitArguments& split) {
  return Subcommands(arguments, environment).run(split);
}

} // namespace oncerun::cli
