"""The examples of oncerun-guarantees(7), run as written; and both pages under mandoc."""

import os
import re
import sqlite3
import subprocess
import unittest

import manual
from oncerun_test import DATE, DONE, HELD, JOB, Case, main


class Lint(unittest.TestCase):
    def test_mandoc_finds_nothing(self):
        for name in ("oncerun.1", "oncerun-guarantees.7"):
            page = manual.ROOT / "man" / name
            result = subprocess.run(["mandoc", "-Tlint", page], capture_output=True, text=True,
                                    check=False)
            # Which other pages are installed here is not the page's fault.
            found = [line for line in result.stdout.splitlines()
                     if "referenced manual not found" not in line]
            self.assertEqual(found, [])


class Examples(Case):
    def setUp(self):
        super().setUp()
        examples = manual.examples(manual.source("oncerun-guarantees.7"))
        self.assertEqual(sorted(examples), ["check.sh", "settle.py", "settle.sh"])
        for name, text in examples.items():
            self.write(self.path(name), text)
            os.chmod(self.path(name), 0o755)

    def settlements(self):
        if not self.query("SELECT 1 FROM sqlite_schema WHERE name = 'settlement'"):
            return []
        return [(row["day"], row["total"]) for row in self.query("SELECT * FROM settlement")]

    def finishes_its_own_run(self, name):
        # The job commits, and is killed together with its owner before it can say so.
        command = f"./{name} && kill -9 $PPID $$"
        self.oncerun(state=None, command=command)
        self.wait_quiet()
        self.assertStatus("done")
        self.assertExit(self.oncerun(state=None, command=command), DONE)
        self.assertEqual(self.settlements(), [(DATE, 4200)])

    def rolls_back_when_it_is_not_the_owner(self, name):
        command = f"ONCERUN_TOKEN=1 ./{name}"
        result = self.oncerun(state=None, command=command)
        self.assertNotEqual(result.returncode, 0)
        self.assertStatus("failed")
        self.assertEqual(self.settlements(), [])

    def test_python(self):
        self.finishes_its_own_run("settle.py")

    def test_python_rolls_back(self):
        self.rolls_back_when_it_is_not_the_owner("settle.py")

    def test_shell(self):
        self.need("sqlite3", "flock")
        self.finishes_its_own_run("settle.sh")

    def test_shell_rolls_back(self):
        self.need("sqlite3", "flock")
        self.rolls_back_when_it_is_not_the_owner("settle.sh")

    def test_the_statement_uses_an_index(self):
        self.oncerun(state=None, command="true")
        connection = sqlite3.connect(self.led)
        self.addCleanup(connection.close)
        plan = connection.execute(
            "EXPLAIN QUERY PLAN UPDATE job_run SET status = 'done' "
            "WHERE run_id = 'x' AND fencing_token = 1 AND status = 'pending'").fetchall()
        self.assertTrue(any(re.search(r"SEARCH job_run USING .*INDEX", row[3]) for row in plan), plan)

    def test_check(self):
        check = "./check.sh"
        ask = ["--job", JOB, "--date", DATE, "--check", check]
        # No file to ask: cannot tell.
        crashed = self.start(state=None, command="kill -9 $PPID; exec sleep 600")
        crashed.wait(60)
        for pid in self.processes():
            os.kill(pid, 9)
        self.wait_quiet()
        self.assertExit(self.oncerun(state=None, check=check), HELD)
        self.assertEqual(self.runs(), 0)
        # Not booked: run. Booked: not run.
        self.write(self.path("bookings.txt"), "2024-10-25 booked\n")
        answer = self.sub("check", *ask)
        self.assertIn("absent", (answer.stdout + answer.stderr).lower())
        self.write(self.path("bookings.txt"), f"{DATE} booked\n")
        answer = self.sub("check", *ask)
        self.assertIn("present", (answer.stdout + answer.stderr).lower())
        self.assertExit(self.oncerun(state=None, check=check), DONE)
        self.assertEqual(self.runs(), 0)
        self.assertStatus("done")


if __name__ == "__main__":
    main()
