#include "core/ending.hpp"
#include "core/exit_codes.hpp"
#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <csignal>

namespace core = oncerun::core;
using core::CheckAnswer;
using core::Ending;
using core::Outcome;
using core::RunStatus;
using core::Verdict;

namespace {

const core::ExitCodes k_unknown = core::parse_exit_codes(core::k_default_unknown_exit, "--x");

Ending exited(int code) {
  Ending ending;
  ending.started = true;
  ending.exit_code = code;
  return ending;
}

Ending killed(int signal) {
  Ending ending;
  ending.started = true;
  ending.signal = signal;
  return ending;
}

Ending after_stop(Ending ending, int signal) {
  ending.stop_signal = signal;
  return ending;
}

Ending lost(Ending ending) {
  ending.lost = true;
  return ending;
}

Ending timed_out(Ending ending) {
  ending.timed_out = true;
  return ending;
}

Ending not_started(int error, bool by_exec) {
  Ending ending;
  ending.start_error = error;
  ending.exec_failed = by_exec;
  return ending;
}

Verdict judge(const Ending& ending, std::optional<CheckAnswer> confirmed = std::nullopt) {
  return core::judge(ending, k_unknown, confirmed);
}

Verdict unknown_with(Outcome outcome, int code) {
  return {RunStatus::unknown, false, outcome, code, true};
}

} // namespace

TEST_CASE("a normal end is done at 0 and failed at everything else") {
  CHECK(judge(exited(0)) == Verdict{RunStatus::done, false, Outcome::done, 0, false});
  for (const int code : {1, 2, 64, 75, 79, 83, 123, 125, 126, 127, 128, 160, 255}) {
    CAPTURE(code);
    CHECK(judge(exited(code)) == Verdict{RunStatus::failed, false, Outcome::command, code, false});
  }
}

TEST_CASE("129 to 159 is how a shell reports a killed child, and a listed code means not known") {
  for (int code = 129; code <= 159; ++code) {
    CAPTURE(code);
    CHECK(judge(exited(code)) == unknown_with(Outcome::command, code));
  }
  for (const int code : {80, 81, 82, 84, 124}) {
    CAPTURE(code);
    CHECK(judge(exited(code)) == unknown_with(Outcome::command, code));
    CHECK(core::judge(exited(code), {}).status == RunStatus::failed);
  }
}

TEST_CASE("a listed 0 changes nothing") {
  core::ExitCodes all;
  all.set();
  CHECK(core::judge(exited(0), all).status == RunStatus::done);
}

TEST_CASE("a command that a signal ended is unknown and exits 128+N") {
  CHECK(judge(killed(SIGKILL)) == unknown_with(Outcome::signalled, 137));
  CHECK(judge(killed(SIGSEGV)) == unknown_with(Outcome::signalled, 139));
  CHECK(judge(after_stop(killed(SIGKILL), SIGTERM)) == unknown_with(Outcome::signalled, 137));
}

TEST_CASE("after a stop signal no exit code proves anything") {
  // A handler that exits 0 half done must not look like success.
  CHECK(judge(after_stop(exited(0), SIGTERM)) == unknown_with(Outcome::signalled, 143));
  CHECK(judge(after_stop(exited(0), SIGINT)) == unknown_with(Outcome::signalled, 130));
  CHECK(judge(after_stop(exited(7), SIGTERM)) == unknown_with(Outcome::command, 7));
}

TEST_CASE("a timeout goes before whatever the command made of it") {
  CHECK(judge(timed_out(exited(0))) == unknown_with(Outcome::timeout, 124));
  CHECK(judge(timed_out(exited(143))) == unknown_with(Outcome::timeout, 124));
  CHECK(judge(lost(exited(0))) == unknown_with(Outcome::lost, 82));
  CHECK(judge(lost(killed(SIGKILL))) == unknown_with(Outcome::lost, 82));
  CHECK(judge(lost(timed_out(exited(3)))) == unknown_with(Outcome::lost, 82));
  CHECK(judge(after_stop(lost(exited(0)), SIGTERM)) == unknown_with(Outcome::lost, 82));
  CHECK(judge(timed_out(killed(SIGKILL))) == unknown_with(Outcome::timeout, 124));
  CHECK(judge(after_stop(timed_out(exited(0)), SIGTERM)) == unknown_with(Outcome::timeout, 124));
}

