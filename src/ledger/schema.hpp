#pragma once

#include "ledger/sqlite_db.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace oncerun::ledger {

/// The version of the tables that this program writes. An older one is migrated by the first claim
/// (or other write), a newer one is refused and never changed.
constexpr int k_schema_version = 1;

/// SQL that takes the schema from version `to - 1` to `to`.
struct Migration {
  int to;
  const char* sql;
};
/// In ascending order of `to`, without gaps, ending at k_schema_version.
[[nodiscard]] std::span<const Migration> migrations() noexcept;

/// The one row of oncerun_meta.
struct Meta {
  std::string ledger_id;
  std::string life_id; ///< of the liveness file when the last attempt was claimed
  std::int64_t last_serial = 0;
  /// The highest of all jobs, and one more for each change since: what tells a restored copy.
  std::int64_t last_token = 0;
  bool has_spools = false; ///< whether oncerun_spool has a row
};

/// The version that stands in the file; nullopt if it holds no ledger. Throws Error (config) when
/// oncerun_meta is somebody else's table.
[[nodiscard]] std::optional<int> schema_version(Database& database);

/// For reading: whether there is a ledger in the file that this program can read. Throws Error
/// (config) for a newer or older schema.
[[nodiscard]] bool is_readable(Database& database);

/// Before anything of a file is changed, its journal mode included: refuses (config) one in which a
/// ledger cannot be made or kept.
void refuse_unusable(Database& database);

/// Within a write transaction: creates what is missing in a file without a ledger (also beside an
/// application's own tables, but never over one with a name of ours: config), migrates an older
/// ledger step by step, and refuses a newer one (config). Returns whether it made the tables.
bool ensure_schema(Database& database, int version = k_schema_version,
                   std::span<const Migration> steps = migrations());

/// Within a write transaction: counts a change of the ledger in the highest token, and returns it.
[[nodiscard]] std::int64_t count_change(Database& database);

/// Within a write transaction, of a ledger that has just this schema: saves what ensure_schema()
/// and read_meta() would cost. nullopt for anything else. Makes the indexes that somebody dropped.
[[nodiscard]] std::optional<Meta> read_current_meta(Database& database);
/// A serial or a token, which only ever grow by ones and by milliseconds: Error (config) for one
/// that is negative or so large that somebody must have written it by hand.
[[nodiscard]] std::int64_t read_counter(const Statement& statement, int column);
[[nodiscard]] Meta read_meta(Database& database);
void write_meta(Database& database, const Meta& meta);

} // namespace oncerun::ledger
