#include "ops/history.hpp"

#include "ops/json.hpp"
#include "ops/standing.hpp"
#include "ops/table.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace oncerun::ops {

namespace {

using Entry = std::variant<core::AttemptRecord, core::EventRecord>;

const std::string& when(const Entry& entry) {
  if (const auto* attempt = std::get_if<core::AttemptRecord>(&entry)) {
    return attempt->claimed_at;
  }
  return std::get<core::EventRecord>(entry).at;
}

/// Both lists come newest first; where instants are equal the event stays before the attempt, since
/// it happened to something that was there already.
std::vector<Entry> merged(core::Ledger& ledger, const core::Selection& selection) {
  std::vector<Entry> entries;
  for (core::EventRecord& event : ledger.events(selection)) {
    entries.emplace_back(std::move(event));
  }
  for (core::AttemptRecord& attempt : ledger.attempts(selection)) {
    entries.emplace_back(std::move(attempt));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& left, const Entry& right) { return when(right) < when(left); });
  if (selection.limit > 0 && entries.size() > static_cast<std::size_t>(selection.limit)) {
    entries.erase(entries.begin() + selection.limit, entries.end());
  }
  return entries;
}

Tone tone_of(const std::string& result) {
  if (result == "done") {
    return Tone::good;
  }
  if (result == "failed" || result == "orphaned" || result == "not-provable") {
    return Tone::bad;
  }
  if (result == "unknown") {
    return Tone::doubt;
  }
  return result == "running" || result == "retrying" ? Tone::busy : Tone::plain;
}

/// The note, unless it only repeats another column.
std::string note_of(const core::AttemptRecord& attempt) {
  if (attempt.never_started) {
    return attempt.note.empty() ? "never started" : "never started: " + attempt.note;
  }
  const bool repeats = attempt.exit_code && attempt.note == exit_words(attempt.exit_code, {});
  return repeats ? std::string() : attempt.note;
}

/// The note with what a check said before this start.
std::string told_of(const core::AttemptRecord& attempt) {
  const std::string note = note_of(attempt);
  if (attempt.check_verdict.empty()) {
    return note;
  }
  return (note.empty() ? "" : note + "; ") + "check said " + attempt.check_verdict;
}

std::vector<Cell> row_of(core::Ledger& ledger, const core::AttemptRecord& attempt) {
  const std::string result = result_of(ledger, attempt);
  const auto duration = duration_of(attempt);
  return {human_instant(attempt.claimed_at),
          attempt.key.job.text(),
          attempt.key.date.label(),
          std::to_string(attempt.number),
          {result, tone_of(result)},
          exit_of(attempt.exit_code, attempt.signal),
          duration ? human_duration(*duration) : std::string(),
          attempt.owner.host,
          told_of(attempt)};
}

std::vector<Cell> row_of(core::Ledger& /*ledger*/, const core::EventRecord& event) {
  std::string change = event.kind;
  if (!event.to_status.empty()) {
    change += event.from_status.empty() ? ": " : ": " + event.from_status + " -> ";
    change += event.to_status;
  }
  return {human_instant(event.at),
          event.key ? event.key->job.text() : std::string(),
          event.key ? event.key->date.label() : std::string(),
          "-",
          {change, Tone::strong},
          "-",
          "-",
          event.by,
          event.detail};
}

Json json_of_entry(core::Ledger& ledger, const Entry& entry) {
  Json result;
  if (const auto* attempt = std::get_if<core::AttemptRecord>(&entry)) {
    result["type"] = "attempt";
    result.update(json_of(*attempt));
    result["reads_as"] = result_of(ledger, *attempt);
    const auto duration = duration_of(*attempt);
    result["duration_ms"] = duration ? Json(duration->count()) : Json(nullptr);
  } else {
    result["type"] = "event";
    result.update(json_of(std::get<core::EventRecord>(entry)));
  }
  return result;
}

} // namespace

std::string result_of(core::Ledger& ledger, const core::AttemptRecord& attempt) {
  if (!attempt.ended_at.empty()) {
    return attempt.result;
  }
  const core::Sighting sighting = ledger.look(attempt.key);
  const bool newest = sighting.run && sighting.run->run_id == attempt.run_id;
  return newest ? standing_of(sighting).word : std::string(core::name_of(core::RunStatus::unknown));
}

std::optional<std::chrono::milliseconds> duration_of(const core::AttemptRecord& attempt) {
  if (!attempt.exit_code && !attempt.signal) {
    return std::nullopt;
  }
  return between(attempt.claimed_at, attempt.ended_at);
}

int history(core::Ledger& ledger, const HistoryOptions& options, Output& output) {
  const std::vector<Entry> entries = merged(ledger, options.selection);
  if (output.json) {
    Json document = Json::array();
    for (const Entry& entry : entries) {
      document.push_back(json_of_entry(ledger, entry));
    }
    print(output, document);
    return 0;
  }
  if (entries.empty()) {
    if (output.terminal || options.selection.job) {
      output.remark("nothing to tell in the ledger " + printable(ledger.describe()));
    }
    return 0;
  }
  Table table({"WHEN", "JOB", "DATE", "#", "RESULT", "EXIT", "TOOK", "WHERE", "NOTE"});
  for (const Entry& entry : entries) {
    table.add(std::visit([&](const auto& record) { return row_of(ledger, record); }, entry));
  }
  table.print(output);
  return 0;
}

} // namespace oncerun::ops
