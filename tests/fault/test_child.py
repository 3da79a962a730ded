"""The new process between clone and execve: killed, or failed, at each of its calls.

Its memory is still its parent's, and it hands the descriptors on by which others see that the command
lives. It makes few calls: a kill as it enters a dup3 or the execve covers each state of its
descriptors. strace counts for each process, so that nothing of oncerun itself is struck.
"""

from crash import BOTH, GUARANTEES, LEDGER, STATE, Column, Strike, main
from faults import FaultCase
from oncerun_test import DONE, HELD, NOT_EXECUTABLE, UNAVAILABLE
from system_calls import Point, failed_in_child, killed_in_child

# The first execve that strace sees, oncerun's own, is not struck; the child counts from 1.
MARKS = (LEDGER, STATE, BOTH)
CALLS = {LEDGER: (("dup3", 1), ("dup3", 2), ("execve", 1)), STATE: (("dup3", 1), ("execve", 1)),
         BOTH: (("dup3", 1), ("dup3", 2), ("execve", 1))}
KILLED = 128 + 9
ERRORS = (("dup3", "EMFILE", {UNAVAILABLE}), ("execve", "ENOMEM", {UNAVAILABLE, NOT_EXECUTABLE}),
          ("execve", "EACCES", {NOT_EXECUTABLE}))


class Child(FaultCase):
    def struck(self, column, point, prefix):
        """A run with that prefix; its end, and that of all that it started."""
        self.world.put_back()
        strike = Strike(self, column, point, ())
        strike.before = strike.invariants.look()
        strike.run = self.call(column, prefix=prefix)
        code = strike.run.wait(60)
        self.nobody_left()
        return strike, code

    def log(self):
        return "\n".join(self.lines("log"))

    def test_killed(self):
        """The command never was, which nobody can know: its end was a signal."""
        tried = 0
        for marks in MARKS:
            for guarantee in GUARANTEES:
                for checked in (False, True):
                    column = Column("killed child", marks, True, guarantee, checked)
                    self.prepare(column)
                    for name, number in CALLS[marks]:
                        with self.subTest(column=column.named(), call=name, number=number):
                            self.one_kill(column, Point(name, number))
                            tried += 1
        print(f"points: {tried} in the child", flush=True)

    def one_kill(self, column, point):
        strike, code = self.struck(column, point, killed_in_child(*point, self.path("log")))
        self.assertIn("killed by SIGKILL", self.log(), "nothing was struck: it proves little")
        self.assertEqual(code, KILLED, strike.run.err)
        self.assertIn("recorded as unknown", strike.run.err)
        self.assertEqual(strike.invariants.always(strike.before).starts, [])
        again = self.plain(column)
        if column.checked or column.guarantee == "at-least-once":
            self.assertExit(again, DONE)
            self.assertEqual(self.noted("eff"), ["e1"])
        else:
            self.assertExit(again, HELD)
            strike.invariants.a_hold_can_be_ended(self.plain(column, guarantee="at-least-once"))

    def test_failed(self):
        """It says itself why the command was never started, and the next start may try again."""
        for marks in MARKS:
            column = Column("failed child", marks)
            self.prepare(column)
            for name, error, codes in ERRORS:
                with self.subTest(marks=marks, call=name, error=error):
                    strike, code = self.struck(column, Point(name, 1), failed_in_child(
                        name, 1, error, self.path("log")))
                    self.assertIn("(INJECTED)", self.log(), "nothing was struck: it proves little")
                    self.assertIn(code, codes, strike.run.err)
                    self.assertIn("recorded as failed", strike.run.err)
                    self.assertEqual(strike.invariants.always(strike.before).starts, [])
                    self.assertExit(self.plain(column, guarantee="at-most-once"), DONE)
                    self.assertEqual(self.noted("eff"), ["e1"])


if __name__ == "__main__":
    main()
