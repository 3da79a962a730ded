#pragma once

#include "core/names.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace oncerun::core {

/// A name-based UUID of `name` in oncerun's own namespace (RFC 9562, section 5.5: version 5), in
/// lower case. Used where a text becomes a file name or an idempotency key; never for secrets.
[[nodiscard]] std::string name_uuid(std::string_view name);

/// ONCERUN_KEY: the same for every attempt of (job, date, shard, generation). The parts are joined
/// by NUL, which occurs in none of them, so that no two runs share a key.
[[nodiscard]] std::string idempotency_key(const RunKey& run, std::optional<int> shard,
                                          int generation);

/// The hash of (job, date) by which ONCERUN_ANCESTORS names a run.
[[nodiscard]] std::string ancestor_hash(const RunKey& run);

} // namespace oncerun::core
