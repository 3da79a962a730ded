"""Other courses of a run, struck at every call: retries, --rerun, --replace, a result in the spool."""

import sqlite3

from crash import BOTH, EFFECT, GUARANTEES, LEDGER, STATE, SUCCESS, Column, CrashCase, kill_session, main
from oncerun_test import BUSY, DONE, UNRECORDED

MARKS = (LEDGER, STATE, BOTH)
FAILS_FIRST = '[ -e first ] || { : >first; exit 3; }\n'


class Courses(CrashCase):
    column_step = 4

    def one(self, strike):
        strike.kill()
        strike.settle()

    def test_retries(self):
        self.job_script("fails-first", FAILS_FIRST + EFFECT + SUCCESS)
        retry = ("--retries", "1", "--retry-delay", "0s")
        for marks in MARKS:
            for guarantee in GUARANTEES:
                # at-most-once does not retry unasked
                for checked in (False, True) if guarantee != "at-most-once" else (True,):
                    self.strike_all(Column("retries", marks, True, guarantee, checked, args=retry,
                                           job="fails-first"), self.one)

    def test_rerun(self):
        """Each generation for itself: the first stays done, or the second is in doubt."""
        for marks in MARKS:
            for guarantee in GUARANTEES:
                for checked in (False, True):
                    self.strike_all(Column("rerun", marks, True, guarantee, checked,
                                           once=("--rerun",), prepare=self.done_before), self.one)

    def done_before(self):
        self.assertExit(self.plain(Column("done before")), DONE)


class Replace(CrashCase):
    """Who replaces dies: its victim may live, be stopping, or be gone."""

    column_step = 2

    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.job_script("waits-first", self.door.shell + "\n" + EFFECT + SUCCESS)
        self.owner = None

    def owner_waits(self):
        """The run that is in the way has started, and had no effect yet."""
        self.owner = self.watched(self.run_argv(Column("owner"), job="waits-first"))
        self.door.wait_started()

    def stopped(self, marks):
        """The state file as an owner leaves it that was stopped."""
        self.prepare(Column("stopped", marks))
        self.owner_waits()
        self.owner.terminate()
        self.nobody_left()
        return (self.read(self.st),)

    def one(self, strike):
        strike.start()
        # Only what came of the strike: the owner may live on, by right.
        if self.lives(strike.run, 30):
            self.fail("what replaces lives on")
        if self.lives(self.owner, 0.3):
            seen = strike.invariants.look()
            beside = self.watched(self.run_argv(strike.column)).end()
            strike.invariants.busy(beside, BUSY, seen)
        kill_session(self.owner)
        self.nobody_left()
        strike.settle()

    def test_replace(self):
        for marks in MARKS:
            seen = self.stopped(marks)
            for guarantee, checked in (("at-least-once", False), ("cautious", True),
                                       ("at-most-once", True)):
                self.strike_all(Column("replace", marks, True, guarantee, checked, once=("--replace",),
                                       arrange=self.owner_waits, seen=seen), self.one)


class Spool(CrashCase):
    """A result that the ledger could not take is not lost by a crash."""

    column_step = 2

    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.job_script("waits-last", EFFECT + self.door.shell + "\n" + SUCCESS)

    def one(self, strike):
        strike.kill()
        strike.settle()

    def hold_the_ledger(self):
        """Once the command has started; returns what lets go again."""
        self.door.wait_started()
        connection = sqlite3.connect(self.led, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
        self.door.go()
        return connection

    def spooled(self):
        owner = self.watched(self.run_argv(Column("spooled"), "--record-timeout", "0.2s",
                                           job="waits-last"))
        connection = self.hold_the_ledger()
        self.assertExit(owner.end(), UNRECORDED)
        connection.close()
        self.nobody_left()

    def test_a_spooled_success_is_posted(self):
        """Under every guarantee without a check: effect exactly 1."""
        for marks in (LEDGER, BOTH):
            for guarantee in GUARANTEES:
                self.strike_all(Column("spooled result", marks, True, guarantee,
                                       prepare=self.spooled), self.one_posting)

    def one_posting(self, strike):
        strike.kill()
        judge = strike.invariants
        killed = judge.at_the_kill(strike.before)
        again = self.plain(strike.column)
        settled = judge.after(strike.before, again, killed)
        judge.exactly_once(settled, again)


if __name__ == "__main__":
    main()
