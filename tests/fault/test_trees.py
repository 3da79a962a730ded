"""Faults where a command lives: what cannot be looked at must not be taken for dead, and what has to
be ended must be ended."""

import os
import sys

from crash import BOTH, LEDGER, STATE, Column, CrashCase, kill_session, main
from faults import FaultCase
from oncerun_test import BUSY, TIMEOUT, UNAVAILABLE

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
# The command ends at TERM, and what it left does not.
LEAVES = "setsid sh -c 'trap \"\" TERM; sleep 100 & wait; wait' &\nsleep 100\n"

# Has a child that holds nothing open, and becomes another program.
BEQUEATH = """
import os, sys, time
if os.fork() == 0:
    os.closerange(0, 65536)
    time.sleep(20)
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"""


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

    first = "clone"

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
                                  first=self.first), self.one)


class Inherited(CutShort):
    """The same for an oncerun that has a child already, of the shell that executed it: the end of all
    children cannot be waited for then, and /proc has to say that the tree is gone."""

    first = "signalfd4"  # from oncerun's own beginning: it was another program before

    def setUp(self):
        super().setUp()
        self.write(self.path("bequeath.py"), BEQUEATH)

    def run_argv(self, column, *args, prefix=(), **kw):
        bequeath = [sys.executable, self.path("bequeath.py")] if prefix else []
        return super().run_argv(column, *args, prefix=[*prefix, *bequeath], **kw)


class FailingLooks(CrashCase):
    """Beside an inherited child only /proc says that a tree is gone, and a look at it may fail."""

    def setUp(self):
        super().setUp()
        self.write(self.path("bequeath.py"), BEQUEATH)
        self.job_script("leaves", LEAVES)
        self.library = self.preloadable("failing_looks.c")
        self.told = self.path("told")

    def struck(self, column, number):
        """A run whose look of that number fails; whether it came so far."""
        prefix = ["env", f"LD_PRELOAD={self.library}", sys.executable, self.path("bequeath.py")]
        command = ["env", "-u", "LD_PRELOAD"]
        argv = self.run_argv(column, *column.once, prefix=prefix)
        at = argv.index("--") + 1
        told = os.open(self.told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        try:
            run = self.watched([*argv[:at], *command, *argv[at:]], (told,),
                               {"FAIL_LOOK": str(number), "FAIL_LOOK_FD": str(told)})
        finally:
            os.close(told)
        run.wait(60)
        return run, bool(self.read(self.told))

    def test_a_look_that_fails_does_not_say_that_the_tree_is_gone(self):
        stop = ("--timeout", "0.2s", "--kill-after", "0.1s")
        column = Column("each look", STATE, job="leaves", once=stop)
        looks = 0
        while looks < 20:
            self.prepare(column)
            run, failed = self.struck(column, looks + 1)
            if not failed:
                break
            looks += 1
            with self.subTest(look=looks):
                # The first tells those that were there before: without it nothing may start.
                self.assertIn(run.returncode, (TIMEOUT, UNAVAILABLE), run.err)
                self.assertEqual(len(self.noted("starts")), run.returncode == TIMEOUT)
                self.assertFalse(self.lives(run), f"exit {run.returncode}, and the tree lives on")
            self._clear_away()
        print(f"looks that failed: {looks}", file=sys.stderr)
        self.assertGreater(looks, 3, "the library was not in the way")


if __name__ == "__main__":
    main()
