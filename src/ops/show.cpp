#include "ops/show.hpp"

#include "core/uuid.hpp"
#include "ops/history.hpp"
#include "ops/json.hpp"
#include "ops/standing.hpp"
#include "ops/table.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace oncerun::ops {

namespace {

constexpr int k_no_such_run = 1;

/// "  name      value", unless there is no value.
void fact(Output& output, std::string_view name, const std::string& value) {
  if (!value.empty()) {
    output.line(fmt::format("  {:<13}{}", name, printable(value)));
  }
}

std::string with_age(std::string_view utc, Instant now) {
  const auto age = since(utc, now);
  return age ? fmt::format("{} ({} ago)", human_instant(utc), human_duration(*age))
             : human_instant(utc);
}

std::string job_words(const core::JobRecord& job) {
  std::string text =
      fmt::format("every {} in {}, last token {}", job.period, job.zone, job.last_token.value);
  if (job.floor) {
    text += ", dates up to " + job.floor->label() + " are held unless they have a run";
  }
  return text;
}

void print_run(const core::RunKey& key, const core::Sighting& sighting, const ShowOptions& options,
               Output& output) {
  const core::RunRecord& run = *sighting.run;
  const Standing standing = standing_of(sighting);
  const std::string row(core::name_of(run.status));
  output.line(run_name(key) + ": " + output.painted(standing.word, standing.tone) +
              (standing.word == row ? "" : " (the row says " + row + ")"));
  fact(output, "why", standing.note);
  fact(output, "since", with_age(since_of(run), options.now));
  fact(output, standing.alive ? "running on" : "was on", who_of(sighting));
  fact(output, "attempts", fmt::format("{}, generation {}", run.attempts, run.generation));
  fact(output, "key", core::idempotency_key(key, std::nullopt, run.generation));
  if (sighting.job) {
    fact(output, "job", job_words(*sighting.job));
  }
  fact(output, "a start now", next_start(sighting));
  if (standing.unsettled) {
    const bool force = sighting.owner == core::OwnerLife::orphaned ||
                       sighting.owner == core::OwnerLife::not_provable;
    fact(output, "to settle",
         "oncerun resolve " + run_arguments(key) + options.ledger_argument +
             (force ? " --force" : "") + " --done|--ready|--skip --reason TEXT");
  }
}

std::string usage_words(const core::Usage& usage) {
  const auto seconds = [](std::chrono::microseconds time) {
    return static_cast<double>(time.count()) / 1e6;
  };
  return fmt::format("{:.2f}s user, {:.2f}s system, {} KiB at most", seconds(usage.user),
                     seconds(usage.system), usage.max_rss_kib);
}

void print_attempt(core::Ledger& ledger, const core::AttemptRecord& attempt, Output& output) {
  output.line("");
  std::string title = fmt::format("attempt {}: {}", attempt.number, result_of(ledger, attempt));
  const std::string exit = exit_words(attempt.exit_code, attempt.signal);
  title += exit.empty() ? "" : ", " + exit;
  title += attempt.never_started ? ", never started" : "";
  output.line(output.painted(printable(title), Tone::strong));
  fact(output, "claimed", human_instant(attempt.claimed_at));
  const auto duration = duration_of(attempt);
  fact(output, "ended",
       attempt.ended_at.empty()
           ? "not recorded"
           : human_instant(attempt.ended_at) +
                 (duration ? ", took " + human_duration(*duration) : std::string()));
  fact(output, "note", attempt.note);
  fact(output, "where", fmt::format("{}, pid {}", attempt.owner.host, attempt.owner.pid));
  fact(output, "run id", attempt.run_id);
  fact(output, "token",
       fmt::format("{}, serial {}, generation {}", attempt.token.value, attempt.serial,
                   attempt.generation));
  fact(output, "guarantee", attempt.guarantee);
  fact(output, "before it", attempt.previous);
  fact(output, "check said", attempt.check_verdict);
  if (attempt.usage) {
    fact(output, "used", usage_words(*attempt.usage));
  }
}

void print_events(const std::vector<core::EventRecord>& events, Output& output) {
  if (events.empty()) {
    return;
  }
  output.line("");
  Table table({"WHEN", "WHAT", "FROM", "TO", "BY", "DETAIL"});
  for (const core::EventRecord& event : events) {
    table.add({human_instant(event.at), event.kind, event.from_status, event.to_status, event.by,
               event.detail});
  }
  table.print(output);
}

Json json_of_run(core::Ledger& ledger, const core::RunKey& key, const core::Sighting& sighting,
                 const std::vector<core::AttemptRecord>& attempts,
                 const std::vector<core::EventRecord>& events) {
  Json document = json_of(key, sighting);
  document["why"] = text_or_null(standing_of(sighting).note);
  document["next_start"] = next_start(sighting);
  document["job_record"] = sighting.job ? json_of(*sighting.job) : Json(nullptr);
  document["attempt_list"] = Json::array();
  for (const core::AttemptRecord& attempt : attempts) {
    Json entry = json_of(attempt);
    entry["reads_as"] = result_of(ledger, attempt);
    document["attempt_list"].push_back(std::move(entry));
  }
  document["events"] = Json::array();
  for (const core::EventRecord& event : events) {
    document["events"].push_back(json_of(event));
  }
  return document;
}

int no_such_run(core::Ledger& ledger, const core::RunKey& key, const core::Sighting& sighting,
                Output& output) {
  std::string text = "no run of " + printable(key.job.text()) + " for " +
                     printable(key.date.label()) + " in the ledger " + printable(ledger.describe());
  text += sighting.job ? "" : ", which does not know the job";
  output.remark(text);
  if (sighting.job) {
    output.remark("a start now " + next_start(sighting));
  }
  if (output.json) {
    print(output, Json(nullptr));
  }
  return k_no_such_run;
}

} // namespace

int show(core::Ledger& ledger, const ShowOptions& options, Output& output) {
  const core::RunKey& key = options.key;
  const core::Sighting sighting = ledger.look(key);
  if (!sighting.run) {
    return no_such_run(ledger, key, sighting, output);
  }
  const core::Selection all{key.job, key.date, 0};
  const std::vector<core::AttemptRecord> attempts = ledger.attempts(all);
  const std::vector<core::EventRecord> events = ledger.events(all);
  if (output.json) {
    print(output, json_of_run(ledger, key, sighting, attempts, events));
    return 0;
  }
  print_run(key, sighting, options, output);
  for (const core::AttemptRecord& attempt : attempts) {
    print_attempt(ledger, attempt, output);
  }
  print_events(events, output);
  return 0;
}

} // namespace oncerun::ops
