#include "core/outcome.hpp"

#include <cstddef>

namespace oncerun::core {

const std::array<OutcomeRow, 18>& outcome_table() noexcept {
  static constexpr std::array<OutcomeRow, 18> k_table{{
      {Outcome::done, "done", 0, false, "done now, done before, or decided not to run (skipped)"},
      {Outcome::busy, "busy", 75, false,
       "another owner, or an orphaned tree, is running this date"},
      {Outcome::blocked, "blocked", 76, false, "the lock is held, nobody is running this date"},
      {Outcome::held, "held", 80, false, "not started; only a check or a person may say so"},
      {Outcome::unmet, "unmet", 83, false, "a job that this one needs is not done"},
      {Outcome::unavailable, "unavailable", 69, false, "lock or ledger cannot be reached"},
      {Outcome::unwritable, "unwritable", 73, false, "a mark cannot be made durable"},
      {Outcome::usage, "usage", 64, false, "wrong by the command line alone"},
      {Outcome::config, "config", 78, false, "at odds with what is stored, or where"},
      {Outcome::internal, "internal", 70, false, "a bug in oncerun"},
      {Outcome::unrecorded, "unrecorded", 81, true,
       "the command ended, its result is not recorded"},
      {Outcome::lost, "lost", 82, true,
       "the lock was lost and the command stopped, or the run went to another owner"},
      {Outcome::unconfirmed, "unconfirmed", 84, true, "exit 0 that --check-after did not confirm"},
      {Outcome::timeout, "timeout", 124, true, "the command was stopped by --timeout"},
      {Outcome::not_executable, "not-executable", 126, false, "the command cannot be executed"},
      {Outcome::not_found, "not-found", 127, false, "the command was not found"},
      {Outcome::command, "command", -1, true, "the command's own exit code"},
      {Outcome::signalled, "signalled", -1, true, "128+N: signal N ended the run"},
  }};
  return k_table;
}

const OutcomeRow& row_of(Outcome outcome) noexcept {
  return outcome_table()[static_cast<std::size_t>(outcome)];
}

std::string_view name_of(Outcome outcome) noexcept {
  return row_of(outcome).name;
}

std::optional<Outcome> outcome_named(std::string_view name) noexcept {
  for (const OutcomeRow& row : outcome_table()) {
    if (row.code >= 0 && row.name == name) {
      return row.outcome;
    }
  }
  return std::nullopt;
}

} // namespace oncerun::core
