#pragma once

// The one place that includes it: sqlite_db.cpp and sqlite_files.cpp get it from here.
#include <sqlite3.h>

namespace oncerun::ledger {

/// The name under which connections find the thin layer over SQLite's own file access.
inline constexpr const char* k_vfs_name = "oncerun";

/// Once a process, before anything else of SQLite. Throws Error (internal).
void initialise_library();

/// While a passive look goes on. SQLite before 3.51 cannot read, without its shared memory, a WAL
/// that has a header and nothing else (a process died there): it tries a hundred times with ever
/// longer pauses, ten seconds in all, before it says SQLITE_PROTOCOL. Then another access works at
/// once, so the pauses are kept short.
class Looking {
 public:
  explicit Looking(bool passive) noexcept;
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;
  ~Looking();
};

} // namespace oncerun::ledger
