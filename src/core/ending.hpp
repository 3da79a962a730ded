#pragma once

#include "core/decide.hpp"
#include "core/outcome.hpp"

#include <bitset>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace oncerun::core {

/// Resources used by the command and the children it waited for; see getrusage(2).
struct Usage {
  std::chrono::microseconds user{0};
  std::chrono::microseconds system{0};
  std::int64_t max_rss_kib = 0;
};

/// How a supervised command ended: facts only.
struct Ending {
  /// False: execve itself failed, or the process could not be made; `start_error` says why.
  bool started = false;
  /// errno of execve or of the step before it; 0 if started, or if a signal came before the start.
  int start_error = 0;
  /// Whether `start_error` is execve's own.
  bool exec_failed = false;
  std::optional<int> exit_code;
  /// The signal that ended the command.
  std::optional<int> signal;
  /// The first TERM, INT or QUIT that oncerun saw, whoever it reached; 0 for none.
  int stop_signal = 0;
  bool timed_out = false;
  /// The lock under which it ran was lost, or about to end, and so it was stopped.
  bool lost = false;
  /// Processes of the tree are left that could not be ended (uninterruptible sleep).
  bool tree_left = false;
  Usage usage;
};

using ExitCodes = std::bitset<256>;

/// What a run has come to.
struct Verdict {
  RunStatus status = RunStatus::unknown;
  bool never_started = false;
  Outcome outcome = Outcome::internal;
  int exit_code = 70; ///< of oncerun
  bool cut_short = false;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// Whether the ending was cut short (design, section 2): then the rest of the tree must be ended
/// before anything is committed.
[[nodiscard]] bool is_cut_short(const Ending& ending, const ExitCodes& unknown_exit) noexcept;

/// Whether --check-after has to be asked about this ending.
[[nodiscard]] bool wants_check_after(const Ending& ending, const ExitCodes& unknown_exit) noexcept;

/// Turns facts into status, outcome and exit code. `confirmed` is the answer of --check-after where
/// it was asked. The order of precedence is that of the design's section 6.
[[nodiscard]] Verdict judge(const Ending& ending, const ExitCodes& unknown_exit,
                            std::optional<CheckAnswer> confirmed = std::nullopt) noexcept;

/// "exit 3", "killed by signal 9 (KILL)", "exit 143 after --timeout", "exit 0 after TERM", "could
/// not be started: …": for a line on stderr.
[[nodiscard]] std::string describe(const Ending& ending);

/// "TERM" for 15; "SIG64" where there is no name.
[[nodiscard]] std::string signal_name(int signal);

} // namespace oncerun::core
