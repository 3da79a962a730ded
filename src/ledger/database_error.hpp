#pragma once

#include "core/error.hpp"

#include <chrono>
#include <string>

namespace oncerun::ledger {

// What is said of a database file when SQLite refuses, in oncerun's words.

/// Somebody held it for all of `wait`.
[[nodiscard]] core::Error locked_error(const std::string& path, std::chrono::milliseconds wait);
/// SQLite itself gave up after its own tries.
[[nodiscard]] core::Error contended_error(const std::string& path, const std::string& text);
[[nodiscard]] core::Error not_a_database_error(const std::string& path);
[[nodiscard]] core::Error damaged_error(const std::string& path, const std::string& text);
/// SQLite refused a statement, or a constraint did: somebody changed the tables, unless it was
/// `misused` by us.
[[nodiscard]] core::Error statement_error(const std::string& path, const std::string& text,
                                          bool misused);
/// `error` is an errno, 0 where none is known: then `text` says what SQLite says.
[[nodiscard]] core::Error access_error(core::Outcome outcome, bool reading, const std::string& path,
                                       int error, const std::string& text);

} // namespace oncerun::ledger
