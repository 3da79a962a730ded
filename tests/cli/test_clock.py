"""The wall clock steps, and time stands still for a stopped process."""

import os
import re
import signal

from oncerun_test import BINARY, BUSY, DATE, DONE, EARLIER, HELD, NEXT, Case, main, process_state

LIBRARIES = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
             "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1")
REAL_CLOCK = ["env", "-u", "LD_PRELOAD"]
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class WallClock(Case):
    def setUp(self):
        super().setUp()
        library = next((path for path in LIBRARIES if os.path.exists(path)), None)
        if library is None:
            self.skip("needs libfaketime, which is not installed")
        with open(BINARY, "rb") as file:
            if b"__asan_init" in file.read():
                self.skip("a sanitizer's run time and libfaketime do not go together")
        self.clock = self.path("clock")
        self.set_clock("+0")
        # The monotonic clock stays what it is: nobody can step that.
        self.env.update({"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": self.clock,
                         "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"})

    def set_clock(self, offset):
        self.write(self.clock, offset + "\n")

    def tokens(self):
        return [row["fencing_token"] for row in
                self.query("SELECT fencing_token FROM job_attempt ORDER BY serial")]

    def assertGrow(self, tokens):
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_tokens_grow_whatever_the_clock_does_between_runs(self):
        steps = ("+0", "-3h", "+10d", "-400d", "+0", "-1s", "+0")
        for day, offset in enumerate(steps, start=1):
            self.set_clock(offset)
            self.assertExit(self.oncerun(date=f"2023-03-{day:02}"), DONE)
        self.assertEqual(self.runs(), len(steps))
        tokens = self.tokens()
        self.assertEqual(len(tokens), len(steps))
        self.assertGrow(tokens)
        for row in self.query("SELECT * FROM job_run"):
            for column in ("started_at", "updated_at", "finished_at"):
                self.assertRegex(row[column], INSTANT)
        self.assertExit(self.sub("history"), 0)
        self.assertEqual(len(self.sub_json("history", "--job", self.job)), len(steps))

    def test_a_date_that_is_done_stays_done_when_the_clock_goes_back(self):
        self.assertExit(self.oncerun(), DONE)
        for offset in ("-1h", "-300d", "+300d"):
            self.set_clock(offset)
            self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def stepped_in_mid_run(self, offset, command, code, **kw):
        gate = self.gate(f"gate{offset}")
        owner = self.start(date=kw.pop("date", DATE),
                           command=[*REAL_CLOCK, "sh", "-c", f"{gate.shell}; {command}"], **kw)
        gate.wait_started()
        self.set_clock(offset)
        gate.go()
        self.assertExit(owner.end(), code)
        self.set_clock("+0")

    def test_a_step_in_mid_run_loses_nothing(self):
        for date, offset in ((EARLIER, "+5h"), (DATE, "-5h"), (NEXT, "-40d")):
            with self.subTest(offset=offset):
                self.stepped_in_mid_run(offset, "exit 0", DONE, date=date)
                self.assertStatus("done", date=date)
                self.assertExit(self.oncerun(date=date), DONE)
        self.assertEqual(self.runs(), 0)
        self.assertGrow(self.tokens())

    def test_a_step_in_mid_run_makes_nobody_dead(self):
        for offset in ("+400d", "-400d"):
            with self.subTest(offset=offset):
                self.set_clock("+0")
                gate = self.gate(f"alive{offset}")
                owner = self.start(command=[*REAL_CLOCK, "sh", "-c", f"{gate.shell}; exit 3"])
                gate.wait_started()
                self.set_clock(offset)
                self.assertExit(self.oncerun("-g", "at-least-once"), BUSY)
                gate.go()
                self.assertExit(owner.end(), 3)
        self.assertEqual(self.runs(), 0)

    def test_a_wait_is_as_long_as_it_was_said(self):
        gate = self.gate()
        owner = self.start(command=[*REAL_CLOCK, "sh", "-c", gate.shell])
        gate.wait_started()
        waiting = self.start("--wait", "1h", "-g", "at-least-once")
        # It waits once it has the lock's file open beside the owner.
        self.wait_for(lambda: "-locks/" in open_files(waiting.pid), 10, "the second to wait")
        self.set_clock("+5d")
        self.assertIsNone(waiting.poll())
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertExit(waiting.end(20), DONE)
        self.assertEqual(self.runs(), 0)


class StandingStill(Case):
    def stop(self, process):
        os.kill(process.pid, signal.SIGSTOP)
        self.wait_for(lambda: process_state(process.pid) == "T", 10, "it to stand still")

    def test_a_stopped_owner_is_alive(self):
        gate = self.gate()
        owner = self.start(command=f"{gate.shell}; exit 0")
        gate.wait_started()
        self.stop(owner)
        self.assertExit(self.oncerun("-g", "at-least-once"), BUSY)
        gate.go()
        self.wait_for(lambda: len(self.processes()) == 1 or not self.processes(), 10,
                      "the command to end")
        # Its command has ended and nobody has seen it: still not dead, still not done.
        self.assertExit(self.oncerun("-g", "at-least-once"), BUSY)
        self.assertStatus("pending")
        os.kill(owner.pid, signal.SIGCONT)
        self.assertExit(owner.end(), DONE)
        self.assertStatus("done")
        self.assertEqual(self.runs(), 0)

    def test_an_owner_that_is_killed_while_it_stands_still_is_dead(self):
        gate = self.gate()
        owner = self.start(command=f"{gate.shell}; exit 0")
        gate.wait_started()
        self.stop(owner)
        gate.go()
        owner.kill_now()
        self.wait_quiet()
        self.assertExit(self.oncerun(), HELD)
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_waiter_that_stood_still_while_the_owner_ended_does_not_run_again(self):
        gate = self.gate()
        owner = self.start(command=f"{gate.shell}; exit 0")
        gate.wait_started()
        waiting = self.start("--wait", "60", "-g", "at-least-once")
        self.wait_for(lambda: "-locks/" in open_files(waiting.pid), 10, "the second to wait")
        self.stop(waiting)
        gate.go()
        self.assertExit(owner.end(), DONE)
        os.kill(waiting.pid, signal.SIGCONT)
        self.assertExit(waiting.end(20), DONE)
        self.assertEqual(self.runs(), 0)

    def test_a_timeout_counts_the_time_that_a_stopped_command_stood_still(self):
        gate = self.gate()
        owner = self.start("--timeout", "1s", "--kill-after", "1s", command=gate.shell)
        pid = gate.wait_started()
        os.kill(pid, signal.SIGSTOP)
        self.assertExit(owner.end(20), 124)
        self.wait_quiet()
        self.assertStatus("unknown")


def open_files(pid):
    """The names of a process's open files, in one text; empty if it is gone."""
    names = []
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    except OSError:
        pass
    return "\n".join(names)


if __name__ == "__main__":
    main()
