"""--wait: for the lock, for a run of the same date, and for what a dead owner left behind."""

import os
import signal
import time

from oncerun_test import ABSENT, BLOCKED, BUSY, DATE, DONE, HELD, LATER, NEXT, PRESENT, Case, main


class Wait(Case):
    LOCKS = ("flock", "none")

    def owner(self, lock, **kw):
        """A run that stands at its gate."""
        self.number = getattr(self, "number", 0) + 1
        gate = self.gate(f"gate{self.number}")
        self.led = self.path(f"led{self.number}.db")
        self.st = self.path(f"st{self.number}.json")
        self.write(self.path("runs"), "")
        owner = self.start("--lock", lock, command=gate.shell, **kw)
        return gate, owner, gate.wait_started()

    def waiter(self, lock, *args, **kw):
        """A second start that waits, seen to be waiting for a moment."""
        waiting = self.start("--lock", lock, "--wait", "60s", *args, **kw)
        self.still_waits(waiting)
        return waiting

    def still_waits(self, waiting):
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            self.assertIsNone(waiting.poll(), f"it did not wait: {waiting.err}")
            time.sleep(0.02)

    def test_the_owner_ends_well(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                gate, owner, _ = self.owner(lock)
                waiting = self.waiter(lock)
                gate.go()
                self.assertExit(owner.end(), DONE)
                self.assertExit(waiting.end(timeout=5), DONE)
                self.assertEqual(self.runs(), 0)

    def test_the_owner_dies_with_its_command_and_the_waiter_takes_over(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                _, owner, command = self.owner(lock)
                waiting = self.waiter(lock, "-g", "at-least-once")
                owner.kill()
                os.kill(command, signal.SIGKILL)
                owner.end()
                self.assertExit(waiting.end(timeout=5), DONE)
                self.assertEqual(self.runs(), 1)
                self.assertStatus("done")
                self.assertEqual(self.row()["attempts"], 2)

    def test_the_owner_dies_and_the_check_is_asked(self):
        for check, runs in ((ABSENT, 1), (PRESENT, 0)):
            for lock in self.LOCKS:
                with self.subTest(lock=lock):
                    _, owner, command = self.owner(lock)
                    waiting = self.waiter(lock, check=check)
                    owner.kill()
                    os.kill(command, signal.SIGKILL)
                    owner.end()
                    self.assertExit(waiting.end(timeout=5), DONE)
                    self.assertEqual(self.runs(), runs)
                    self.assertStatus("done")

    def test_the_owner_dies_and_nobody_can_be_asked(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                _, owner, command = self.owner(lock)
                waiting = self.waiter(lock)
                owner.kill()
                os.kill(command, signal.SIGKILL)
                owner.end()
                self.assertExit(waiting.end(timeout=5), HELD)
                self.assertEqual(self.runs(), 0)

    def test_an_orphaned_command_is_waited_for(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                gate, owner, _ = self.owner(lock)
                waiting = self.waiter(lock, "-g", "at-least-once")
                owner.kill_now()
                self.still_waits(waiting)
                self.assertEqual(self.runs(), 0, "started beside an orphan")
                gate.go()
                self.assertExit(waiting.end(timeout=5), DONE)
                self.assertEqual(self.runs(), 1)

    def test_an_orphaned_command_makes_it_busy_and_is_named(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                gate, owner, command = self.owner(lock)
                owner.kill_now()
                result = self.oncerun("--lock", lock, "-g", "at-least-once", check=ABSENT)
                self.assertExit(result, BUSY)
                self.assertIn(str(command), result.stderr)
                self.assertEqual(self.runs(), 0)
                gate.go()
                self.wait_quiet()
                self.assertExit(self.oncerun("--lock", lock, "-g", "at-least-once"), DONE)
                self.assertEqual(self.runs(), 1)

    def test_a_failed_owner_is_followed_as_the_guarantee_says(self):
        for guarantee, date, code, runs in (("cautious", DATE, DONE, 1),
                                            ("at-least-once", NEXT, DONE, 1),
                                            ("at-most-once", LATER, HELD, 0)):
            with self.subTest(guarantee=guarantee):
                self.date = date
                before = self.runs()
                gate = self.gate(guarantee)
                owner = self.start(command=f"{gate.shell}; exit 3")
                gate.wait_started()
                waiting = self.start("--wait", "60s", "-g", guarantee)
                gate.go()
                self.assertExit(owner.end(), 3)
                # Had it come too late to wait, the answer would be the same.
                self.assertExit(waiting.end(timeout=5), code)
                self.assertEqual(self.runs() - before, runs)

    def test_the_wait_is_over(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                gate, owner, _ = self.owner(lock)
                begun = time.monotonic()
                self.assertExit(self.oncerun("--lock", lock, "--wait", "0.5s"), BUSY)
                self.assertGreaterEqual(time.monotonic() - begun, 0.5)
                self.assertLess(time.monotonic() - begun, 3)
                gate.go()
                self.assertExit(owner.end(), DONE)
                self.assertEqual(self.runs(), 0)

    def test_another_date_is_waited_for_under_the_jobs_lock(self):
        gate, owner, _ = self.owner("flock")
        self.assertExit(self.oncerun("--wait", "0.3s", date=NEXT), BLOCKED)
        waiting = self.waiter("flock", date=NEXT)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertExit(waiting.end(timeout=5), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done", date=NEXT)

    def test_a_wait_ends_with_a_signal(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                gate, owner, _ = self.owner(lock)
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                    waiting = self.waiter(lock)
                    waiting.send_signal(number)
                    self.assertExit(waiting.end(timeout=1.5), 128 + number)
                gate.go()
                self.assertExit(owner.end(), DONE)
                self.assertEqual(self.runs(), 0)
                self.assertEqual(self.row()["attempts"], 1)

    def test_many_wait_and_one_follows(self):
        for lock in self.LOCKS:
            with self.subTest(lock=lock):
                _, owner, command = self.owner(lock)
                waiting = [self.start("--lock", lock, "--wait", "60s", "-g", "at-least-once")
                           for _ in range(8)]
                self.still_waits(waiting[0])
                owner.kill()
                os.kill(command, signal.SIGKILL)
                owner.end()
                for process in waiting:
                    self.assertExit(process.end(timeout=20), DONE)
                self.assertEqual(self.runs(), 1)


if __name__ == "__main__":
    main()
