#include "core/ending.hpp"

#include <cerrno>
#include <cstring>

namespace oncerun::core {

namespace {

/// How shells report a child that a signal killed: 128 + N, N from 1 to 31.
constexpr int k_shell_signal_first = 129;
constexpr int k_shell_signal_last = 159;
constexpr int k_signal_base = 128;

Verdict judge_not_started(const Ending& ending) noexcept {
  Verdict verdict{RunStatus::failed, true, Outcome::unavailable, 0, false};
  if (ending.stop_signal != 0) {
    verdict.outcome = Outcome::signalled;
    verdict.exit_code = k_signal_base + ending.stop_signal;
    return verdict;
  }
  if (ending.exec_failed) {
    const bool missing = ending.start_error == ENOENT;
    verdict.outcome = missing ? Outcome::not_found : Outcome::not_executable;
  }
  verdict.exit_code = row_of(verdict.outcome).code;
  return verdict;
}

Verdict with_code(RunStatus status, Outcome outcome, bool cut_short) noexcept {
  return {status, false, outcome, row_of(outcome).code, cut_short};
}

} // namespace

bool is_cut_short(const Ending& ending, const ExitCodes& unknown_exit) noexcept {
  if (!ending.started) {
    return false;
  }
  // An ending that says neither code nor signal is not known to have been a normal one.
  const bool ended_by_itself = ending.exit_code.has_value() && !ending.signal;
  if (!ended_by_itself || ending.stop_signal != 0 || ending.timed_out || ending.lost) {
    return true;
  }
  const int code = *ending.exit_code;
  const bool shell_signal = code >= k_shell_signal_first && code <= k_shell_signal_last;
  return shell_signal || (code > 0 && code < 256 && unknown_exit[static_cast<std::size_t>(code)]);
}

bool wants_check_after(const Ending& ending, const ExitCodes& unknown_exit) noexcept {
  return ending.started && ending.exit_code == 0 && !is_cut_short(ending, unknown_exit);
}

Verdict judge(const Ending& ending, const ExitCodes& unknown_exit,
              std::optional<CheckAnswer> confirmed) noexcept {
  if (!ending.started) {
    return judge_not_started(ending);
  }
  const bool cut_short = is_cut_short(ending, unknown_exit);
  if (ending.lost) {
    return with_code(RunStatus::unknown, Outcome::lost, true);
  }
  if (ending.timed_out) {
    return with_code(RunStatus::unknown, Outcome::timeout, true);
  }
  if (confirmed && !cut_short && ending.exit_code == 0) {
    switch (*confirmed) {
    case CheckAnswer::present:
      return with_code(RunStatus::done, Outcome::done, false);
    case CheckAnswer::absent:
      return with_code(RunStatus::failed, Outcome::unconfirmed, false);
    case CheckAnswer::unclear:
      return with_code(RunStatus::unknown, Outcome::unconfirmed, false);
    }
  }
  if (ending.signal) {
    return {RunStatus::unknown, false, Outcome::signalled, k_signal_base + *ending.signal, true};
  }
  if (!ending.exit_code) {
    return with_code(RunStatus::unknown, Outcome::internal, true);
  }
  const int code = *ending.exit_code;
  if (ending.stop_signal != 0 && code == 0) {
    return {RunStatus::unknown, false, Outcome::signalled, k_signal_base + ending.stop_signal,
            true};
  }
  if (cut_short) {
    return {RunStatus::unknown, false, Outcome::command, code, true};
  }
  if (code == 0) {
    return with_code(RunStatus::done, Outcome::done, false);
  }
  return {RunStatus::failed, false, Outcome::command, code, false};
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string(name) : "SIG" + std::to_string(signal);
}

std::string describe(const Ending& ending) {
  if (!ending.started) {
    if (ending.stop_signal != 0) {
      return "stopped by " + signal_name(ending.stop_signal) + " before the start";
    }
    return std::string("could not be started: ") + std::strerror(ending.start_error);
  }
  std::string text = "ended, nobody knows how";
  if (ending.signal) {
    text = "killed by signal " + std::to_string(*ending.signal) + " (" +
           signal_name(*ending.signal) + ")";
  } else if (ending.exit_code) {
    text = "exit " + std::to_string(*ending.exit_code);
  }
  if (ending.lost) {
    text += " after the lock was lost";
  } else if (ending.timed_out) {
    text += " after --timeout";
  } else if (ending.stop_signal != 0) {
    text += " after " + signal_name(ending.stop_signal);
  }
  return text;
}

} // namespace oncerun::core
