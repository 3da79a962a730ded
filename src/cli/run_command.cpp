#include "cli/run_command.hpp"

#include "cli/cli.hpp"
#include "cli/compose.hpp"
#include "cli/versions.hpp"
#include "core/error.hpp"
#include "ops/explain.hpp"
#include "ops/report.hpp"
#include "os/atomic_file.hpp"
#include "os/clock.hpp"
#include "os/signals.hpp"
#include "run/pipeline.hpp"

#include <new>
#include <optional>
#include <utility>

namespace oncerun::cli {

namespace {

/// Passes lines on and keeps them for the report.
class RememberingLog final : public run::Log {
 public:
  explicit RememberingLog(run::Log& next) : m_next(next) {}
  using run::Log::say;
  void say(run::Level level, const std::string& text, const std::string& hint) override {
    m_messages.push_back(text);
    m_next.say(level, text, hint);
  }
  [[nodiscard]] const std::vector<std::string>& messages() const noexcept { return m_messages; }

 private:
  run::Log& m_next;
  std::vector<std::string> m_messages;
};

int mapped(const TellingSettings& telling, const run::Result& result) {
  const auto found = telling.exit_codes.find(result.outcome);
  return found != telling.exit_codes.end() ? found->second : result.exit_code;
}

/// A side channel: it can neither stop a job nor change its exit code.
void write_report(const std::string& path, const ops::RunReport& report, run::Log& log) {
  try {
    os::AtomicFile file(path);
    file.commit(ops::report_text(report), false);
  } catch (const std::exception& error) {
    log.say(run::Level::warning, "the report " + path + " was not written: " + error.what());
  }
}

run::Result failed_with(const core::Error& error, run::Log& log) {
  log.say(run::Level::error, error.what(), hint_of(error));
  return run::result_of(error.outcome(), error.what());
}

/// What ledger and lock noticed by the way and nobody would hear of otherwise.
void tell_notices(const Composition& parts, run::Log& log) {
  for (const std::string& notice : parts.ledger->take_notices()) {
    log.say(run::Level::warning, notice);
  }
  for (const std::string& notice : parts.lock->take_notices()) {
    log.say(run::Level::warning, notice);
  }
}

int explain(run::Pipeline& pipeline, const RunSettings& settings, const Composition& parts) {
  ops::Output output = ops::Output::standard(settings.json);
  const ops::ExplainFacts facts{&settings.plan, pipeline.explain(), parts.ledger->describe(),
                                parts.lock->describe()};
  const int code = ops::explain(facts, output);
  output.close();
  return code;
}

} // namespace

int run_command(const Arguments& arguments, const Environment& environment,
                const std::vector<std::string>& command, const os::StandardFds& standard_fds,
                StderrLog& log) {
  // Before anything else that takes time: a signal from here on is data, not the end.
  os::Signals signals;
  const std::string began_at = os::now_text();
  refuse_shared_files(arguments, environment);
  const TellingSettings telling = telling_settings(arguments);
  RememberingLog said(log);
  std::optional<RunSettings> settings;
  ops::RunReport report;
  try {
    settings.emplace(run_settings(arguments, environment, command, standard_fds));
    const Composition parts = compose(settings->stores, settings->plan, settings->explain, signals);
    report.ledger = parts.ledger->describe();
    run::Pipeline pipeline(settings->plan, *parts.ledger, *parts.lock, signals, said);
    if (settings->explain) {
      return explain(pipeline, *settings, parts);
    }
    report.result = pipeline.execute();
    tell_notices(parts, said);
  } catch (const core::Interrupted& stop) {
    report.result = run::stopped_by(stop.signal());
    said.say(run::Level::error, report.result.reason);
  } catch (const core::Error& error) {
    report.result = failed_with(error, said);
  } catch (const std::bad_alloc&) {
    report.result = failed_with(core::Error(core::Outcome::unavailable, "out of memory"), said);
  }
  report.exit_code = mapped(telling, report.result);
  if (telling.report && !arguments.has("explain")) {
    report.plan = settings ? &settings->plan : nullptr;
    report.version = oncerun_version();
    report.began_at = began_at;
    report.ended_at = os::now_text();
    report.messages = said.messages();
    write_report(*telling.report, report, log);
  }
  return report.exit_code;
}

} // namespace oncerun::cli
