#include "ledger/database_error.hpp"

#include "os/file.hpp"

#include <cstring>

namespace oncerun::ledger {

using core::Outcome;

namespace {

std::string see_who_uses(const std::string& path) {
  return "see who uses it, for example with `fuser -v " + path + "`";
}

} // namespace

core::Error locked_error(const std::string& path, std::chrono::milliseconds wait) {
  const auto seconds = (wait.count() + 500) / 1000;
  return {Outcome::unavailable,
          path + ": locked by another process for " + std::to_string(seconds) + " s",
          see_who_uses(path)};
}

core::Error contended_error(const std::string& path, const std::string& text) {
  return {Outcome::unavailable, path + ": other processes kept it busy for too long (" + text + ")",
          see_who_uses(path)};
}

core::Error not_a_database_error(const std::string& path) {
  return {Outcome::config, path + " is not an SQLite database", "name another file with --ledger"};
}

core::Error damaged_error(const std::string& path, const std::string& text) {
  return {Outcome::config, path + " is damaged: " + text,
          "restore it from a backup, then see `oncerun ledger accept`"};
}

core::Error statement_error(const std::string& path, const std::string& text, bool misused) {
  return misused ? core::Error(Outcome::internal, path + ": " + text)
                 : damaged_error(path, "its tables do not fit: " + text);
}

core::Error access_error(Outcome outcome, bool reading, const std::string& path, int error,
                         const std::string& text) {
  const std::string owner = os::ownership(path);
  return {outcome,
          std::string("cannot ") + (reading ? "read" : "write") + " the ledger " + path +
              (owner.empty() ? "" : " (" + owner + ")") + ": " +
              (error != 0 ? std::strerror(error) : text),
          "the file, its -wal and -shm and their folder must be accessible to you"};
}

} // namespace oncerun::ledger
