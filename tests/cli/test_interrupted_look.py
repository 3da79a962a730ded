"""TERM while a start waits for the first look at a ledger: it ends at once, and nothing was started.

A ledger in WAL mode never makes a reader wait. A database in rollback mode does, for as long as
somebody holds it exclusively: one that oncerun has not opened before, or a ledger switched back.
"""

import os
import signal
import sqlite3
import time

from oncerun_test import DONE, EARLIER, Case, main, process_state


class Interrupted(Case):
    def held(self):
        """The database held exclusively, in rollback mode, for the rest of the test."""
        connection = sqlite3.connect(self.led, isolation_level=None, timeout=10)
        self.addCleanup(connection.close)
        mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
        self.assertEqual(mode, "delete")
        connection.execute("CREATE TABLE IF NOT EXISTS somebodys (text)")
        connection.execute("BEGIN EXCLUSIVE")
        return connection

    def waits(self, process):
        """Until the process has the database open and sleeps there."""
        def asleep_at_it():
            self.assertIsNone(process.poll(), "it did not wait")
            folder = f"/proc/{process.pid}/fd"
            opened = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
            return self.led in opened and process_state(process.pid) == "S"
        self.wait_for(asleep_at_it, what="a wait for the database")

    def ends_with(self, number, *args, **kw):
        process = self.start(*args, **kw)
        self.waits(process)
        begun = time.monotonic()
        process.send_signal(number)
        self.assertExit(process.end(timeout=20), 128 + number)
        self.assertLess(time.monotonic() - begun, 1.5)
        self.assertEqual(self.runs(), 0)

    def test_a_database_that_is_no_ledger_yet(self):
        connection = self.held()
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                self.ends_with(number)
        connection.execute("ROLLBACK")
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_ledger_that_was_switched_back(self):
        self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)
        connection = self.held()
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                self.ends_with(number)
        connection.execute("ROLLBACK")
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_while_it_waits_for_the_run_too(self):
        self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)
        self.held()
        self.ends_with(signal.SIGTERM, "--wait", "60", state=None)


if __name__ == "__main__":
    main()
