#include "core/decide.hpp"

namespace oncerun::core {

namespace {

Decision decide_never_begun(const Situation& s, Reason reason) noexcept {
  if (s.check_first) {
    return {Action::ask, Reason::check_first_asked};
  }
  return {Action::start, reason};
}

Decision decide_failed(const Situation& s) noexcept {
  if (s.has_check) {
    return {Action::ask, Reason::failed_before};
  }
  if (s.guarantee == Guarantee::at_most_once) {
    return {Action::hold, Reason::failed_before};
  }
  return {Action::start, Reason::failed_before};
}

Decision decide_doubt(const Situation& s) noexcept {
  if (s.has_check) {
    return {Action::ask, Reason::in_doubt};
  }
  if (s.guarantee == Guarantee::at_least_once) {
    return {Action::start, Reason::in_doubt};
  }
  return {Action::hold, Reason::in_doubt};
}

} // namespace

Decision decide(const Situation& s) noexcept {
  switch (s.owner) {
  case OwnerLife::alive:
    return {Action::busy, Reason::owner_alive};
  case OwnerLife::orphaned:
    return {Action::busy, Reason::owner_orphaned};
  case OwnerLife::not_provable:
    return {Action::hold, Reason::owner_not_provable};
  case OwnerLife::settled:
  case OwnerLife::dead:
    break;
  }
  switch (s.row) {
  case RowState::done:
  case RowState::skipped: {
    if (s.rerun) {
      return {Action::start_new_generation, Reason::rerun_asked};
    }
    const bool done = s.row == RowState::done;
    return {Action::leave, done ? Reason::already_done : Reason::already_skipped};
  }
  case RowState::none:
    if (s.at_or_below_floor) {
      return {Action::hold, Reason::below_floor};
    }
    return decide_never_begun(s, Reason::first_time);
  case RowState::never_started:
    return decide_never_begun(s, Reason::never_started);
  case RowState::ready:
    return {Action::start, Reason::made_ready};
  case RowState::failed:
    return decide_failed(s);
  case RowState::late_success:
    if (s.has_check) {
      return {Action::ask, Reason::late_success_noted};
    }
    return {Action::hold, Reason::late_success_noted};
  case RowState::unknown:
  case RowState::pending:
    return decide_doubt(s);
  }
  return {Action::hold, Reason::in_doubt};
}

AfterCheck after_check(RowState row, CheckAnswer answer, bool absent_before) noexcept {
  switch (answer) {
  case CheckAnswer::present:
    return AfterCheck::mark_done;
  case CheckAnswer::unclear:
    return AfterCheck::hold;
  case CheckAnswer::absent:
    break;
  }
  const bool doubt =
      row == RowState::unknown || row == RowState::pending || row == RowState::late_success;
  return doubt && !absent_before ? AfterCheck::ask_again : AfterCheck::start;
}

RowState row_state(RunStatus status, bool never_started, bool late_success) noexcept {
  switch (status) {
  case RunStatus::pending:
    return RowState::pending;
  case RunStatus::done:
    return RowState::done;
  case RunStatus::failed:
    return never_started ? RowState::never_started : RowState::failed;
  case RunStatus::unknown:
    return late_success ? RowState::late_success : RowState::unknown;
  case RunStatus::ready:
    return RowState::ready;
  case RunStatus::skipped:
    return RowState::skipped;
  }
  return RowState::unknown;
}

std::string_view previous_name(RowState row) noexcept {
  switch (row) {
  case RowState::none:
    return "none";
  case RowState::done:
    return "done";
  case RowState::skipped:
    return "skipped";
  case RowState::ready:
    return "ready";
  case RowState::failed:
    return "failed";
  case RowState::never_started:
    return "never-started";
  case RowState::unknown:
  case RowState::late_success:
  case RowState::pending:
    break;
  }
  return "unknown";
}

std::string_view history_name(RowState row) noexcept {
  return row == RowState::late_success ? "late-success" : previous_name(row);
}

GivenBack given_back(std::string_view previous) noexcept {
  if (previous == history_name(RowState::failed)) {
    return {RunStatus::failed, false, false};
  }
  if (previous == history_name(RowState::unknown)) {
    return {RunStatus::unknown, false, false};
  }
  if (previous == history_name(RowState::late_success)) {
    return {RunStatus::unknown, false, true};
  }
  return {RunStatus::failed, true, false};
}

std::string_view name_of(RunStatus status) noexcept {
  switch (status) {
  case RunStatus::pending:
    return "pending";
  case RunStatus::done:
    return "done";
  case RunStatus::failed:
    return "failed";
  case RunStatus::unknown:
    return "unknown";
  case RunStatus::ready:
    return "ready";
  case RunStatus::skipped:
    return "skipped";
  }
  return "unknown";
}

std::string_view name_of(Guarantee guarantee) noexcept {
  switch (guarantee) {
  case Guarantee::cautious:
    return "cautious";
  case Guarantee::at_least_once:
    return "at-least-once";
  case Guarantee::at_most_once:
    return "at-most-once";
  }
  return "cautious";
}

std::string_view name_of(OwnerLife life) noexcept {
  switch (life) {
  case OwnerLife::settled:
    return "settled";
  case OwnerLife::alive:
    return "alive";
  case OwnerLife::orphaned:
    return "orphaned";
  case OwnerLife::dead:
    return "dead";
  case OwnerLife::not_provable:
    return "not-provable";
  }
  return "not-provable";
}

std::string_view explain(Reason reason) noexcept {
  switch (reason) {
  case Reason::first_time:
    return "it was never started";
  case Reason::owner_alive:
    return "another oncerun is running it";
  case Reason::owner_orphaned:
    return "its oncerun is gone, but the command it started still runs";
  case Reason::owner_not_provable:
    return "whether its last owner still lives cannot be proven from here";
  case Reason::already_done:
    return "it is done";
  case Reason::already_skipped:
    return "it was decided that it shall not run";
  case Reason::rerun_asked:
    return "--rerun begins a new generation";
  case Reason::below_floor:
    return "it is not newer than dates settled before this ledger kept them";
  case Reason::never_started:
    return "the command could not be started last time";
  case Reason::made_ready:
    return "an operator made it ready";
  case Reason::failed_before:
    return "the last attempt failed";
  case Reason::in_doubt:
    return "the last attempt was cut short, and nobody knows how much of it happened";
  case Reason::late_success_noted:
    return "an older attempt reported success after a newer one had begun";
  case Reason::check_first_asked:
    return "--check-first asks before the first attempt";
  case Reason::evidence_unreadable:
    return "the ledger does not know the job, and its state file cannot be read";
  }
  return "";
}

} // namespace oncerun::core
