"""Subcommands that write, struck at every call: resolve, job set, ledger accept.

A subcommand that was killed has done its work wholly or not at all; said again, it does it; and then
the date runs as that subcommand decided.
"""

import os

from crash import BOTH, EFFECT, LEDGER, STATE, SUCCESS, Column, CrashCase, kill_session, main
from oncerun_test import CONFIG, DATE, DONE

MARKS = (LEDGER, STATE, BOTH)


class Subcommands(CrashCase):
    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.job_script("waits-last", EFFECT + self.door.shell + "\n" + SUCCESS)
        self.job_script("fails", "exit 3\n")

    def dead_start(self):
        owner = self.watched(self.run_argv(Column("dead start"), job="waits-last"))
        self.door.wait_started()
        kill_session(owner)
        self.nobody_left()

    def failed_start(self):
        self.assertExit(self.plain(Column("failed start"), job="fails"), 3)

    def where(self, marks):
        words = ["--ledger", "none" if marks == STATE else self.led]
        return words if marks == LEDGER else [*words, "--state", self.st]

    def resolve(self, marks, verdict):
        return ("resolve", *self.where(marks), "--job", self.job, "--date", DATE, verdict, "--reason",
                "seen to")

    def test_resolve(self):
        verdicts = (("--done", "done", 0), ("--ready", "ready", 1), ("--skip", "skipped", 0))
        for marks in MARKS:
            for verdict, status, starts in verdicts:
                for prepare in (self.dead_start, self.failed_start):
                    column = Column(f"resolve {verdict}, {prepare.__name__}", marks, prepare=prepare,
                                    subcommand=self.resolve(marks, verdict))
                    self.strike_all(column, self.one_resolve, status, starts)

    def one_resolve(self, strike, status, starts):
        strike.kill()
        judge = strike.invariants
        judge.resolved_or_not(strike.before, judge.always(strike.before), status)
        again = self.watched([self.binary, *strike.column.subcommand]).end()
        judge.done_by_hand(again)
        judge.resolved_or_not(None, judge.look(), status)
        settled = self.plain(strike.column)
        self.assertExit(settled, DONE)
        now = judge.always(strike.before)
        judge.started(starts, strike.before, now)
        judge.no_temporary_files()
        judge.done_never_changes(now, self.plain(strike.column))

    def test_job_set(self):
        """Killed anywhere, the period is the old or the new one; the runs are as they were."""
        for marks in (LEDGER, BOTH):
            column = Column("job set", marks, args=("--tz", "Europe/Berlin"),
                            subcommand=("job", "set", *self.where(marks), "--job", self.job, "--tz",
                                        "Europe/Berlin"))
            self.strike_all(column, self.one_set)

    def one_set(self, strike):
        strike.kill()
        judge = strike.invariants
        judge.always(strike.before)
        judge.untouched_runs(strike.before)
        judge.done_by_hand(self.watched([self.binary, *strike.column.subcommand]).end())
        judge.untouched_runs(strike.before)
        self.assertExit(self.plain(strike.column), DONE)
        judge.started(1, strike.before, judge.always(strike.before))

    def test_ledger_accept(self):
        for marks in MARKS:
            column = Column("ledger accept", marks, prepare=self.restored_copy,
                            subcommand=("ledger", "accept", *self.where(marks)))
            self.strike_all(column, self.one_accept)

    def restored_copy(self):
        """The ledger of before the newest run, beside what remembers that there was one."""
        names = ("st.json",) if self.marks == STATE else ("led.db", "led.db-wal")
        older = {name: self.read(os.path.join(self.w, name)) for name in names}
        self.assertExit(self.plain(Column("newer"), date=DATE), DONE)
        for name, content in older.items():
            self.write(os.path.join(self.w, name), content)
        for name in os.listdir(self.w):
            if name.endswith("-shm"):
                os.unlink(os.path.join(self.w, name))
        for name in ("starts", "eff", "ends", "live"):
            os.unlink(os.path.join(self.w, name))
        self.assertExit(self.plain(Column("refused")), CONFIG)

    def one_accept(self, strike):
        strike.kill()
        judge = strike.invariants
        judge.always(strike.before)
        judge.untouched_runs(strike.before)
        first = self.plain(strike.column)
        if first.returncode != DONE:
            self.assertExit(first, CONFIG)
            judge.started(0, strike.before, judge.look())
            judge.done_by_hand(self.watched([self.binary, *strike.column.subcommand]).end())
            self.assertExit(self.plain(strike.column), DONE)
        judge.started(1, strike.before, judge.always(strike.before))
        judge.no_temporary_files()


if __name__ == "__main__":
    main()
