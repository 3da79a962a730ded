#include "ops/status.hpp"

#include "ops/json.hpp"
#include "ops/standing.hpp"
#include "ops/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace oncerun::ops {

namespace {

struct Line {
  core::Sighting sighting;
  Standing standing;
};

/// More hints than this scroll the table away; the table has them all.
constexpr std::size_t k_most_hints = 5;

std::vector<Line> lines_of(core::Ledger& ledger, const StatusOptions& options) {
  std::vector<Line> lines;
  for (core::Sighting& sighting : ledger.overview(options.job)) {
    if (sighting.run) {
      Standing standing = standing_of(sighting);
      lines.push_back({std::move(sighting), std::move(standing)});
    }
  }
  std::sort(lines.begin(), lines.end(), [](const Line& left, const Line& right) {
    const core::RunKey& a = left.sighting.run->key;
    const core::RunKey& b = right.sighting.run->key;
    if (left.standing.rank != right.standing.rank) {
      return left.standing.rank < right.standing.rank;
    }
    return a.job != b.job ? a.job < b.job : b.date < a.date; // the newest date first
  });
  return lines;
}

/// Jobs that the ledger knows without any run: pruned, or never claimed.
std::vector<core::JobRecord> idle_jobs(core::Ledger& ledger, const StatusOptions& options,
                                       const std::vector<Line>& lines) {
  std::set<core::JobName> shown;
  for (const Line& line : lines) {
    shown.insert(line.sighting.run->key.job);
  }
  std::vector<core::JobRecord> idle = ledger.jobs();
  std::erase_if(idle, [&](const core::JobRecord& job) {
    return shown.contains(job.job) || (options.job && job.job != *options.job);
  });
  return idle;
}

std::string duration_text(const core::Sighting& sighting, Instant now) {
  const auto duration = duration_of(sighting, now);
  return duration ? human_duration(*duration) : std::string();
}

Json json_of_line(const Line& line, Instant now) {
  Json entry = json_of(line.sighting.run->key, line.sighting);
  entry["since"] = text_or_null(since_of(*line.sighting.run));
  const auto duration = duration_of(line.sighting, now);
  entry["duration_ms"] = duration ? Json(duration->count()) : Json(nullptr);
  entry["period"] = line.sighting.job ? Json(line.sighting.job->period) : Json(nullptr);
  entry["zone"] = line.sighting.job ? Json(line.sighting.job->zone) : Json(nullptr);
  entry["why"] = text_or_null(line.standing.note);
  return entry;
}

Json json_of_idle(const core::JobRecord& job) {
  Json entry;
  entry["job"] = job.job.text();
  entry["biz_date"] = nullptr;
  entry["status"] = nullptr;
  entry["reads_as"] = "none";
  entry["unsettled"] = false;
  entry["period"] = job.period;
  entry["zone"] = job.zone;
  return entry;
}

void print_hint(const Line& line, const std::string& ledger_argument, Output& output) {
  const core::RunKey& key = line.sighting.run->key;
  const std::string arguments = run_arguments(key) + ledger_argument;
  const std::string note = line.standing.note.empty() ? "" : " (" + line.standing.note + ")";
  output.line("  " + run_name(key) + " " + output.painted(line.standing.word, line.standing.tone) +
              printable(note));
  output.line("    a start now " + next_start(line.sighting));
  output.line("    oncerun show " + arguments);
  const bool force = line.sighting.owner == core::OwnerLife::orphaned ||
                     line.sighting.owner == core::OwnerLife::not_provable;
  output.line("    oncerun resolve " + arguments + (force ? " --force" : "") +
              " --done|--ready|--skip --reason TEXT");
}

void print_hints(const std::vector<Line>& lines, const std::string& ledger_argument,
                 Output& output) {
  const auto count = static_cast<std::size_t>(std::count_if(
      lines.begin(), lines.end(), [](const Line& line) { return line.standing.unsettled; }));
  if (count == 0) {
    return;
  }
  output.line("");
  output.line(counted(count, "run") + " unsettled:");
  std::size_t printed = 0;
  for (const Line& line : lines) {
    if (line.standing.unsettled && printed < k_most_hints) {
      print_hint(line, ledger_argument, output);
      ++printed;
    }
  }
  if (printed < count) {
    output.line(fmt::format("  and {} more, all in the table above", count - printed));
  }
}

} // namespace

int status(core::Ledger& ledger, const StatusOptions& options, Output& output) {
  const std::vector<Line> lines = lines_of(ledger, options);
  const std::vector<core::JobRecord> idle = idle_jobs(ledger, options, lines);
  if (output.json) {
    Json document = Json::array();
    for (const Line& line : lines) {
      document.push_back(json_of_line(line, options.now));
    }
    for (const core::JobRecord& job : idle) {
      document.push_back(json_of_idle(job));
    }
    print(output, document);
    return 0;
  }
  if (lines.empty() && idle.empty()) {
    const std::string where = " in the ledger " + printable(ledger.describe());
    if (options.job) {
      output.remark("no run of " + printable(options.job->text()) + where);
    } else if (output.terminal) {
      output.line("no job has run yet" + where);
    }
    return 0;
  }
  Table table({"JOB", "DATE", "STATUS", "SINCE", "TOOK", "WHO", "NOTE"});
  for (const Line& line : lines) {
    const core::RunRecord& run = *line.sighting.run;
    table.add({run.key.job.text(),
               run.key.date.label(),
               {line.standing.word, line.standing.tone},
               human_instant(since_of(run)),
               duration_text(line.sighting, options.now),
               who_of(line.sighting),
               line.standing.note});
  }
  for (const core::JobRecord& job : idle) {
    table.add({job.job.text(), "-", {"none", Tone::faint}, "-", "-", "-", "no run is kept"});
  }
  table.print(output);
  print_hints(lines, options.ledger_argument, output);
  return 0;
}

} // namespace oncerun::ops
