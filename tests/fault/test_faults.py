"""Each system call of a run fails once, with each error that it may return.

One fault is one fault: the same invocation may end unsuccessfully, but says which file and which
error, starts nothing that is not recorded, and calls nothing done that is not. A signal at the wrong
moment (EINTR) changes nothing at all. And the next plain invocation needs nobody's help: the effect
has happened exactly once then.
"""

from crash import BOTH, EFFECT, LEDGER, STATE, SUCCESS, Column, kill_session, main
from faults import FaultCase
from oncerun_test import DONE

MARKS = (LEDGER, STATE, BOTH)


class Faults(FaultCase):
    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.job_script("waits-first", self.door.shell + "\n" + EFFECT + SUCCESS)

    def one(self, fault):
        fault.strike()
        fault.judge(DONE)
        fault.settle_once()

    def dead_start(self):
        """A run whose oncerun and command died together, before the effect."""
        owner = self.watched(self.run_argv(Column("dead start"), job="waits-first"))
        self.door.wait_started()
        kill_session(owner)
        self.nobody_left()

    def done_before(self):
        self.assertExit(self.plain(Column("done before")), DONE)

    def test_the_first_run(self):
        for marks in MARKS:
            self.fault_all(Column("first run", marks, known=False), self.one)

    def test_a_later_run(self):
        for marks in MARKS:
            self.fault_all(Column("later run", marks), self.one)

    def test_a_skip(self):
        for marks in MARKS:
            self.fault_all(Column("skip", marks, prepare=self.done_before), self.one)

    def test_a_check_after_a_dead_start(self):
        for marks in MARKS:
            self.fault_all(Column("check", marks, checked=True, prepare=self.dead_start), self.one)


if __name__ == "__main__":
    main()
