"""oncerun as the first process of a pid namespace, as in a container (case P06)."""

import fcntl
import os
import signal
import subprocess
import time

from oncerun_test import BINARY, DONE, HELD, Case, main, process_state

AS_PID_1 = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
TERM_BIT = 1 << (signal.SIGTERM - 1)


def children(pid):
    """The pids whose parent this is (proc_pid_stat(5), field 4)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == pid:
                        found.append(int(name))
            except OSError:
                pass
    return found


def blocks_term(pid):
    """Whether it is oncerun that has got as far as taking signals. Before that the kernel drops what
    a first process does not handle (pid_namespaces(7)), and no program can help that."""
    try:
        # By the file, not by its name: that depends on whose root and mounts it is seen from.
        if not os.path.samefile(f"/proc/{pid}/exe", BINARY):
            return False
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("SigBlk:"):
                    return bool(int(line.split()[1], 16) & TERM_BIT)
    except OSError:
        pass
    return False


class FirstProcess(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.need("unshare")
        probe = subprocess.run([*AS_PID_1, "true"], capture_output=True, text=True, check=False)
        if probe.returncode != 0:
            self.skip(f"no private pid namespace: {probe.stderr.strip()}")

    def first(self, *args, **kw):
        """Starts oncerun as a first process; returns the outer process and oncerun's pid out here."""
        outer = self.start(*args, prefix=AS_PID_1, **kw)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for pid in children(outer.pid):
                if blocks_term(pid):
                    return outer, pid
            if outer.poll() is not None:
                self.fail(f"ended at once: {outer.returncode} {outer.err}")
        return self.fail("oncerun did not start")

    def assertEndsSoon(self, outer, code=143):
        begin = time.monotonic()
        result = outer.end(20)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertExit(result, code)

    def test_the_commands_code_is_passed_on(self):
        for code in (DONE, 3):
            self.assertExit(self.oncerun(prefix=AS_PID_1, job=f"job {code}", state=None,
                                         command=f"exit {code}"), code)

    def test_it_reaps_what_others_leave(self):
        gate = self.gate()
        outer, pid = self.first(command=(
            "for i in 1 2 3 4 5; do (setsid sh -c 'exit 0' &); done; " + gate.shell))
        gate.wait_started()
        self.wait_for(lambda: len(children(pid)) == 1, 10, "the command as its only child")
        self.assertNotEqual(process_state(children(pid)[0]), "Z")
        gate.go()
        self.assertExit(outer.end(), DONE)

    def test_P06_TERM_while_waiting_for_a_lock(self):
        lock = self.path("job.lock")
        with open(lock, "w", encoding="ascii") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            outer, pid = self.first("--lock", f"flock:{lock}", "--wait", "60")

            def has_it_open():
                try:
                    return any(os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), os.stat(lock))
                               for fd in os.listdir(f"/proc/{pid}/fd"))
                except OSError:
                    return False

            self.wait_for(has_it_open, 10, "the wait for the lock")
            os.kill(pid, signal.SIGTERM)
            self.assertEndsSoon(outer)
        self.assertIsNone(self.row())
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_P06_TERM_while_the_check_runs(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        before = self.row()
        gate = self.gate()
        outer, pid = self.first(check=gate.shell)
        gate.wait_started()
        os.kill(pid, signal.SIGTERM)
        self.assertEndsSoon(outer)
        self.assertEqual(self.row(), before)
        self.assertEqual(self.runs(), 0)
        self.wait_quiet(5)
        self.assertExit(self.oncerun(), HELD)

    def test_P06_TERM_while_another_date_is_waited_for(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        outer, pid = self.first("--wait", "60", "--lock", "none", command='"$D/hit"')
        os.kill(pid, signal.SIGTERM)
        self.assertEndsSoon(outer)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.runs(), 0)

    def test_P06_TERM_0_to_50_ms_after_the_start(self):
        for number in range(200):
            outer, pid = self.first(job=f"job {number}", state=None, command=["sleep", "100"])
            begin = time.monotonic()
            delay = number % 51 / 1000
            while time.monotonic() - begin < delay:
                time.sleep(0.001)
            os.kill(pid, signal.SIGTERM)
            self.assertEndsSoon(outer)
        left = self.query("SELECT job_name, status, run_id FROM job_run "
                          "WHERE status NOT IN ('unknown', 'failed')")
        self.assertEqual(left, [], "a claim was left behind")
        # Cut short, or known never to have been started: nothing else is on record.
        started_again = self.oncerun("--guarantee", "at-least-once", job="job 7", state=None)
        self.assertExit(started_again, DONE)
        self.assertEqual(self.runs(), 1)


if __name__ == "__main__":
    main()
