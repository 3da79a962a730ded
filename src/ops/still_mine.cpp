#include "ops/still_mine.hpp"

#include "core/error.hpp"
#include "core/text.hpp"
#include "ops/human.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace oncerun::ops {

namespace {

constexpr std::int64_t k_max_token = (std::int64_t{1} << 59) - 1;

const std::string& required(const std::string& value, std::string_view name) {
  if (value.empty()) {
    throw core::UsageError(std::string(name) + " is not set",
                           "still-mine is asked by a command that oncerun started");
  }
  return value;
}

core::Token token_of(const std::string& text) {
  const std::optional<std::int64_t> value =
      core::parse_number(required(text, "ONCERUN_TOKEN"), k_max_token);
  if (!value) {
    throw core::UsageError("ONCERUN_TOKEN is not a number: " + printable(text),
                           "still-mine needs the environment as oncerun made it");
  }
  return {*value};
}

bool ask(const OpenLedger& open, const core::RunKey& key, const std::string& run_id,
         core::Token token) {
  std::unique_ptr<core::Ledger> ledger;
  try {
    ledger = open();
    return ledger->still_mine(key, run_id, token);
  } catch (const core::Error& error) {
    const bool outside_a_run = !ledger && error.outcome() == core::Outcome::usage;
    throw core::Error(outside_a_run ? core::Outcome::usage : core::Outcome::unavailable,
                      error.what(), error.hint());
  }
}

} // namespace

int still_mine(const OpenLedger& open, const StillMineOptions& options, Output& output) {
  const core::RunKey key{core::JobName::parse(required(options.job, "ONCERUN_JOB")),
                         core::BizDate(required(options.date, "ONCERUN_BIZ_DATE"))};
  const std::string& run_id = required(options.run_id, "ONCERUN_RUN_ID");
  const core::Token token = token_of(options.token);
  const bool mine = ask(open, key, run_id, token);
  if (options.verbose) {
    output.line(run_name(key) + (mine ? " still is this attempt's" : " is not this attempt's"));
  }
  return core::row_of(mine ? core::Outcome::done : core::Outcome::lost).code;
}

} // namespace oncerun::ops
