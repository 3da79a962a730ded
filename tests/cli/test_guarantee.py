"""What happens about a run that is not new, row by row of the table in oncerun-guarantees(7)."""

import os

from oncerun_test import (ABSENT, BUSY, DATE, DONE, EARLIER, HELD, NEXT, NOT_EXECUTABLE, NOT_FOUND,
                          PRESENT, UNCLEAR, USAGE, Case, main)

GUARANTEES = ("cautious", "at-least-once", "at-most-once")
CRASH = "kill -9 $PPID; exit 1"
CUT_SHORT = "kill -9 $$"


def asking(answer):
    return f'echo asked >>"$D/asked"; {answer}'


class Table(Case):
    """Each test makes a doubt, and asks for the same date under each guarantee and answer."""

    def make(self, command, status, code):
        """A fresh ledger whose run of the date stands at `status`."""
        self.count = getattr(self, "count", 0) + 1
        self.led = self.path(f"led{self.count}.db")
        self.st = self.path(f"st{self.count}.json")
        for name in ("runs", "asked"):
            self.write(self.path(name), "")
        self.assertExit(self.oncerun(command=command), code)
        self.wait_quiet()
        self.assertStatus(status)

    def expect(self, start, *args, code=None, status=None, check=None, asked=None):
        """One call of `hit`; whether it starts, its exit code, and the row's status afterwards."""
        before = self.row()
        result = self.oncerun(*args, check=check and asking(check))
        self.assertExit(result, code if code is not None else DONE if start else HELD)
        self.assertEqual(self.runs(), 1 if start else 0, result.stderr)
        if status:
            self.assertStatus(status)
        elif result.returncode == HELD:
            self.assertEqual(self.row(), before, "a hold changes nothing")
            self.assertIn("hint:", result.stderr)
        if asked is not None:
            self.assertEqual(len(self.lines("asked")), asked)

    def doubt(self, make, starts, times):
        """`starts`: the guarantees that start again unasked; `times`: how often absent is said."""
        for guarantee in GUARANTEES:
            options = ("--guarantee", guarantee)
            with self.subTest(guarantee=guarantee, check=None):
                make()
                if guarantee in starts:
                    self.expect(True, *options, status="done")
                else:
                    self.expect(False, *options)
            with self.subTest(guarantee=guarantee, check="present"):
                make()
                self.expect(False, *options, check=PRESENT, code=DONE, status="done", asked=1)
            with self.subTest(guarantee=guarantee, check="absent"):
                make()
                self.expect(True, *options, check=ABSENT, status="done", asked=times)
            for unclear in (UNCLEAR, "exit 1", "exit 77", "exit 127", "kill -9 $$"):
                with self.subTest(guarantee=guarantee, check=unclear):
                    make()
                    self.expect(False, *options, check=unclear, asked=1)

    def test_failed(self):
        self.doubt(lambda: self.make("exit 3", "failed", 3), ("cautious", "at-least-once"), 1)

    def test_unknown(self):
        self.doubt(lambda: self.make(CUT_SHORT, "unknown", 137), ("at-least-once",), 2)

    def test_pending_with_a_dead_owner(self):
        self.doubt(lambda: self.make(CRASH, "pending", -9), ("at-least-once",), 2)

    def test_an_exit_code_that_says_it_does_not_know(self):
        for code in (80, 81, 82, 84, 124, 129, 137, 159):
            with self.subTest(code=code):
                self.make(f"exit {code}", "unknown", code)
                self.expect(False)
        for code in (1, 2, 126, 127, 128, 160, 255):
            with self.subTest(code=code):
                self.make(f"exit {code}", "failed", code)
                self.expect(True)

    def test_unknown_exit_codes_of_the_users_own(self):
        self.assertExit(self.oncerun("--unknown-exit", "42", command="exit 42"), 42)
        self.assertStatus("unknown")
        self.assertExit(self.oncerun("--unknown-exit", "42", date=NEXT, command="exit 81"), 81)
        self.assertStatus("failed", date=NEXT)

    def test_done(self):
        for guarantee in GUARANTEES:
            with self.subTest(guarantee=guarantee):
                self.make(["true"], "done", DONE)
                before = self.row()
                self.expect(False, "-g", guarantee, check=ABSENT, code=DONE, asked=0)
                self.expect(False, "-g", guarantee, "--check-first", check=ABSENT, code=DONE,
                            asked=0)
                self.assertEqual(self.row(), before)

    def test_skipped(self):
        for guarantee in GUARANTEES:
            with self.subTest(guarantee=guarantee):
                self.make("exit 3", "failed", 3)
                self.assertExit(self.resolve("--skip"), 0)
                self.expect(False, "-g", guarantee, check=ABSENT, code=DONE, status="skipped",
                            asked=0)

    def test_ready(self):
        for guarantee in GUARANTEES:
            with self.subTest(guarantee=guarantee):
                self.make(CUT_SHORT, "unknown", 137)
                self.assertExit(self.resolve("--ready"), 0)
                self.assertStatus("ready")
                self.expect(True, "-g", guarantee, check=UNCLEAR, status="done", asked=0)

    def test_no_row(self):
        for guarantee in GUARANTEES:
            with self.subTest(guarantee=guarantee):
                self.date = EARLIER
                self.make("exit 3", "failed", 3)
                self.date = DATE
                self.expect(True, "-g", guarantee, check=PRESENT, status="done", asked=0)

    def test_the_guarantee_is_the_present_invocations(self):
        self.assertExit(self.oncerun("-g", "at-least-once", command=CUT_SHORT), 137)
        self.assertExit(self.oncerun("-g", "at-most-once"), HELD)
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_word_that_is_no_guarantee(self):
        self.assertExit(self.oncerun("-g", "exactly-once"), USAGE)
        self.assertEqual(self.runs(), 0)


