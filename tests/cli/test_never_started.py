"""An attempt that was never started proves nothing about the one before it: a failure or a doubt stays
what it was. A run that nothing came before is as good as new (G11, also in test_guarantee.py)."""

import os

from oncerun_test import (ABSENT, DATE, DONE, HELD, NOT_EXECUTABLE, NOT_FOUND, PRESENT, UNCLEAR,
                          Case, main)

GUARANTEES = ("cautious", "at-least-once", "at-most-once")
NOPE = "/nope"
CUT_SHORT = 'echo first >>"$D/first"; kill -9 $$'


def asking(answer):
    return f'echo asked >>"$D/asked"; {answer}'


class Doubts:
    """What stood there before is there afterwards; mixed into a Case that says where it is kept."""

    count = 0

    def standing(self):
        """The run's status, wherever it is kept."""
        raise NotImplementedError

    def fresh(self):
        """From here on nothing has ever run."""
        self.count += 1
        self.st = self.path(f"st{self.count}.json")
        for name in ("runs", "asked", "first"):
            self.write(self.path(name), "")

    def never_started(self, guarantee="at-least-once", **kw):
        result = self.oncerun("-g", guarantee, command=[NOPE], **kw)
        self.assertExit(result, NOT_FOUND, NOPE)

    def failed(self):
        self.fresh()
        self.assertExit(self.oncerun(command="exit 3"), 3)
        self.assertEqual(self.standing(), "failed")

    def unknown(self):
        self.fresh()
        self.assertExit(self.oncerun(command=CUT_SHORT), 137)
        self.assertEqual(self.standing(), "unknown")

    def settled(self, expected, *args, runs, **kw):
        self.assertExit(self.oncerun(*args, **kw), expected)
        self.assertEqual(self.runs(), runs)

    def test_a_failure_stays_one(self):
        self.failed()
        self.never_started()
        self.assertEqual(self.standing(), "failed")
        self.settled(HELD, "-g", "at-most-once", runs=0)
        self.settled(DONE, runs=1)

    def test_a_failure_is_still_asked_about(self):
        self.failed()
        self.never_started()
        self.settled(DONE, check=asking(PRESENT), runs=0)
        self.assertEqual(self.lines("asked"), ["asked"])
        self.assertEqual(self.standing(), "done")

    def test_a_doubt_stays_one(self):
        for guarantee, code, runs in (("cautious", HELD, 0), ("at-most-once", HELD, 0),
                                      ("at-least-once", DONE, 1)):
            with self.subTest(guarantee=guarantee):
                self.unknown()
                self.never_started()
                self.assertEqual(self.standing(), "unknown")
                self.settled(code, "-g", guarantee, runs=runs)

    def test_a_doubt_is_still_asked_about(self):
        for guarantee in GUARANTEES:
            for answer, code, asked, runs in ((PRESENT, DONE, 1, 0), (UNCLEAR, HELD, 1, 0),
                                              (ABSENT, DONE, 2, 1)):
                with self.subTest(guarantee=guarantee, check=answer):
                    self.unknown()
                    self.never_started()
                    self.settled(code, "-g", guarantee, check=asking(answer), runs=runs)
                    self.assertEqual(len(self.lines("asked")), asked)
                    self.assertEqual(self.standing(), "done" if code == DONE else "unknown")

    def test_however_often_nothing_was_started(self):
        self.unknown()
        for _ in range(3):
            self.never_started()
        self.settled(HELD, runs=0)
        self.failed()
        for _ in range(3):
            self.never_started("cautious")
        self.settled(HELD, "-g", "at-most-once", runs=0)

    def test_what_cannot_be_executed_proves_no_more(self):
        self.unknown()
        self.assertExit(self.oncerun("-g", "at-least-once", command=[self.dir]), NOT_EXECUTABLE)
        self.settled(HELD, runs=0)

    def test_the_command_is_told_of_the_doubt(self):
        self.unknown()
        self.never_started()
        result = self.oncerun("-g", "at-least-once",
                              command='echo "$ONCERUN_PREVIOUS" >>"$D/told"')
        self.assertExit(result, DONE)
        self.assertEqual(self.lines("told"), ["unknown"])

    def test_a_crash_stays_a_doubt(self):
        self.fresh()
        self.assertExit(self.oncerun(command="kill -9 $PPID; kill -9 $$"), -9)
        self.wait_quiet()
        self.never_started()
        self.settled(HELD, runs=0)
        self.settled(DONE, check=asking(PRESENT), runs=0)
        self.assertEqual(self.lines("asked"), ["asked"])

    def test_an_absence_is_as_old_as_the_start_that_failed(self):
        """What the check said before it may have changed since: the next start asks again."""
        for guarantee in GUARANTEES:
            with self.subTest(guarantee=guarantee):
                self.unknown()
                self.never_started(guarantee, check=asking(ABSENT))
                self.assertEqual(len(self.lines("asked")), 2)
                self.assertEqual(self.standing(), "unknown")
                self.settled(DONE, "-g", guarantee, check=asking(PRESENT), runs=0)
                self.assertEqual(len(self.lines("asked")), 3)

    def test_an_operators_word_makes_the_run_new(self):
        self.unknown()
        self.ready()
        self.never_started("at-most-once")
        self.settled(DONE, "-g", "at-most-once", runs=1)

    def test_G11_nothing_came_before(self):
        for guarantee in GUARANTEES:
            for times in (1, 2):
                with self.subTest(guarantee=guarantee, times=times):
                    self.fresh()
                    command = self.path(f"command-{guarantee}-{times}")
                    for _ in range(times):
                        self.assertExit(self.oncerun("-g", guarantee, command=[command]),
                                        NOT_FOUND)
                    self.script(os.path.basename(command), 'echo run >>"$D/runs"\n')
                    self.settled(DONE, "-g", guarantee, command=[command], runs=1)
                    self.settled(DONE, "-g", guarantee, command=[command], runs=1)


