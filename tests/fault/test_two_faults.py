"""Two faults in one run: what is told is the one that ended it, not one that it got over before.

The first strikes the checkpoint that oncerun makes while the command runs, and that nobody needs;
the second comes when the result is recorded. And one fault that shows only later: a lock that was
not released.
"""

import contextlib
import os
import re
import sqlite3

from oncerun_test import DONE, EARLIER, UNRECORDED, Case, main

ROWS = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
INTO_DATABASE = r"pwrite64\(\d+<[^>]*/led\.db>"
CHECKPOINT_LOCK = "F_WRLCK.*l_start=121, l_len=1"


class TwoFaults(Case):
    def setUp(self):
        super().setUp()
        self.need("strace")
        self.st = None
        self.log = self.path("log")
        self.door = self.gate()
        self.assertExit(self.oncerun(date="2024-10-01"), DONE)
        # So many that the table's first page only points to others, and no run changes it.
        self.execute("INSERT INTO job_run (job_name, biz_date, status, updated_at) " + ROWS +
                     "SELECT 'other', i, 'done', '2024-10-01T00:00:00Z' FROM n")
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        self.usual = self.undisturbed()

    def begin(self, *faults, limit="0.3s"):
        """A run under strace whose command waits at the door, and whose owner has tidied up. A fault
        is a call's name, its number, and the error."""
        prefix = ["strace", "-y", "-o", self.log]
        for name, number, error in faults:
            prefix += ["-e", f"inject={name}:error={error}:when={number}"]
        owner = self.start("--record-timeout", limit, command=self.door.shell, prefix=prefix)
        self.door.wait_started()
        self.at_rest(lambda: self.read(self.log))
        return owner

    def end(self, owner):
        self.door.go()
        return owner.end()

    def undisturbed(self):
        """The calls of a run from the ledger that every other one begins with."""
        files = [name for name in os.listdir(self.dir)
                 if name.startswith("led.db") and os.path.isfile(self.path(name))]
        before = {name: self.read(self.path(name)) for name in files}
        self.assertExit(self.end(self.begin()), DONE)
        for name, content in before.items():
            self.write(self.path(name), content)
        return self.lines("log")

    def number(self, name, pattern, beyond=0):
        """Which call of this name is the first that matches, counted as strace does."""
        calls = [line for line in self.usual if line.startswith(name + "(")]
        found = (at for at, line in enumerate(calls, 1) if re.search(pattern, line))
        return next(at for at in found if at > beyond)

    def full_disk(self):
        """ENOSPC where the checkpoint first writes into the database."""
        return "pwrite64", self.number("pwrite64", INTO_DATABASE), "ENOSPC"

    def struck(self):
        return sum("(INJECTED)" in line for line in self.lines("log"))

    def test_alone_the_first_one_changes_nothing(self):
        owner = self.begin(self.full_disk())
        self.assertEqual(self.struck(), 1)
        self.assertExit(self.end(owner), DONE)

    def test_a_full_disk_before_a_result_that_cannot_be_synced(self):
        first = self.full_disk()
        write = next(at for at, line in enumerate(self.usual) if re.match(INTO_DATABASE, line))
        before = sum(line.startswith("fdatasync(") for line in self.usual[:write])
        owner = self.begin(first, ("fdatasync", f"{before + 1}+", "EIO"))
        self.assertEqual(self.struck(), 1)
        result = self.end(owner)
        self.assertExit(result, UNRECORDED, "Input/output error")
        self.assertNotIn("No space left", result.stderr)

    def test_a_full_disk_before_real_damage(self):
        root = self.query("SELECT rootpage FROM sqlite_schema WHERE name = 'job_run'")[0]["rootpage"]
        owner = self.begin(self.full_disk())
        self.assertEqual(self.struck(), 1)
        with open(self.led, "r+b") as file:
            file.seek((root - 1) * 4096)
            file.write(bytes(4096))
        result = self.end(owner)
        self.assertExit(result, UNRECORDED, "is damaged")
        self.assertNotIn("No space left", result.stderr)

    def test_a_lock_that_could_not_be_had_before_one_that_another_holds(self):
        checkpoint = self.number("fcntl", CHECKPOINT_LOCK)
        owner = self.begin(("fcntl", checkpoint, "ENOLCK"))
        self.assertEqual(self.struck(), 1)
        with contextlib.closing(sqlite3.connect(self.led, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            result = self.end(owner)
        self.assertExit(result, UNRECORDED, "locked by another process")
        self.assertNotIn("No locks available", result.stderr)

    def test_a_lock_that_was_not_released_is_in_the_way_of_every_later_try(self):
        # SQLite tries for ten seconds, and then again: the second time no call fails any more.
        begun = self.number("fcntl", "F_WRLCK.*l_start=124, l_len=4")
        release = self.number("fcntl", "F_UNLCK.*l_start=124, l_len=4", beyond=begun)
        result = self.end(self.begin(("fcntl", release, "ENOLCK"), limit="11s"))
        self.assertEqual(self.struck(), 1)
        self.assertExit(result, UNRECORDED, "No locks available")


if __name__ == "__main__":
    main()