TEST_CASE("what was never started is known as such") {
  const auto never = [](Outcome outcome, int code) {
    return Verdict{RunStatus::failed, true, outcome, code, false};
  };
  CHECK(judge(not_started(ENOENT, true)) == never(Outcome::not_found, 127));
  CHECK(judge(not_started(EACCES, true)) == never(Outcome::not_executable, 126));
  CHECK(judge(not_started(ENOEXEC, true)) == never(Outcome::not_executable, 126));
  CHECK(judge(not_started(EAGAIN, false)) == never(Outcome::unavailable, 69));
  CHECK(judge(not_started(ENOENT, false)) == never(Outcome::unavailable, 69));
  CHECK(judge(after_stop(not_started(0, false), SIGTERM)) == never(Outcome::signalled, 143));
}

TEST_CASE("--check-after has the last word over a clean exit 0, and over nothing else") {
  CHECK(judge(exited(0), CheckAnswer::present) ==
        Verdict{RunStatus::done, false, Outcome::done, 0, false});
  CHECK(judge(exited(0), CheckAnswer::absent) ==
        Verdict{RunStatus::failed, false, Outcome::unconfirmed, 84, false});
  CHECK(judge(exited(0), CheckAnswer::unclear) ==
        Verdict{RunStatus::unknown, false, Outcome::unconfirmed, 84, false});
  for (const CheckAnswer answer :
       {CheckAnswer::present, CheckAnswer::absent, CheckAnswer::unclear}) {
    CHECK(judge(exited(3), answer) == judge(exited(3)));
    CHECK(judge(killed(9), answer) == judge(killed(9)));
    CHECK(judge(timed_out(exited(0)), answer) == judge(timed_out(exited(0))));
    CHECK(judge(lost(exited(0)), answer) == judge(lost(exited(0))));
    CHECK(judge(after_stop(exited(0), SIGTERM), answer) == judge(after_stop(exited(0), SIGTERM)));
    CHECK(judge(not_started(ENOENT, true), answer) == judge(not_started(ENOENT, true)));
  }
}

TEST_CASE("--check-after is asked about a clean exit 0 only") {
  CHECK(core::wants_check_after(exited(0), k_unknown));
  CHECK_FALSE(core::wants_check_after(exited(1), k_unknown));
  CHECK_FALSE(core::wants_check_after(killed(9), k_unknown));
  CHECK_FALSE(core::wants_check_after(timed_out(exited(0)), k_unknown));
  CHECK_FALSE(core::wants_check_after(lost(exited(0)), k_unknown));
  CHECK_FALSE(core::wants_check_after(after_stop(exited(0), SIGTERM), k_unknown));
  CHECK_FALSE(core::wants_check_after(not_started(ENOENT, true), k_unknown));
}

TEST_CASE("an ending that says nothing is no success") {
  Ending ending;
  ending.started = true;
  CHECK(core::is_cut_short(ending, k_unknown));
  CHECK_FALSE(core::wants_check_after(ending, k_unknown));
  CHECK(judge(ending) == unknown_with(Outcome::internal, 70));
}

TEST_CASE("is_cut_short and the verdict agree on every kind of ending") {
  for (int code = 0; code < 256; ++code) {
    for (const int stop : {0, SIGTERM, SIGQUIT}) {
      for (const bool limit : {false, true}) {
        Ending ending = after_stop(exited(code), stop);
        ending.timed_out = limit;
        CAPTURE(code, stop, limit);
        const Verdict verdict = judge(ending);
        REQUIRE(verdict.cut_short == core::is_cut_short(ending, k_unknown));
        REQUIRE((verdict.status == RunStatus::unknown) == verdict.cut_short);
        REQUIRE((verdict.exit_code == 0) == (verdict.status == RunStatus::done));
      }
    }
  }
}

TEST_CASE("an ending reads well on one line") {
  CHECK(core::describe(exited(3)) == "exit 3");
  CHECK(core::describe(killed(9)) == "killed by signal 9 (KILL)");
  CHECK(core::describe(timed_out(exited(143))) == "exit 143 after --timeout");
  CHECK(core::describe(lost(timed_out(exited(143)))) == "exit 143 after the lock was lost");
  CHECK(core::describe(timed_out(killed(9))) == "killed by signal 9 (KILL) after --timeout");
  CHECK(core::describe(after_stop(exited(0), 15)) == "exit 0 after TERM");
  CHECK(core::describe(not_started(ENOENT, true)) ==
        "could not be started: No such file or directory");
  CHECK(core::describe(after_stop(not_started(0, false), 2)) == "stopped by INT before the start");
  Ending silent;
  silent.started = true;
  CHECK(core::describe(silent) == "ended, nobody knows how");
}

TEST_CASE("signals have their usual names") {
  CHECK(core::signal_name(SIGTERM) == "TERM");
  CHECK(core::signal_name(SIGUSR1) == "USR1");
  CHECK(core::signal_name(64) == "SIG64");
}
