#pragma once

#include <chrono>
#include <string_view>

namespace oncerun::core {

/// What `--scheduled-at` (or ONCERUN_SCHEDULED_AT) means: an RFC 3339 date-time with its offset,
/// `@SECONDS` since 1970, or `k8s:JOB-NAME`, where Kubernetes' CronJob controller has put the
/// scheduled minute, counted from 1970, behind the last hyphen of the Job's name. Fractions are cut
/// off. Nothing is believed that lies more than a day ahead of `now`, nor a Job's name that lies
/// more than 400 days back: another number stands there then. Throws UsageError.
[[nodiscard]] std::chrono::sys_seconds parse_scheduled_at(std::string_view text,
                                                          std::chrono::sys_seconds now);

} // namespace oncerun::core
