"""Oncerun dies while it asks: from a dead start onward, and around --check-first and --check-after."""

import select

from crash import (BOTH, CHECK_SCRIPT, EFFECT, GUARANTEES, LEDGER, STATE, SUCCESS, Column, CrashCase,
                   kill_session, main)

MARKS = (LEDGER, STATE, BOTH)


class Asking(CrashCase):
    column_step = 2

    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.job_script("waits-first", self.door.shell + "\n" + EFFECT + SUCCESS)
        self.job_script("waits-last", EFFECT + self.door.shell + "\n" + SUCCESS)
        self.slow_check = self.script("slow-check", self.door.shell + CHECK_SCRIPT)

    def dead_start(self, job):
        """A run whose oncerun and command died together, before or after the effect."""
        owner = self.watched(self.run_argv(Column("dead start"), job=job))
        self.door.wait_started()
        kill_session(owner)
        self.nobody_left()

    def one(self, strike):
        strike.kill()
        strike.settle()

    def test_a_dead_start_is_asked_about(self):
        for marks in MARKS:
            for job in ("waits-first", "waits-last"):
                for guarantee in GUARANTEES:
                    self.strike_all(Column(f"asked after {job}", marks, True, guarantee, True,
                                           prepare=lambda job=job: self.dead_start(job)), self.one)

    def test_the_check_lives_on(self):
        """It holds nothing: the next start asks for itself."""
        for marks in MARKS:
            for job in ("waits-first", "waits-last"):
                column = Column(f"the check of {job} lives on", marks, checked=True, first="clone",
                                last="poll", prepare=lambda job=job: self.dead_start(job),
                                check=self.slow_check, undisturbed=self.twice)
                self.strike_all(column, self.one_living_check)

    def twice(self):
        """Absence is only believed when it is said twice."""
        self.door.go()
        self.door.go()

    def one_living_check(self, strike):
        while self.door.has_started():
            self.door.wait_started()  # the undisturbed run's
        strike.start()
        asked = self.door in select.select([strike.run.alive, self.door], [], [], 30)[0]
        judge = strike.invariants
        killed = judge.at_the_kill(strike.before)
        again = self.watched(self.run_argv(strike.column)).end()
        judge.after(strike.before, again, killed)
        if asked:
            self.door.go()
        self.nobody_left()
        judge.done_never_changes(judge.look(), self.plain(strike.column))

    def test_a_check_around_the_run(self):
        for marks in MARKS:
            for option in ("--check-first", "--check-after"):
                for guarantee in GUARANTEES:
                    self.strike_all(Column(option, marks, True, guarantee, True, args=(option,)),
                                    self.one)


if __name__ == "__main__":
    main()
