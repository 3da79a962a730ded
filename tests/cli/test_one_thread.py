"""oncerun is one thread, wherever it waits: nothing in it has to be guarded against itself.

This is why there is no run under ThreadSanitizer.
"""

import os
import sqlite3
import time

from oncerun_test import ABSENT, BUSY, DONE, NEXT, UNRECORDED, Case, main


class OneThread(Case):
    def assertOneThread(self, process, where):
        """Of a process that waits, and that is oncerun by its executable."""
        self.assertTrue(self.is_oncerun(process), where)
        self.assertEqual(os.listdir(f"/proc/{process.pid}/task"), [str(process.pid)], where)

    def while_running(self, **stores):
        gate = self.gate("-".join(stores) or "both")
        owner = self.start(command=gate.shell, **stores)
        gate.wait_started()
        self.assertOneThread(owner, f"while the command runs, with {stores or 'both stores'}")
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_while_the_command_runs(self):
        self.while_running()
        self.while_running(date=NEXT, state=None)

    def test_while_the_command_runs_with_a_state_file_alone(self):
        self.while_running(ledger="none")

    def test_while_it_waits_for_the_lock_and_for_the_same_date(self):
        for date in (NEXT, self.date):
            gate = self.gate(date)
            owner = self.start(command=gate.shell)
            gate.wait_started()
            waiter = self.start("--wait", "30s", date=date)
            self.wait_for(lambda process=waiter: self.is_oncerun(process), what="the start's own execve")
            self.at_rest(lambda process=waiter: self.sleeps(process))
            self.assertOneThread(waiter, f"while it waits, with {date} asked for")
            gate.go()
            self.assertExit(owner.end(), DONE)
            self.assertExit(waiter.end(), DONE)
            self.assertExit(self.resolve("--ready"), 0)

    def is_oncerun(self, process):
        return os.path.realpath(f"/proc/{process.pid}/exe") == os.path.realpath(self.binary)

    def sleeps(self, process):
        """Whether the kernel has put it to sleep (proc_pid_stat(5)); else never the same thing twice."""
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "S" or time.monotonic()

    def test_while_the_check_runs(self):
        gate = self.gate()
        asking = self.start("--check-first", check=f"{gate.shell}; {ABSENT}")
        gate.wait_started()
        self.assertOneThread(asking, "while the check runs")
        gate.go()
        self.assertExit(asking.end(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_between_retries(self):
        gate = self.gate()
        owner = self.start("--retries", "1", "--retry-delay", "0.1s", command=f"{gate.shell}; exit 3")
        gate.wait_started()
        gate.go()
        gate.wait_started()
        self.assertOneThread(owner, "in the second attempt")
        self.assertExit(self.oncerun(), BUSY)
        gate.go()
        self.assertExit(owner.end(), 3)

    def test_while_it_tries_to_record_a_result(self):
        gate = self.gate()
        owner = self.start("--record-timeout", "1s", command=gate.shell)
        pid = gate.wait_started()
        connection = sqlite3.connect(self.led, isolation_level=None)
        self.addCleanup(connection.close)
        connection.execute("BEGIN IMMEDIATE")
        gate.go()
        self.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), what="the command to be gone")
        self.assertOneThread(owner, "while it tries to record")
        self.assertExit(owner.end(), UNRECORDED)
        connection.execute("ROLLBACK")


if __name__ == "__main__":
    main()
