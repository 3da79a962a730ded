#include "ops/job_set.hpp"

#include "core/error.hpp"
#include "ops/human.hpp"
#include "ops/json.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace oncerun::ops {

namespace {

std::optional<core::JobRecord> find_job(core::Ledger& ledger, const core::JobName& name) {
  std::vector<core::JobRecord> jobs = ledger.jobs();
  const auto found = std::find_if(jobs.begin(), jobs.end(),
                                  [&name](const core::JobRecord& job) { return job.job == name; });
  return found == jobs.end() ? std::nullopt : std::optional(*found);
}

std::string words(const std::string& period, const std::string& zone) {
  return "every " + printable(period) + " in " + printable(zone);
}

} // namespace

int job_set(core::Ledger& ledger, const JobSetOptions& options, const core::StopRequest& stop,
            Output& output) {
  if (options.period.empty() && options.zone.empty()) {
    throw core::UsageError("job set needs --every, --tz, or both");
  }
  const std::optional<core::JobRecord> before = find_job(ledger, options.job);
  ledger.set_job(options.job, options.period, options.zone, options.by, stop);
  const std::optional<core::JobRecord> after = find_job(ledger, options.job);
  if (!after) {
    throw core::Error(core::Outcome::internal,
                      "the job " + printable(options.job.text()) + " is gone after it was set");
  }
  if (output.json) {
    Json document;
    document["before"] = before ? json_of(*before) : Json(nullptr);
    document["after"] = json_of(*after);
    print(output, document);
    return 0;
  }
  output.line(printable(options.job.text()) + ": " + words(after->period, after->zone) +
              (before ? " (was: " + words(before->period, before->zone) + ")" : ""));
  return 0;
}

} // namespace oncerun::ops
