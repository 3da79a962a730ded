"""Faults where a command lives: what cannot be looked at must not be taken for dead, and what has to
be ended must be ended."""

import sys

from crash import BOTH, LEDGER, STATE, Column, kill_session, main
from faults import FaultCase
from oncerun_test import BUSY, TIMEOUT

MARKS = (LEDGER, STATE, BOTH)

# Closes all that it inherited, so that only its environment tells whose it is.
CLOSES_ALL = """
import os, sys
os.closerange(3, 65536)
with open(os.environ["D"] + "/gate.started", "w") as started:
    started.write(f"{os.getpid()}\\n")
with open(os.environ["D"] + "/gate.go") as go:
    go.readline()
"""

# Neither the command nor what it left in a session of its own listens to TERM.
DEAF = "trap '' TERM\nsetsid sh -c 'trap \"\" TERM; sleep 100 & wait; wait' & wait\nsleep 100\n"


class Orphan(FaultCase):
    """Oncerun is gone and its command lives on: nothing may start beside it, whatever fails."""

    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.write(self.path("closes-all.py"), CLOSES_ALL)
        self.job_script("closes-all", f'exec {sys.executable} "$D/closes-all.py"\n')
        self.owner = None

    def orphan(self):
        if self.owner is not None:
            kill_session(self.owner)
            self.wait_quiet()
        self.owner = self.watched(self.run_argv(Column("owner"), job="closes-all"))
        self.door.wait_started()
        self.owner.kill()
        self.owner.wait(60)

    def one(self, fault):
        fault.strike()
        fault.must(fault.now.starts == fault.before.starts and fault.now.mark == fault.before.mark,
                   "one live command tree per run", fault.now)
        fault.judge(BUSY)

    def test_an_orphan_that_closed_its_descriptors(self):
        for marks in MARKS:
            self.fault_all(Column("orphan", marks, guarantee="at-least-once", ends=(BUSY,),
                                  arrange=self.orphan), self.one)


class CutShort(FaultCase):
    """A run that is stopped leaves nothing behind that lives, whatever fails while it is ended."""

    def one(self, fault):
        fault.strike_only()
        fault.must(not self.lives(fault.run), "one live command tree per run",
                   f"exit {fault.code}, and the tree lives on")
        fault.nothing_lives()
        fault.judge(TIMEOUT)

    def test_a_tree_that_does_not_listen(self):
        self.job_script("deaf", DEAF)
        stop = ("--timeout", "0.2s", "--kill-after", "0.1s")
        for marks in (STATE, BOTH):
            self.fault_all(Column("cut short", marks, job="deaf", once=stop, ends=(TIMEOUT,),
                                  first="clone"), self.one)


if __name__ == "__main__":
    main()