class InALedger(Doubts, Case):
    def fresh(self):
        super().fresh()
        self.led = self.path(f"led{self.count}.db")

    def standing(self):
        # The state file is the row's projection, and must never say better.
        row, state = self.row(), self.state()
        if row["status"] == "done":
            self.assertEqual(state["lastPublishedDate"], DATE)
        else:
            self.assertEqual((state["status"], state["pendingDate"]), (row["status"], DATE))
        return row["status"]

    def ready(self):
        self.assertExit(self.resolve("--ready"), DONE)

    def test_the_row_says_never_started_only_of_a_run_that_is_new(self):
        for make, says in ((self.fresh, 1), (self.failed, 0), (self.unknown, 0)):
            with self.subTest(before=make.__name__):
                make()
                self.never_started()
                self.assertEqual(self.row()["never_started"], says)

    def test_the_history_says_never_started_of_the_attempt(self):
        self.unknown()
        self.never_started()
        newest, first = self.sub_json("show", "--job", self.job, "--date", DATE)["attempt_list"]
        self.assertEqual((newest["number"], newest["never_started"]), (2, True))
        self.assertEqual((first["number"], first["never_started"], first["result"]),
                         (1, False, "unknown"))


class InTheStateFile(Doubts, Case):
    def oncerun(self, *args, **kw):
        return super().oncerun(*args, **{"ledger": "none", **kw})

    def standing(self):
        state = self.state()
        if state["status"] == "done":
            self.assertEqual(state["lastPublishedDate"], DATE)
        else:
            self.assertEqual(state["pendingDate"], DATE)
        return state["status"]

    def ready(self):
        self.assertExit(self.resolve("--state", self.st, "--ready", ledger="none"), DONE)


class Said(Case):
    """What is said of a command that cannot be executed: once, and what to do."""

    def said(self, command, code, why):
        result = self.oncerun(state=None, job=f"job {code}", command=[command])
        self.assertExit(result, code)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 2, result.stderr)
        self.assertIn(f"cannot execute {command}: {why}", lines[0])
        self.assertEqual(result.stderr.count(why), 1, result.stderr)
        self.assertNotIn("could not be started", lines[0])
        self.assertRegex(lines[1], r"^(oncerun: )?hint: \S")
        row = self.row(job=f"job {code}")
        self.assertEqual((row["status"], row["never_started"]), ("failed", 1))

    def test_a_command_that_is_not_there(self):
        self.said(NOPE, NOT_FOUND, "No such file or directory")

    def test_a_command_that_may_not_be_executed(self):
        self.said(self.dir, NOT_EXECUTABLE, "Permission denied")


if __name__ == "__main__":
    main()
