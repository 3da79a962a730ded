"""What fails between the claim and the start: nothing runs, and the claim is given back as never
started, so that the next start need not ask anybody."""

import os
import signal
import sqlite3

from oncerun_test import DONE, NEXT, UNWRITABLE, Case, main


class GivenBack(Case):
    """strace lets the rename of the state file's `pending` fail, which comes right before the start."""

    FAILS = "inject=rename,renameat,renameat2:error=EIO:when=1"

    def setUp(self):
        super().setUp()
        self.need("strace")
        self.assertExit(self.oncerun(), DONE)  # the files are there
        self.assertEqual(self.runs(), 1)

    def start_to_fail(self, *args, fault=FAILS, **kw):
        prefix = ["strace", "-o", os.devnull, "-e", "trace=rename,renameat,renameat2", "-e", fault]
        return self.start(*args, date=NEXT, prefix=prefix, **kw)

    def assertNeverStarted(self):
        self.assertEqual(self.runs(), 1)
        row = self.row(date=NEXT)
        self.assertEqual((row["status"], row["never_started"], row["attempts"]), ("failed", 1, 1), row)
        self.assertEqual(self.state()["lastPublishedDate"], self.date)

    def assertStartsWithoutAsking(self, attempts=2):
        self.assertExit(self.oncerun("--guarantee", "at-most-once", date=NEXT), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertEqual(self.row(date=NEXT)["attempts"], attempts)

    def test_a_mark_that_cannot_be_written(self):
        failed = self.start_to_fail().end()
        self.assertExit(failed, UNWRITABLE, self.st)
        self.assertNeverStarted()
        self.assertStartsWithoutAsking()

    def claimed(self):
        row = self.row(date=NEXT)
        return row is not None and row["status"] == "pending"

    def test_a_ledger_that_does_not_take_it_back_gets_it_from_the_spool(self):
        # The call fails late: meanwhile the ledger is taken.
        owner = self.start_to_fail("--record-timeout", "0.3s", fault=self.FAILS + ":delay_enter=2000000")
        self.wait_for(self.claimed, what="the claim to be seen")
        connection = sqlite3.connect(self.led, isolation_level=None)
        self.addCleanup(connection.close)
        connection.execute("BEGIN IMMEDIATE")
        failed = owner.end()
        self.assertExit(failed, UNWRITABLE, "nothing was started")
        self.assertIn("-spool", failed.stderr)
        self.assertTrue(self.claimed())
        connection.execute("ROLLBACK")
        # Another date's start posts it.
        self.assertExit(self.oncerun("-v"), DONE)
        self.assertExit(self.oncerun(date="2024-10-25", state=None), DONE)
        self.assertEqual(self.runs(), 2)
        row = self.row(date=NEXT)
        self.assertEqual((row["status"], row["never_started"]), ("failed", 1), row)

    def test_a_signal_before_the_start(self):
        owner = self.start_to_fail(fault="inject=rename,renameat,renameat2:delay_enter=1000000:when=1")
        self.wait_for(self.claimed, what="the claim to be seen")
        # The child of strace, which has its claim and is held in the call.
        pid = self.row(date=NEXT)["pid"]
        os.kill(pid, signal.SIGTERM)
        stopped = owner.end()
        self.assertExit(stopped, 128 + signal.SIGTERM)
        self.assertNeverStarted()
        self.assertStartsWithoutAsking()


if __name__ == "__main__":
    main()
