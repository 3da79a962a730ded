#pragma once

#include <string>

namespace oncerun::ledger {

/// The file name under which SQLite opens a database for a look that changes no file (sqlite.org,
/// "Uniform Resource Identifiers" and "readonly_shm"). SQLite decodes %HH and ends the path at '?'
/// or '#', so those are encoded.
[[nodiscard]] std::string passive_uri(const std::string& path);

} // namespace oncerun::ledger
