#pragma once

#include "core/names.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace oncerun::core {

/// The JSON state file's document. Three fields are the format that other scripts read and write
/// (lastPublishedDate, status, pendingDate); the others are oncerun's own and optional.
/// Unknown keys are kept, in their order.
struct StateDocument {
  enum class Status : std::uint8_t { none, pending, done, failed, unknown };

  std::optional<BizDate> last_published;
  std::optional<BizDate> pending_date;
  Status status = Status::none;

  std::string job;   ///< empty: the file names none
  std::string every; ///< canonical period; empty: the file names none

  // Only where the state file alone is the truth (--ledger none).
  std::string zone;
  /// "skippedDate": the newest date that an operator decided not to run; none at or below it runs.
  std::optional<BizDate> skipped_date;
  std::string run_id;
  std::int64_t token = 0;
  std::int64_t serial = 0;
  int attempts = 0;
  int generation = 1;
  bool never_started = false;
  bool ready = false;
  bool end_recorded = true;
  std::string host;
  std::string machine_id;
  std::string boot_id;
  std::string life_id;
  std::uint64_t pid_namespace = 0;
  long pid = 0;
  std::string started_at;
  std::string updated_at;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string note;

  /// The keys that oncerun does not know, as one JSON object's text; "{}" if there are none.
  std::string unknown_keys = "{}";
};

/// Thrown text says what is wrong, without the file's name: "byte 12: …", "status is \"zzz\"".
class StateDocumentError : public std::exception {
 public:
  explicit StateDocumentError(std::string what) : m_what(std::move(what)) {}
  [[nodiscard]] const char* what() const noexcept override { return m_what.c_str(); }

 private:
  std::string m_what;
};

/// Accepts a UTF-8 byte order mark, CRLF and unknown keys. Throws StateDocumentError for anything
/// that cannot be read as such: empty text, broken JSON, a key of ours twice, wrong types, an
/// unknown status, dates that are no labels; a status in doubt without a pendingDate, or `done`
/// with one that is later than lastPublishedDate. null is absent; a pendingDate without a status is
/// pending. Whether the dates fit the job's period and lie in the past is the caller's check.
[[nodiscard]] StateDocument parse_state(std::string_view text);
/// One object, two-space indent, a final newline; the three fields first, the unknown keys last.
/// Private members with their usual values (empty, zero, generation 1, a recorded end) are left
/// out.
[[nodiscard]] std::string print_state(const StateDocument& document);

/// "it belongs to the job "other"", "its period is "hour", not day"; empty if the document names no
/// other job and no other period (canonical text) than these.
[[nodiscard]] std::string why_not_this_job(const StateDocument& document, std::string_view job,
                                           std::string_view every);

/// The version of the JSON library, for --version.
[[nodiscard]] std::string json_library_version();

} // namespace oncerun::core