class NeverStarted(Case):
    """G11: known from execve's own error, and then a run is as good as new."""

    def setUp(self):
        super().setUp()
        self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)
        self.target = self.path("command")

    def repair(self):
        self.write(self.target, '#!/bin/sh\necho run >>"$D/runs"\n')
        os.chmod(self.target, 0o755)

    def never_started(self, code, guarantee, *args, **kw):
        result = self.oncerun("-g", guarantee, *args, command=[self.target], **kw)
        self.assertExit(result, code)
        self.assertIn(self.target, result.stderr)
        row = self.row()
        self.assertEqual((row["status"], row["never_started"]), ("failed", 1))
        self.assertEqual(self.state()["lastPublishedDate"], EARLIER)
        self.assertEqual(self.state()["pendingDate"], DATE)
        self.assertEqual(self.state()["status"], "failed")
        self.repair()
        result = self.oncerun("-g", guarantee, check=asking(UNCLEAR), command=[self.target])
        self.assertExit(result, DONE)
        self.assertEqual(self.lines("asked"), [], "there is nothing to ask about")
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def missing(self, guarantee):
        self.never_started(NOT_FOUND, guarantee)

    def not_executable(self, guarantee):
        self.write(self.target, "#!/bin/sh\n")
        os.chmod(self.target, 0o644)
        self.never_started(NOT_EXECUTABLE, guarantee)

    def test_G11_not_found_cautious(self):
        self.missing("cautious")

    def test_G11_not_found_at_least_once(self):
        self.missing("at-least-once")

    def test_G11_not_found_at_most_once(self):
        self.missing("at-most-once")

    def test_G11_not_executable_cautious(self):
        self.not_executable("cautious")

    def test_G11_not_executable_at_least_once(self):
        self.not_executable("at-least-once")

    def test_G11_not_executable_at_most_once(self):
        self.not_executable("at-most-once")

    def test_G11_an_interpreter_that_is_missing(self):
        self.write(self.target, "#!/no/such/interpreter\n")
        os.chmod(self.target, 0o755)
        self.never_started(NOT_FOUND, "at-most-once")

    def test_G11_a_folder(self):
        os.mkdir(self.target)
        self.assertExit(self.oncerun(command=[self.target]), NOT_EXECUTABLE)
        os.rmdir(self.target)
        self.repair()
        self.assertExit(self.oncerun("-g", "at-most-once", command=[self.target]), DONE)
        self.assertEqual(self.runs(), 1)

    def test_G11_a_shells_126_and_127_are_no_proof(self):
        for code in (126, 127):
            with self.subTest(code=code):
                date = DATE if code == 126 else NEXT
                self.assertExit(self.oncerun(date=date, command=f"exit {code}"), code)
                self.assertEqual(self.row(date=date)["never_started"], 0)
                self.assertExit(self.oncerun("-g", "at-most-once", date=date), HELD)

    def test_G11_check_first_asks_all_the_same(self):
        self.oncerun(command=[self.target])
        self.assertExit(self.oncerun("--check-first", check=asking(PRESENT)), DONE)
        self.assertEqual((self.runs(), len(self.lines("asked"))), (0, 1))
        self.assertStatus("done")

    def test_a_signal_before_the_start_starts_nothing(self):
        """Given back as failed, never started: at-most-once may run it later."""
        gate = self.gate()
        asked = self.start("--check-first", check=f"{gate.shell}; exit 10")
        gate.wait_started()
        asked.terminate()
        self.assertExit(asked.end(timeout=2), 143)
        self.assertEqual(self.runs(), 0)
        self.assertExit(self.oncerun("-g", "at-most-once"), DONE)
        self.assertEqual(self.runs(), 1)


