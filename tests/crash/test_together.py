"""Oncerun and its command die together; or the command lives on, and nothing may start beside it.

Only the points from the start of the command on: before it, nothing else lives.
"""

import select

from crash import BOTH, EFFECT, GUARANTEES, LEDGER, STATE, SUCCESS, Column, CrashCase, main
from oncerun_test import BLOCKED, BUSY, NEXT

MARKS = (LEDGER, STATE, BOTH)


class Together(CrashCase):
    """SIGKILL to all of them, wherever the command happens to be."""

    column_step = 2

    def test_all_of_it_dies_at_once(self):
        for marks in MARKS:
            for guarantee in GUARANTEES:
                for checked in (False, True):
                    self.strike_all(Column("all die", marks, True, guarantee, checked, first="clone"),
                                    self.one)

    def one(self, strike):
        strike.kill(together=True)
        strike.settle()


class LivesOn(CrashCase):
    """The command waits before or after its effect when oncerun dies."""

    column_step = 5

    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.job_script("waits-first", self.door.shell + "\n" + EFFECT + SUCCESS)
        self.job_script("waits-last", EFFECT + self.door.shell + "\n" + SUCCESS)

    def columns(self, act):
        name = act.__name__.replace("_", " ")
        columns = [Column(f"{job}, {name}", marks, True, guarantee, checked, job=job, next_job="job",
                          undisturbed=self.door.go, first="clone", last="poll")
                   for marks in MARKS for job in ("waits-first", "waits-last")
                   for guarantee in GUARANTEES for checked in (False, True)]
        for column in columns:
            self.strike_all(column, self.one, act)

    def one(self, strike, act):
        while self.door.has_started():
            self.door.wait_started()  # the undisturbed run's
        strike.start()
        waits = self.waits(strike.run)
        if waits:
            self.beside(strike, waits)
            act(strike)
        self.nobody_left()
        strike.settle()

    def waits(self, run):
        """The pid of the command that waits at the door; 0 if nothing of it lives."""
        ready = select.select([run.alive, self.door], [], [], 30)[0]
        return self.door.wait_started() if self.door in ready else 0

    def beside(self, strike, pid):
        """What lives is said aloud, by its pid, and nothing starts: not this date, nor another."""
        seen = strike.invariants.look()
        same = self.watched(self.run_argv(strike.column)).end()
        strike.invariants.busy(same, BUSY, seen)
        self.assertIn(str(pid), same.stderr)
        other = self.watched(self.run_argv(strike.column, date=NEXT)).end()
        strike.invariants.busy(other, BLOCKED, seen)

    def it_goes_on(self, strike):
        self.door.go()

    def it_dies_too(self, strike):
        strike.end_the_rest()

    def test_it_goes_on(self):
        self.columns(self.it_goes_on)

    def test_it_dies_too(self):
        self.columns(self.it_dies_too)


if __name__ == "__main__":
    main()
