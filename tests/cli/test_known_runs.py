"""The guess which runs the ledger knows (LEDGER-life): right or wrong, it never decides anything."""

from oncerun_test import BUSY, DONE, EARLIER, HELD, NEXT, Case, main

BLOCKS_AT, BLOCKS_SIZE = 8192, 65536  # src/ledger/known_runs.cpp


class KnownRuns(Case):
    def forget(self):
        """As after a power cut that lost every bit."""
        with open(self.led + "-life", "r+b") as file:
            file.seek(BLOCKS_AT)
            file.write(bytes(BLOCKS_SIZE))

    def believe_everything(self):
        with open(self.led + "-life", "r+b") as file:
            file.seek(BLOCKS_AT)
            file.write(b"\xff" * BLOCKS_SIZE)

    def looks(self, **kw):
        """Whether a start opens the ledger for a look before it takes the lock."""
        self.need("strace")
        trace = self.path("trace")
        result = self.oncerun(prefix=["strace", "-o", trace, "-e", "trace=openat,flock"],
                              state=None, **kw)
        lines = self.lines("trace")
        lock = next((i for i, line in enumerate(lines) if line.startswith("flock(")), len(lines))
        return result, any(f'"{self.led}"' in line for line in lines[:lock])

    def test_only_a_date_that_may_be_known_is_looked_at_before_the_lock(self):
        self.assertExit(self.oncerun(date=EARLIER, state=None), DONE)
        result, looked = self.looks()
        self.assertExit(result, DONE)
        self.assertFalse(looked)
        result, looked = self.looks()
        self.assertExit(result, DONE)
        self.assertTrue(looked)
        self.assertEqual(self.runs(), 2)

    def test_rows_that_no_claim_made_are_known(self):
        self.assertExit(self.oncerun(date=EARLIER, state=None), DONE)
        self.assertExit(self.resolve("--skip"), DONE)
        result, looked = self.looks()
        self.assertExit(result, DONE)
        self.assertTrue(looked)

    def test_a_forgotten_date_is_not_run_again(self):
        self.assertExit(self.oncerun(state=None), DONE)
        self.forget()
        self.assertExit(self.oncerun(state=None), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_forgotten_doubt_is_held(self):
        self.assertExit(self.oncerun(state=None, command="kill -9 $$"), 128 + 9)
        self.forget()
        self.assertExit(self.oncerun(state=None), HELD)
        self.assertEqual(self.runs(), 0)

    def test_a_forgotten_done_date_is_left_while_another_holds_the_lock(self):
        self.assertExit(self.oncerun(state=None), DONE)
        gate = self.gate()
        owner = self.start(date=NEXT, state=None, command=gate.shell)
        gate.wait_started()
        self.forget()
        self.assertExit(self.oncerun(state=None), DONE)
        self.assertExit(self.oncerun("--wait", "30", state=None, timeout=10), DONE)
        self.assertExit(self.oncerun(date=NEXT, state=None), BUSY)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_guess_that_everything_is_known_stops_nothing(self):
        self.assertExit(self.oncerun(date=EARLIER, state=None), DONE)
        self.believe_everything()
        self.assertExit(self.oncerun(state=None), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertStatus("done")


if __name__ == "__main__":
    main()