class Generations(Case):
    """--rerun, and what the command is told of generation, key, attempt and token."""

    TELL = ('echo "$ONCERUN_GENERATION $ONCERUN_ATTEMPT $ONCERUN_KEY $ONCERUN_TOKEN'
            ' $ONCERUN_PREVIOUS" >>"$D/told"; ')

    def told(self):
        return [line.split() for line in self.lines("told")]

    def run_with(self, code, *args, **kw):
        self.assertExit(self.oncerun(*args, command=f"{self.TELL}exit {code}", **kw), code)

    def test_rerun_of_a_done_run(self):
        self.run_with(3)
        self.run_with(0)
        self.run_with(0)  # left alone
        self.run_with(0, "--rerun")
        self.run_with(4, "--rerun")
        self.run_with(0)
        told = self.told()
        self.assertEqual([line[0] for line in told], ["1", "1", "2", "3", "3"])
        self.assertEqual([line[1] for line in told], ["1", "2", "3", "4", "5"])
        self.assertEqual([line[4] for line in told], ["none", "failed", "done", "done", "failed"])
        keys = [line[2] for line in told]
        self.assertEqual(keys[0], keys[1], "a retry carries the key of what it repeats")
        self.assertEqual(keys[3], keys[4])
        self.assertEqual(len(set(keys)), 3)
        tokens = [int(line[3]) for line in told]
        self.assertEqual(tokens, sorted(set(tokens)), "tokens strictly grow")
        self.assertEqual(self.row()["generation"], 3)
        self.assertEqual(self.row()["attempts"], 5)

    def test_rerun_of_a_skipped_run(self):
        self.run_with(3)
        self.assertExit(self.resolve("--skip"), 0)
        self.run_with(0, "--rerun", "-g", "at-most-once")
        self.assertEqual([line[0] for line in self.told()], ["1", "2"])
        self.assertEqual(self.told()[1][4], "skipped")

    def test_rerun_is_not_a_way_past_a_doubt(self):
        self.assertExit(self.oncerun(command=CUT_SHORT), 137)
        self.assertExit(self.oncerun("--rerun"), HELD)
        self.assertEqual(self.runs(), 0)
        self.assertEqual(self.row()["generation"], 1)

    def test_rerun_never_beside_a_live_owner(self):
        self.run_with(0)
        gate = self.gate()
        owner = self.start("--rerun", command=gate.shell)
        gate.wait_started()
        self.assertExit(self.oncerun("--rerun", "--lock", "none", "-g", "at-least-once"), BUSY)
        self.assertEqual(self.runs(), 0)
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_keys_differ_by_job_and_date(self):
        self.run_with(0)
        self.run_with(0, date=NEXT)
        self.run_with(0, job="another", state=None)
        self.run_with(0, job="another", date=NEXT, state=None)
        self.assertEqual(len({line[2] for line in self.told()}), 4)

    def test_what_came_before_is_told(self):
        for command, word in (("exit 3", "failed"), ("kill -9 $$", "unknown"),
                              ("kill -9 $PPID", "unknown")):
            with self.subTest(word=word, command=command):
                self.write(self.path("told"), "")
                self.led = self.path(f"led{len(os.listdir(self.dir))}.db")
                self.oncerun(state=None, command=command)
                self.wait_quiet()
                self.run_with(0, "-g", "at-least-once", state=None)
                self.assertEqual(self.told()[0][4], word)
        self.write(self.path("told"), "")
        self.oncerun(state=None, date=NEXT, command=["/no/such"])
        self.run_with(0, state=None, date=NEXT)
        self.assertEqual(self.told()[0][4], "never-started")
        self.write(self.path("told"), "")
        self.assertExit(self.resolve("--ready", date=NEXT), 0)
        self.run_with(0, state=None, date=NEXT)
        self.assertEqual(self.told()[0][4], "ready")


if __name__ == "__main__":
    main()
