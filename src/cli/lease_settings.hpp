#pragma once

#include "cli/settings.hpp"

namespace oncerun::cli {

// The options of a lock on a server. Each throws core::UsageError.

[[nodiscard]] LeaseSettings lease_settings(const Arguments& arguments);
/// For a lock that is not on a server.
void refuse_lease_options(const Arguments& arguments);
/// From --lock-password-file, else the URL, else ONCERUN_REDIS_PASSWORD, which is read inside a run
/// as well: it opens a door and decides nothing.
void take_redis_password(const Arguments& arguments, const Environment& environment,
                         lock::RedisUrl& url);

} // namespace oncerun::cli
