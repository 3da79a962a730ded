#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace oncerun::core {

/// What an invocation of oncerun came to. The names and codes are part of the command line
/// (`--exit NAME=CODE`, the report, the man page's table); the codes follow sysexits(3) where one
/// fits, and timeout(1) and sh(1) for 124, 126 and 127.
enum class Outcome : std::uint8_t {
  done,
  busy,
  blocked,
  held,
  unmet,
  unavailable,
  unwritable,
  usage,
  config,
  internal,
  unrecorded,
  lost,
  unconfirmed,
  timeout,
  not_executable,
  not_found,
  /// The command ended by itself with a code of its own, which is passed on.
  command,
  /// A signal ended the command, or came before the start: 128 + N.
  signalled,
};

struct OutcomeRow {
  Outcome outcome;
  std::string_view name;
  int code;     ///< exit code; -1 where it depends on the command
  bool started; ///< whether the command was started in this invocation
  std::string_view meaning;
};

/// Every outcome once, in the order in which the man page lists them.
[[nodiscard]] const std::array<OutcomeRow, 18>& outcome_table() noexcept;
[[nodiscard]] const OutcomeRow& row_of(Outcome outcome) noexcept;
[[nodiscard]] std::string_view name_of(Outcome outcome) noexcept;
/// The outcome called `name` that has a code of its own; none for `command` and `signalled`.
[[nodiscard]] std::optional<Outcome> outcome_named(std::string_view name) noexcept;

} // namespace oncerun::core
