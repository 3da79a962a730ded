"""--ledger none: the state file is the truth, and runs of the job are serialised (S11)."""

import os
import signal

from oncerun_test import (ABSENT, BLOCKED, BUSY, DATE, DONE, EARLIER, HELD, LATER, NEXT, PRESENT,
                          UNCLEAR, USAGE, Case, main)

# The clock stands at noon of NEXT.
AT_NEXT = ("--tz", "UTC", "--scheduled-at", NEXT + "T12:00:00Z")
TELL = 'echo "$ONCERUN_BIZ_DATE" >>"$D/runs"'


class Alone(Case):
    def oncerun(self, *args, **kw):
        return super().oncerun(*args, **{"ledger": "none", **kw})

    def start(self, *args, **kw):
        return super().start(*args, **{"ledger": "none", **kw})

    def fields(self):
        state = self.state() or {}
        return (state.get("lastPublishedDate"), state.get("status"), state.get("pendingDate"))

    def crash(self, effect=""):
        self.assertExit(self.oncerun("--tz", "UTC", command=f"{effect} kill -9 $PPID; kill -9 $$"),
                        -signal.SIGKILL)
        self.wait_quiet()
        self.assertEqual(self.fields()[1:], ("pending", DATE))


class OneDate(Alone):
    def test_once(self):
        for _ in range(3):
            self.assertExit(self.oncerun(), DONE)
        self.assertEqual((self.runs(), self.fields()), (1, (DATE, "done", None)))

    def test_no_ledger_is_made(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual([name for name in os.listdir(self.dir) if "led" in name], [])

    def test_failed_runs_again(self):
        self.assertExit(self.oncerun(command="exit 3"), 3)
        self.assertEqual(self.fields(), (None, "failed", DATE))
        self.assertExit(self.oncerun("-g", "at-most-once"), HELD)
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual((self.runs(), self.fields()), (1, (DATE, "done", None)))

    def test_cut_short_is_held(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        self.assertEqual(self.fields(), (None, "unknown", DATE))
        before = self.snapshot("st.json")
        self.assertExit(self.oncerun(), HELD)
        self.assertEqual(self.snapshot("st.json"), before)
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_crash_is_asked_about(self):
        for check, runs in ((PRESENT, 0), (ABSENT, 1)):
            with self.subTest(check=check):
                self.st = self.path(f"{runs}.json")
                self.write(self.path("runs"), "")
                self.crash()
                before = self.read(self.st)
                self.assertExit(self.oncerun("--tz", "UTC"), HELD)
                self.assertExit(self.oncerun("--tz", "UTC", check=UNCLEAR), HELD)
                self.assertEqual(self.read(self.st), before)
                self.assertExit(self.oncerun("--tz", "UTC", check=check), DONE)
                self.assertEqual((self.runs(), self.fields()), (runs, (DATE, "done", None)))

    def test_never_started_runs_again(self):
        self.assertExit(self.oncerun("-g", "at-most-once", command=["/no/such"]), 127)
        self.assertNotEqual(self.fields()[0], DATE)
        self.assertExit(self.oncerun("-g", "at-most-once"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_busy_and_blocked(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        self.assertEqual(self.fields(), (None, "pending", DATE))
        before = self.snapshot("st.json")
        self.assertExit(self.oncerun("-g", "at-least-once", check=ABSENT), BUSY)
        self.assertExit(self.oncerun(date=NEXT), BLOCKED)
        self.assertEqual(self.snapshot("st.json"), before)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.runs(), 0)

    def test_an_orphan_is_busy(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        owner.kill_now()
        self.assertExit(self.oncerun("-g", "at-least-once", check=ABSENT), BUSY)
        self.assertExit(self.oncerun("-g", "at-least-once", date=NEXT), BLOCKED)
        self.assertEqual(self.runs(), 0)
        gate.go()
        self.wait_quiet()
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_an_orphan_without_its_descriptors_is_busy(self):
        gate = self.gate()
        owner = self.start(command=["python3", "-c",
                                    "import os, sys; os.closerange(3, 4096);"
                                    "os.execvp('sh', ['sh', '-c', sys.argv[1]])", gate.shell])
        gate.wait_started()
        owner.kill_now()
        self.assertIn(self.oncerun("-g", "at-least-once").returncode, (BUSY, BLOCKED))
        self.assertEqual(self.runs(), 0)
        gate.go()
        self.wait_quiet()

    def test_a_mark_of_a_foreign_script(self):
        self.write(self.st, '{"lastPublishedDate": "2024-10-25", "status": "pending",'
                            ' "pendingDate": "2024-10-26"}')
        self.assertExit(self.oncerun(), HELD)
        self.assertEqual(self.runs(), 0)
        self.assertExit(self.oncerun(check=PRESENT), DONE)
        self.assertEqual((self.runs(), self.fields()), (0, (DATE, "done", None)))

    def test_a_date_before_the_last_is_held(self):
        self.assertExit(self.oncerun(), DONE)
        for guarantee in ("cautious", "at-least-once"):
            self.assertExit(self.oncerun("-g", guarantee, date=EARLIER), HELD)
        self.assertEqual(self.runs(), 1)

    def test_neither_ledger_nor_state_remembers_nothing(self):
        for _ in range(2):
            result = self.oncerun("--lock", "flock:" + self.path("lock"), state=None)
            self.assertExit(result, DONE)
        self.assertEqual(self.runs(), 2)

    def test_neither_ledger_nor_state_nor_lock_is_usage(self):
        self.assertExit(self.oncerun("--lock", "none", state=None), USAGE)
        self.assertEqual(self.runs(), 0)

    def settle(self, verdict):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        self.assertExit(self.resolve(verdict, "--state", self.st, ledger="none"), 0)

    def test_resolved_as_done(self):
        self.settle("--done")
        self.assertEqual(self.fields(), (DATE, "done", None))
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 0)

    def test_resolved_as_ready(self):
        self.settle("--ready")
        self.assertExit(self.oncerun("-g", "at-most-once", check=UNCLEAR), DONE)
        self.assertEqual((self.runs(), self.fields()), (1, (DATE, "done", None)))

    def test_resolved_as_skipped(self):
        self.settle("--skip")
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 0)
        self.assertExit(self.oncerun(date=NEXT), DONE)
        self.assertEqual((self.runs(), self.fields()), (1, (NEXT, "done", None)))

    def test_keys_are_usage(self):
        self.assertExit(self.oncerun("--every", "key", date="order 1"), USAGE)
        self.assertEqual(self.runs(), 0)


class OtherDate(Alone):
    """S11: the owner of DATE was killed, and now NEXT is asked for."""

    def setUp(self):
        super().setUp()
        self.assertExit(self.oncerun("--tz", "UTC", date=EARLIER, command=["true"]), DONE)

    def ask(self, *args, **kw):
        kw.setdefault("command", TELL)
        return self.oncerun(*AT_NEXT, *args, **{"date": "this", **kw})

    def test_S11_present(self):
        self.crash()
        self.assertExit(self.ask(check='test "$ONCERUN_BIZ_DATE" = 2024-10-26 || exit 10'), DONE)
        self.assertEqual(self.lines("runs"), [NEXT])
        self.assertEqual(self.fields(), (NEXT, "done", None))

    def test_S11_absent(self):
        self.crash()
        self.assertExit(self.ask(check=ABSENT), DONE)
        self.assertEqual(self.lines("runs"), [DATE, NEXT])
        self.assertEqual(self.fields(), (NEXT, "done", None))

    def test_S11_no_check(self):
        self.crash()
        before = self.read(self.st)
        result = self.ask()
        self.assertExit(result, HELD)
        self.assertIn(DATE, result.stderr)
        self.assertEqual((self.lines("runs"), self.read(self.st)), ([], before))

    def test_S11_a_check_that_does_not_know(self):
        self.crash()
        before = self.read(self.st)
        self.assertExit(self.ask(check=UNCLEAR), HELD)
        self.assertEqual((self.lines("runs"), self.read(self.st)), ([], before))

    def test_S11_at_least_once(self):
        self.crash()
        self.assertExit(self.ask("-g", "at-least-once"), DONE)
        self.assertEqual(self.lines("runs"), [DATE, NEXT])
        self.assertEqual(self.fields(), (NEXT, "done", None))

    def test_S11_the_older_one_fails_again(self):
        self.crash()
        result = self.ask("-g", "at-least-once", command=f"{TELL}; exit 3")
        self.assertExit(result, HELD, DATE)
        self.assertEqual(self.lines("runs"), [DATE])
        self.assertEqual(self.fields(), (EARLIER, "failed", DATE))

    def test_S11_an_older_failure(self):
        self.assertExit(self.oncerun("--tz", "UTC", command="exit 3"), 3)
        self.assertExit(self.ask(), DONE)
        self.assertEqual(self.lines("runs"), [DATE, NEXT])

    def by_label(self, *args, **kw):
        before = self.read(self.st)
        for date in (NEXT, LATER):
            result = self.oncerun("--tz", "UTC", *args, date=date, command=TELL, **kw)
            self.assertExit(result, HELD)
            self.assertIn(DATE, result.stderr)
        self.assertEqual((self.lines("runs"), self.read(self.st)), ([], before))

    def test_S11_by_label_absent(self):
        self.crash()
        self.by_label(check=ABSENT)

    def test_S11_by_label_no_check(self):
        self.crash()
        self.by_label()

    def test_S11_by_label_at_least_once(self):
        self.crash()
        self.by_label("-g", "at-least-once")

    def test_S11_by_label_present(self):
        self.crash()
        check = f'test "$ONCERUN_BIZ_DATE" = {DATE} || exit 10'
        result = self.oncerun("--tz", "UTC", date=NEXT, command=TELL, check=check)
        self.assertExit(result, DONE)
        self.assertEqual(self.lines("runs"), [NEXT])
        self.assertEqual(self.fields(), (NEXT, "done", None))

    def test_S11_the_older_one_by_its_own_label(self):
        self.crash()
        self.assertExit(self.oncerun("--tz", "UTC", check=ABSENT, command=TELL), DONE)
        self.assertExit(self.ask(), DONE)
        self.assertEqual(self.lines("runs"), [DATE, NEXT])

    def test_S11_a_mark_of_a_foreign_script(self):
        self.write(self.st, '{"lastPublishedDate": "2024-10-25", "status": "failed",'
                            ' "pendingDate": "2024-10-26"}')
        self.assertExit(self.ask(), DONE)
        self.assertEqual(self.lines("runs"), [DATE, NEXT])


if __name__ == "__main__":
    main()
