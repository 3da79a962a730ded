#pragma once

#include <cstdint>
#include <string_view>

namespace oncerun::core {

/// What to do about a doubt when nobody can be asked (design, section 2).
enum class Guarantee : std::uint8_t { cautious, at_least_once, at_most_once };

/// The status of a run as its row says it.
enum class RunStatus : std::uint8_t { pending, done, failed, unknown, ready, skipped };

/// What is known of the owner of a run's newest attempt.
enum class OwnerLife : std::uint8_t {
  /// No attempt, or its end is recorded and its owner is gone.
  settled,
  /// The owner holds its liveness byte (also between retries).
  alive,
  /// The end is not recorded; the owner is gone, its tree is not.
  orphaned,
  /// The end is not recorded; owner and tree are proven gone.
  dead,
  /// The end is not recorded, and this host cannot prove anything about the owner.
  not_provable,
};

/// What stands in the ledger about a run, as far as deciding goes.
enum class RowState : std::uint8_t {
  none,
  done,
  skipped,
  ready,
  failed,
  never_started, ///< failed, and known never to have been started
  unknown,
  late_success, ///< unknown, and a late success of an older attempt is noted
  pending,
};

struct Situation {
  RowState row = RowState::none;
  OwnerLife owner = OwnerLife::settled;
  bool at_or_below_floor = false;
  Guarantee guarantee = Guarantee::cautious;
  bool has_check = false;
  bool check_first = false;
  bool rerun = false;
};

enum class Action : std::uint8_t {
  leave,                ///< final: exit 0
  busy,                 ///< somebody runs it
  hold,                 ///< nothing starts, nothing changes
  start,                ///< claim and start
  start_new_generation, ///< claim and start after a deliberate --rerun
  ask,                  ///< run the check first
};

enum class Reason : std::uint8_t {
  first_time,
  owner_alive,
  owner_orphaned,
  owner_not_provable,
  already_done,
  already_skipped,
  rerun_asked,
  below_floor,
  never_started,
  made_ready,
  failed_before,
  in_doubt,
  late_success_noted,
  check_first_asked,
  /// A state file of a job that the ledger does not know cannot be read. Not of decide(): a ledger
  /// says so instead of asking it.
  evidence_unreadable,
};

struct Decision {
  Action action;
  Reason reason;
  friend bool operator==(const Decision&, const Decision&) = default;
};

/// The table of the design's section 5; the first line that matches wins. Pure.
[[nodiscard]] Decision decide(const Situation& situation) noexcept;

/// What one call of the downstream check said.
enum class CheckAnswer : std::uint8_t {
  present, ///< the effect happened
  absent,  ///< the effect did not happen
  unclear, ///< another code, a signal, a timeout, cannot be run
};

enum class AfterCheck : std::uint8_t {
  mark_done,
  start,
  ask_again, ///< after --check-settle: a request of the dead owner may still be on its way
  hold,
};

/// What an answer means for a run in state `row`; `absent_before` says whether the check already
/// answered absent once in this invocation. After a doubt absent counts only when said twice.
[[nodiscard]] AfterCheck after_check(RowState row, CheckAnswer answer, bool absent_before) noexcept;

/// The run's row in terms of deciding.
[[nodiscard]] RowState row_state(RunStatus status, bool never_started, bool late_success) noexcept;

/// ONCERUN_PREVIOUS for an attempt that follows a row in this state: none, failed, never-started,
/// unknown, ready, done, skipped.
[[nodiscard]] std::string_view previous_name(RowState row) noexcept;

/// What a run is once an attempt of it was given back as never started.
struct GivenBack {
  RunStatus status;
  bool never_started;
  bool late_success;
  friend bool operator==(const GivenBack&, const GivenBack&) = default;
};

/// An attempt that did not happen proves nothing about the one before it: a failure or a doubt
/// stays what it was, also where a check had said that nothing happened: that is as old as the
/// attempt by the time of the next one, which asks again. `previous` is the history_name of what
/// stood there.
[[nodiscard]] GivenBack given_back(std::string_view previous) noexcept;

/// The previous_name, except that a late success keeps a name of its own in the history.
[[nodiscard]] std::string_view history_name(RowState row) noexcept;

[[nodiscard]] std::string_view name_of(RunStatus status) noexcept;
[[nodiscard]] std::string_view name_of(Guarantee guarantee) noexcept;
[[nodiscard]] std::string_view name_of(OwnerLife life) noexcept;
/// One clause for a person, without the names of job and date.
[[nodiscard]] std::string_view explain(Reason reason) noexcept;

} // namespace oncerun::core
