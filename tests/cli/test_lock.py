"""The job's lock: what inherits it, who deletes it, and flock(1) beside it."""

import datetime
import fcntl
import glob
import os
import signal
from concurrent.futures import ThreadPoolExecutor

from oncerun_test import ABSENT, AS_NOBODY, BLOCKED, BUSY, DONE, EARLIER, HELD, LATER, NEXT, Case, main


def held_locks(pid):
    """What each descriptor of a process from 3 up points to, with the locks held through it."""
    found = {}
    for entry in os.listdir(f"/proc/{pid}/fd"):
        if int(entry) > 2:
            with open(f"/proc/{pid}/fdinfo/{entry}") as info:
                locks = [line.split()[2] for line in info if line.startswith("lock:")]
            found[os.readlink(f"/proc/{pid}/fd/{entry}")] = locks
    return found


class Daemons(Case):
    """L01: a job starts a long-lived worker that inherits what the job inherited."""

    def daemon_of_a_normal_end(self, lock):
        first = self.start("--lock", lock,
                           command='setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $! >"$D/pid"')
        self.assertExit(first.end(timeout=2), DONE)
        pid = int(self.lines("pid")[0])
        self.assertExit(self.oncerun("--lock", lock, date=NEXT), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertIn(pid, self.processes(), "the daemon must live on")
        descriptors = held_locks(pid)
        for target, locks in descriptors.items():
            self.assertEqual(locks, [], f"the daemon still holds {target}")
            for private in (self.led, self.led + "-wal", self.led + "-shm", self.led + "-guard",
                            self.led + "-spool", self.st):
                self.assertNotEqual(target, private)
        self.assertLessEqual(len(descriptors), 2, descriptors)

    def test_L01_a_daemon_left_behind_holds_nothing_with_flock(self):
        self.daemon_of_a_normal_end("flock")

    def test_L01_a_daemon_left_behind_holds_nothing_without_a_lock(self):
        self.daemon_of_a_normal_end("none")

    def test_L01_a_daemon_left_behind_holds_nothing_with_a_lock_file_of_the_users(self):
        self.daemon_of_a_normal_end("flock:" + self.path("lock"))

    def test_L01_the_running_command_does_hold_lock_and_life(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        locks = held_locks(gate.wait_started())
        self.assertEqual(set(sum(locks.values(), [])), {"FLOCK", "OFDLCK"}, locks)
        gate.go()
        self.assertExit(owner.end(), DONE)


class OneAtATime(Case):
    def test_L03a_two_hundred_dates_of_one_job_never_overlap(self):
        job = self.script("job", 'set -C; : >"$D/mx" || echo OVERLAP >>"$D/bad"; rm -f "$D/mx"\n')
        first = datetime.date(2024, 1, 1)
        dates = [str(first + datetime.timedelta(days=day)) for day in range(200)]

        def run(date):
            return self.oncerun("--lock", "flock", "--wait", "60", date=date, command=[job])

        with ThreadPoolExecutor(8) as pool:
            for result in pool.map(run, dates):
                self.assertExit(result, DONE)
        self.assertEqual(self.lines("bad"), [])
        self.assertEqual(self.query("SELECT status, count(*) AS n FROM job_run GROUP BY status"),
                         [{"status": "done", "n": 200}])
        self.assertEqual(self.state()["lastPublishedDate"], dates[-1])

    def delete_in_mid_run(self, *patterns):
        gate = self.gate()
        owner = self.start("--lock", "flock", command=f'echo run >>"$D/runs"; {gate.shell}')
        gate.wait_started()
        deleted = [path for pattern in patterns for path in glob.glob(self.led + pattern)]
        self.assertTrue(deleted, f"nothing is called {patterns} beside the ledger")
        for path in deleted:
            os.unlink(path)
        for wait in ("0", "0.3"):
            again = self.oncerun("--lock", "flock", "--wait", wait, "-g", "at-least-once")
            self.assertIn(again.returncode, (BUSY, HELD), again.stderr)
        other = self.oncerun("--lock", "flock", date=NEXT)
        self.assertEqual(self.runs(), 1, f"a second start beside the first: {other.stderr}")
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertStatus("done")
        self.assertExit(self.oncerun(), DONE)
        self.assertExit(self.oncerun(date=NEXT), DONE)
        self.assertEqual(self.runs(), 2)

    def test_L03b_somebody_deletes_every_lock_file_in_mid_run(self):
        self.delete_in_mid_run("-locks/*")

    def test_L03b_somebody_deletes_the_guard_in_mid_run(self):
        self.delete_in_mid_run("-locks/*", "-guard")

    def test_L03b_a_lock_file_deleted_while_one_waits_for_it(self):
        gate = self.gate()
        owner = self.start("--lock", "flock", command=f'echo run >>"$D/runs"; {gate.shell}')
        gate.wait_started()
        waiting = self.start("--lock", "flock", "--wait", "30", date=NEXT,
                             command=f'echo run >>"$D/runs"; {gate.shell}')
        self.wait_for(lambda: self.waits_for_flock(waiting.pid), what="a wait for the lock")
        for path in glob.glob(self.led + "-locks/*"):
            os.unlink(path)
        third = self.oncerun("--lock", "flock", date=LATER)
        self.assertExit(third, BLOCKED)
        gate.go()
        self.assertExit(owner.end(), DONE)
        gate.wait_started()  # the one that waited runs, on a lock file that others can find
        self.assertExit(self.oncerun("--lock", "flock", date=LATER), BLOCKED)
        gate.go()
        self.assertExit(waiting.end(), DONE)
        self.assertEqual(self.runs(), 2)

    def waits_for_flock(self, pid):
        with open("/proc/locks") as locks:
            return any("->" in line and f" {pid} " in line for line in locks)


class FlockFile(Case):
    """--lock flock:PATH is flock(1)'s own lock, on a file that is not ours."""

    def setUp(self):
        super().setUp()
        self.lock = self.path("the lock")
        self.write(self.lock, "not ours\n")
        self.option = ("--lock", "flock:" + self.lock)

    def flock_now(self, *command):
        return self.spawn(["flock", "-n", self.lock, *(command or ["true"])]).end().returncode == 0

    def hold(self):
        file = open(self.lock, "rb")
        self.addCleanup(file.close)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def test_a_foreign_holder_blocks(self):
        before = self.snapshot("the lock")
        file = self.hold()
        self.assertExit(self.oncerun(*self.option), BLOCKED)
        self.assertEqual(self.runs(), 0)
        self.assertIsNone(self.row())
        fcntl.flock(file, fcntl.LOCK_UN)
        self.assertExit(self.oncerun(*self.option), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.snapshot("the lock"), before, "a user's lock file is never written")

    def test_waits_for_a_foreign_holder(self):
        file = self.hold()
        waiting = self.start(*self.option, "--wait", "30")
        self.wait_for(lambda: self.wait_is_seen(waiting), what="a wait for the lock")
        fcntl.flock(file, fcntl.LOCK_UN)
        self.assertExit(waiting.end(), DONE)
        self.assertEqual(self.runs(), 1)

    def wait_is_seen(self, process):
        self.assertIsNone(process.poll(), "it did not wait")
        with open("/proc/locks") as locks:
            return any("->" in line and f" {process.pid} " in line for line in locks)

    def test_a_wait_that_is_over_is_blocked(self):
        self.hold()
        self.assertExit(self.oncerun(*self.option, "--wait", "0.3s"), BLOCKED)
        self.assertEqual(self.runs(), 0)

    def test_flock_finds_our_lock_held(self):
        gate = self.gate()
        owner = self.start(*self.option, command=gate.shell)
        gate.wait_started()
        self.assertFalse(self.flock_now())
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertTrue(self.flock_now())

    def test_an_orphaned_command_keeps_the_lock(self):
        gate = self.gate()
        owner = self.start(*self.option, command=gate.shell)
        gate.wait_started()
        owner.kill_now()
        self.assertFalse(self.flock_now(), "the command lives and its lock is gone")
        self.assertExit(self.oncerun(*self.option, date=NEXT), BLOCKED)
        gate.go()
        self.wait_quiet()
        self.assertTrue(self.flock_now())
        self.assertEqual(self.runs(), 0)

    def test_a_folder_can_be_the_lock(self):
        os.mkdir(self.path("folder"))
        gate = self.gate()
        owner = self.start("--lock", "flock:" + self.path("folder"), command=gate.shell)
        gate.wait_started()
        self.assertNotEqual(
            self.spawn(["flock", "-n", self.path("folder"), "true"]).end().returncode, 0)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(os.listdir(self.path("folder")), [])

    def test_a_lock_file_that_may_only_be_read(self):
        self.need_root()
        self.share_binary()
        os.chmod(self.lock, 0o444)
        os.mkdir(self.path("theirs"))
        os.chown(self.path("theirs"), 65534, 65534)
        before = self.snapshot("the lock")
        result = self.oncerun(*self.option, prefix=AS_NOBODY, ledger=self.path("theirs/led.db"),
                              state=None, command=["true"])
        self.assertExit(result, DONE)
        self.assertEqual(self.snapshot("the lock"), before)

    def test_a_new_lock_file_is_made_and_stays(self):
        path = self.path("new")
        self.assertExit(self.oncerun("--lock", "flock:" + path), DONE)
        self.assertEqual(self.read(path), b"")

    def test_busy_and_blocked_are_told_apart_behind_one_lock_file(self):
        gate = self.gate()
        owner = self.start(*self.option, command=gate.shell)
        gate.wait_started()
        self.assertExit(self.oncerun(*self.option), BUSY)
        self.assertExit(self.oncerun(*self.option, date=NEXT), BLOCKED)
        self.assertExit(self.oncerun(*self.option, date=EARLIER), BLOCKED)
        self.assertExit(self.oncerun(*self.option, job="other job", state=None), BLOCKED)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.runs(), 0)

    def test_a_start_that_still_asks_names_itself_to_others(self):
        # Under the lock and before its claim no ledger knows of it: the note in the lock's file does.
        gate = self.gate()
        asking = self.start("--check-first", check=f"{gate.shell}; {ABSENT}")
        gate.wait_started()
        blocked = self.oncerun(date=NEXT)
        self.assertExit(blocked, BLOCKED, f"held for {self.date} by ")
        self.assertIn(f"pid {asking.pid}", blocked.stderr)
        self.assertExit(self.oncerun("-v"), BUSY, "about to be run")
        gate.go()
        self.assertExit(asking.end(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_another_job_is_not_blocked_by_our_own_lock(self):
        gate = self.gate()
        owner = self.start("--lock", "flock", command=gate.shell)
        gate.wait_started()
        # A name that would be a path, were it one.
        other = self.oncerun("--lock", "flock", job="../" + self.job, state=None)
        self.assertExit(other, DONE)
        self.assertEqual(self.runs(), 1)
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_without_a_lock_other_dates_run_beside_each_other(self):
        gate = self.gate()
        owner = self.start("--lock", "none", command=gate.shell)
        gate.wait_started()
        self.assertExit(self.oncerun("--lock", "none"), BUSY)
        self.assertExit(self.oncerun("--lock", "none", date=NEXT), DONE)
        self.assertEqual(self.runs(), 1)
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_a_stopped_wait_ends_at_once(self):
        self.hold()
        for number in (signal.SIGTERM, signal.SIGINT):
            waiting = self.start(*self.option, "--wait", "60")
            self.wait_for(lambda: self.wait_is_seen(waiting), what="a wait for the lock")
            waiting.send_signal(number)
            self.assertExit(waiting.end(timeout=1.5), 128 + number)
        self.assertEqual(self.runs(), 0)
        self.assertIsNone(self.row())


if __name__ == "__main__":
    main()
