"""Writes that are interrupted or write only a part change nothing.

strace can only leave a call out, so that a short count would be a lie: a small library, preloaded into
oncerun, does half of each write instead. The command runs without it.
"""

import os

from crash import BOTH, EFFECT, LEDGER, STATE, SUCCESS, Column, CrashCase, main
from oncerun_test import DONE, UNRECORDED

MARKS = (LEDGER, STATE, BOTH)


class ShortWrites(CrashCase):
    def setUp(self):
        super().setUp()
        self.library = self.preloadable("short_writes.c")
        self.told = self.path("told")
        self.job_script("job", EFFECT + SUCCESS)

    def shortened(self, column, *args, **kw):
        """One invocation whose writes are short, and a letter for each of them: i and s."""
        # The library is taken off the command again, which would be shortened like oncerun.
        prefix = ["env", f"LD_PRELOAD={self.library}"]
        command = ["env", "-u", "LD_PRELOAD", "-u", "SHORT_WRITES_FD"]
        argv = self.run_argv(column, *args, prefix=prefix, **kw)
        at = argv.index("--") + 1
        told = os.open(self.told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        try:
            result = self.spawn([*argv[:at], *command, *argv[at:]], pass_fds=(told,),
                                env={"SHORT_WRITES_FD": str(told)}).end()
        finally:
            os.close(told)
        return result, self.read(self.told).decode()

    def test_a_run(self):
        for marks in MARKS:
            for known in (False, True):
                with self.subTest(marks=marks, known=known):
                    column = Column("short writes", marks, known)
                    self.prepare(column)
                    result, seen = self.shortened(column)
                    self.assertExit(result, DONE)
                    self.assertEqual(result.stderr, "")
                    self.assertIn("i", seen)
                    self.assertGreater(seen.count("s"), 5, "the library was not in the way")
                    self.assertEqual(self.noted("eff"), ["e1"])
                    self.whole(marks)
                    again, _ = self.shortened(column)
                    self.assertExit(again, DONE)
                    self.assertEqual(self.noted("eff"), ["e1"])

    def whole(self, marks):
        ledger = self.ledger_as_it_stands()
        self.assertEqual(ledger.integrity, "ok")
        if marks != STATE:
            self.assertStatus("done")
        if marks != LEDGER:
            self.assertEqual((self.state()["lastPublishedDate"], self.state()["status"]),
                             (self.date, "done"))

    def test_a_spooled_result(self):
        """The command holds the ledger for longer than the owner tries to record."""
        self.job_script("holds", EFFECT + 'sqlite3 "$W_LEDGER" "BEGIN IMMEDIATE;" ".shell touch held"'
                        ' ".shell cat go" </dev/null >/dev/null 2>&1 9>&- &\n'
                        'while [ ! -e held ]; do sleep 0.01; done\n' + SUCCESS)
        column = Column("short writes", LEDGER, job="holds")
        self.prepare(column)
        os.mkfifo(os.path.join(self.w, "go"))
        result, seen = self.shortened(column, "--record-timeout", "0.2s")
        with open(os.path.join(self.w, "go"), "w", encoding="ascii"):
            pass  # the ledger is let go
        self.wait_quiet()
        self.assertExit(result, UNRECORDED)
        self.assertGreater(seen.count("s"), 5)
        self.assertExit(self.plain(column, job="job"), DONE)
        self.assertEqual(self.noted("eff"), ["e1"])
        self.assertEqual(self.row()["exit_code"], 0)


if __name__ == "__main__":
    main()
