"""--replace stops the run that is in the way, and G10: nothing starts before the old one ended."""

import fcntl
import os
import signal
import time

from oncerun_test import (ABSENT, BLOCKED, BUSY, CONTAINER, DATE, DONE, HELD, NEXT, PRESENT,
                          UNCLEAR, Case, child_of, main)

TELLS_ITS_END = 'trap \'echo ended >>"$D/log"; exit 7\' TERM; '


class Replace(Case):
    def setUp(self):
        super().setUp()
        self.start_gate = self.gate()

    def owner(self, *args, prelude=TELLS_ITS_END, **kw):
        """A run that tells when it is stopped; waits in a way that lets its trap run at once."""
        command = f'{prelude}{self.start_gate.announce}; sleep 100 & wait $!; wait'
        owner = self.start("--kill-after", "1s", *args, command=command, **kw)
        self.command = self.start_gate.wait_started()
        return owner

    def newcomer(self, *args, **kw):
        return self.oncerun("--replace", "--kill-after", "1s", *args, timeout=20,
                            command='echo replaced >>"$D/log"', **kw)

    def log(self):
        return self.lines("log")

    def test_another_date_of_the_job(self):
        owner = self.owner()
        self.assertExit(self.newcomer(date=NEXT), DONE)
        self.assertExit(owner.end(timeout=5), 7)
        self.assertEqual(self.log(), ["ended", "replaced"])
        self.assertStatus("unknown")
        self.assertStatus("done", date=NEXT)

    def test_a_newer_date_is_left_alone(self):
        """The newer covers the older, not the other way round."""
        owner = self.owner(date=NEXT)
        self.assertExit(self.newcomer("-g", "at-least-once"), BLOCKED)
        self.assertIsNone(owner.poll())
        self.assertEqual(self.log(), [])
        owner.terminate()
        self.assertExit(owner.end(timeout=5), 7)

    def test_another_date_after_a_wait(self):
        owner = self.owner()
        begun = time.monotonic()
        self.assertExit(self.newcomer("--wait", "0.5s", date=NEXT), DONE)
        self.assertGreaterEqual(time.monotonic() - begun, 0.5)
        self.assertEqual(self.log(), ["ended", "replaced"])
        owner.end(timeout=5)

    def test_a_wait_that_suffices_replaces_nobody(self):
        gate = self.gate("other")
        owner = self.start(command=gate.shell)
        gate.wait_started()
        newcomer = self.start("--replace", "--wait", "30s", date=NEXT)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertExit(newcomer.end(), DONE)
        self.assertStatus("done")
        self.assertStatus("done", date=NEXT)

    def test_this_date_at_least_once(self):
        for lock in ("flock", "none"):
            with self.subTest(lock=lock):
                self.date = DATE if lock == "flock" else NEXT
                self.write(self.path("log"), "")
                owner = self.owner("--lock", lock)
                self.assertExit(self.newcomer("--lock", lock, "-g", "at-least-once"), DONE)
                self.assertExit(owner.end(timeout=5), 7)
                self.assertEqual(self.log(), ["ended", "replaced"])
                self.assertStatus("done")
                self.assertEqual(self.row()["attempts"], 2)

    def test_this_date_with_a_check(self):
        owner = self.owner()
        self.assertExit(self.newcomer(check=ABSENT), DONE)
        self.assertExit(owner.end(timeout=5), 7)
        self.assertEqual(self.log(), ["ended", "replaced"])
        self.assertStatus("done")

    def test_this_date_with_a_check_that_finds_it_done(self):
        owner = self.owner()
        self.assertExit(self.newcomer(check=PRESENT), DONE)
        self.assertExit(owner.end(timeout=5), 7)
        self.assertEqual(self.log(), ["ended"])
        self.assertStatus("done")
        self.assertEqual(self.row()["attempts"], 1)

    def test_this_date_with_a_check_that_does_not_know(self):
        owner = self.owner()
        self.assertExit(self.newcomer(check=UNCLEAR), HELD)
        self.assertExit(owner.end(timeout=5), 7)
        self.assertEqual(self.log(), ["ended"])
        self.assertStatus("unknown")

    def test_this_date_with_neither_is_left_alone(self):
        """It would be stopped, and then nobody could say whether it may be started again."""
        owner = self.owner()
        for guarantee in ("cautious", "at-most-once"):
            result = self.newcomer("-g", guarantee)
            self.assertExit(result, BUSY)
        self.assertIsNone(owner.poll())
        self.assertEqual(self.log(), [])
        owner.terminate()
        self.assertExit(owner.end(timeout=5), 7)

    def test_one_that_does_not_listen_is_killed(self):
        owner = self.owner(prelude="trap '' TERM; ")
        self.assertExit(self.newcomer(date=NEXT), DONE)
        self.assertExit(owner.end(timeout=5), 137)
        self.assertEqual(self.log(), ["replaced"])
        self.assertStatus("unknown")

    def test_an_orphaned_tree_of_this_date(self):
        for lock in ("flock", "none"):
            with self.subTest(lock=lock):
                self.date = DATE if lock == "flock" else NEXT
                self.write(self.path("log"), "")
                self.owner("--lock", lock).kill_now()
                self.assertExit(self.newcomer("--lock", lock), BUSY)
                self.assertExit(self.newcomer("--lock", lock, "-g", "at-least-once"), DONE)
                self.assertEqual(self.log(), ["ended", "replaced"])
                self.assertNotIn(self.command, self.processes())

    def test_an_orphaned_tree_of_another_date(self):
        self.owner().kill_now()
        self.assertExit(self.newcomer(date=NEXT), DONE)
        self.assertEqual(self.log(), ["ended", "replaced"])
        self.assertStatus("done", date=NEXT)
        self.assertExit(self.oncerun(), HELD)

    def test_never_a_foreign_holder_of_the_lock(self):
        lock = self.path("lock")
        gate = self.gate("foreign")
        foreign = self.spawn(["flock", lock, "sh", "-c", gate.shell])
        gate.wait_started()
        for guarantee in ("cautious", "at-least-once"):
            result = self.newcomer("--lock", "flock:" + lock, "--wait", "0.2s", "-g", guarantee)
            self.assertExit(result, BLOCKED)
            self.assertIsNone(foreign.poll(), "a foreign holder was stopped")
        self.assertEqual(self.log(), [])
        gate.go()
        self.assertExit(foreign.end(), 0)

    def test_never_a_foreign_holder_of_our_own_lock_file(self):
        """A note in it may be old: only who holds the lock and owns a run is stopped."""
        self.assertExit(self.oncerun(command=["true"]), DONE)
        names = os.listdir(self.led + "-locks")
        self.assertEqual(len(names), 1)
        with open(os.path.join(self.led + "-locks", names[0]), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertExit(self.newcomer(date=NEXT), BLOCKED)
        self.assertEqual(self.log(), [])

    def test_never_into_another_pid_namespace(self):
        self.need_containers()
        owner = self.owner(prefix=CONTAINER)
        result = self.newcomer(date=NEXT)
        self.assertExit(result, BLOCKED)
        result = self.newcomer("-g", "at-least-once")
        self.assertExit(result, BUSY)
        self.assertIsNone(owner.poll())
        self.assertEqual(self.log(), [])

    def test_replacing_ends_with_TERM(self):
        owner = self.start("--kill-after", "60s",
                           command=f"trap '' TERM; {self.start_gate.announce}; sleep 100 & wait")
        self.start_gate.wait_started()
        newcomer = self.start("--replace", date=NEXT)
        self.wait_for(lambda: "replac" in newcomer.err or "stop" in newcomer.err, 5,
                      "a word about the run that is being stopped")
        newcomer.terminate()
        self.assertExit(newcomer.end(timeout=2), 143)
        self.assertEqual(self.runs(), 0)
        self.assertIsNone(self.row(date=NEXT))
        owner.kill_now()


class StillStopping(Case):
    """G10: a replacement starts while the old one is still stopping, each in its own container."""

    def setUp(self):
        super().setUp()
        self.need_containers()
        self.container = [*CONTAINER, "--mount"]
        gate = self.gate()
        command = ("trap 'sleep 1.5; echo end1 >>\"$D/log\"; exit 143' TERM;"
                   f" echo start1 >>\"$D/log\"; {gate.announce}; sleep 100 & wait")
        self.old = self.start("--lock", "none", command=command, prefix=self.container)
        gate.wait_started()
        os.kill(child_of(self.old.pid), signal.SIGTERM)

    def new(self, *args, **kw):
        return self.oncerun("--lock", "none", *args, prefix=self.container,
                            command='echo start2 >>"$D/log"', **kw)

    def test_G10_at_least_once(self):
        self.assertExit(self.new("-g", "at-least-once"), BUSY)
        self.assertEqual(self.lines("log"), ["start1"])
        self.assertExit(self.old.end(timeout=20), 143)
        self.assertStatus("unknown")
        self.assertExit(self.new("-g", "at-least-once"), DONE)
        self.assertEqual(self.lines("log"), ["start1", "end1", "start2"])

    def test_G10_at_least_once_that_waits(self):
        self.assertExit(self.new("-g", "at-least-once", "--wait", "20s"), DONE)
        self.assertExit(self.old.end(timeout=20), 143)
        self.assertEqual(self.lines("log"), ["start1", "end1", "start2"])

    def test_G10_at_most_once(self):
        self.assertExit(self.new("-g", "at-most-once"), BUSY)
        self.assertExit(self.old.end(timeout=20), 143)
        self.assertExit(self.new("-g", "at-most-once"), HELD)
        self.assertExit(self.new("-g", "at-most-once", check=UNCLEAR), HELD)
        self.assertEqual(self.lines("log"), ["start1", "end1"])
        self.assertExit(self.new("-g", "at-most-once", check=ABSENT), DONE)
        self.assertEqual(self.lines("log"), ["start1", "end1", "start2"])


if __name__ == "__main__":
    main()
