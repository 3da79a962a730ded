#include "core/scheduled_at.hpp"

#include "core/error.hpp"
#include "core/instant.hpp"
#include "core/text.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace oncerun::core {

namespace {

using std::chrono::sys_seconds;

constexpr std::chrono::days k_believed_ahead(1);
constexpr std::chrono::days k_job_believed_back(400);
constexpr std::string_view k_job_prefix = "k8s:";
/// 9999-12-31T23:59:59Z, the last instant that a label can name.
constexpr std::int64_t k_last_second = 253'402'300'799;

std::string value(std::string_view text) {
  return "--scheduled-at: " + quote(text);
}

sys_seconds of_job_name(std::string_view text, sys_seconds now) {
  const std::string_view name = text.substr(k_job_prefix.size());
  const std::size_t hyphen = name.rfind('-');
  const auto minutes = hyphen == std::string_view::npos || hyphen == 0
                           ? std::nullopt
                           : parse_number(name.substr(hyphen + 1), k_last_second / 60);
  if (!minutes) {
    throw UsageError(value(text) + " is not the name of a CronJob's Job",
                     "the controller names a Job NAME-MINUTES, minutes since 1970; take it from "
                     "the label batch.kubernetes.io/job-name");
  }
  const sys_seconds instant{std::chrono::minutes(*minutes)};
  if (instant < now - k_job_believed_back || instant > now + k_believed_ahead) {
    throw UsageError(value(text) + " would mean " + print_rfc3339(instant),
                     "a number from 400 days back to a day ahead is believed to be the scheduled "
                     "minute; a Job made by hand has another suffix: use --date");
  }
  return instant;
}

std::optional<sys_seconds> of_instant(std::string_view text) {
  if (text.starts_with('@')) {
    const auto since = parse_number(text.substr(1), k_last_second);
    return since ? std::optional(sys_seconds(std::chrono::seconds(*since))) : std::nullopt;
  }
  const auto instant = parse_rfc3339(text);
  return instant ? std::optional(std::chrono::floor<std::chrono::seconds>(*instant)) : std::nullopt;
}

} // namespace

sys_seconds parse_scheduled_at(std::string_view text, sys_seconds now) {
  if (text.starts_with(k_job_prefix)) {
    return of_job_name(text, now);
  }
  const std::optional<sys_seconds> instant = of_instant(text);
  if (!instant) {
    throw UsageError(value(text) + " is not an instant",
                     "write 2026-10-26T02:00:00+01:00, @1793000000 or k8s:JOB-NAME");
  }
  if (*instant > now + k_believed_ahead) {
    throw UsageError(value(text) + " lies more than a day ahead",
                     "it is " + print_rfc3339(now) + " by this host's clock");
  }
  return *instant;
}

} // namespace oncerun::core
