"""Supervision: signals, timeouts, and owners that die alone (cases P01, P02, P11)."""

import json
import os
import re
import signal
import time

from oncerun_test import (BLOCKED, BUSY, DONE, HELD, NEXT, NOT_FOUND, TIMEOUT, Case,
                          default_signals, main, process_state, processes_with)

SIGNALS = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"]
# A run ends as unknown, whatever its exit code, once oncerun saw one of these.
STOPPING = {"TERM", "INT", "QUIT"}


def number(name):
    return getattr(signal, "SIG" + name)


class ProcessCase(Case):
    def start(self, *args, **kw):
        kw.setdefault("preexec_fn", default_signals)
        return super().start(*args, **kw)

    def assertNothingLeft(self):
        self.assertEqual(self.processes(), [], "processes of the run are still there")


class Signals(ProcessCase):
    def test_P01_a_signal_ends_an_untrapped_command(self):
        started = []
        for name in SIGNALS:
            gate = self.gate(name)
            owner = self.start(job=name, state=None, command=f"{gate.announce}; exec sleep 60")
            started.append((name, gate, owner))
        for name, gate, owner in started:
            gate.wait_started()
            os.kill(owner.pid, number(name))
        for name, _, owner in started:
            with self.subTest(name):
                self.assertExit(owner.end(20), 128 + number(name))
                self.assertStatus("unknown", job=name)
        self.assertNothingLeft()

    def test_P01_a_trapped_signal_gets_its_clean_up_and_its_code(self):
        started = []
        for name in SIGNALS:
            gate = self.gate(name)
            job = (f"trap 'echo {name} >>\"$D/clean\"; sleep 2; exit 7' {name}; {gate.announce}; "
                   "while :; do sleep 0.1; done")
            started.append((name, gate, self.start(job=name, state=None, command=job)))
        for name, gate, owner in started:
            gate.wait_started()
            os.kill(owner.pid, number(name))
        for name, _, owner in started:
            with self.subTest(name):
                self.assertExit(owner.end(20), 7)
                self.assertStatus("unknown" if name in STOPPING else "failed", job=name)
        self.assertNothingLeft()
        self.assertEqual(sorted(self.lines("clean")), sorted(SIGNALS), "each signal, each once")

    def test_P01_the_command_ends_by_a_signal_of_its_own(self):
        for name, code in (("KILL", 137), ("SEGV", 139)):
            with self.subTest(name):
                done = self.oncerun(job=name, state=None, command=f"kill -{name} $$; sleep 60")
                self.assertExit(done, code)
                self.assertStatus("unknown", job=name)

    def test_P01_exit_255_is_a_failure(self):
        self.assertExit(self.oncerun(command="exit 255"), 255)
        self.assertStatus("failed")

    def test_P01_a_handler_that_exits_0_half_done_proves_nothing(self):
        gate = self.gate()
        owner = self.start(command=f"trap 'exit 0' TERM; {gate.announce}; while :; do sleep 0.1; done")
        gate.wait_started()
        os.kill(owner.pid, signal.SIGTERM)
        self.assertExit(owner.end(20), 143)
        self.assertStatus("unknown")
        self.assertIsNone(self.state().get("lastPublishedDate"))
        self.assertExit(self.oncerun(), HELD)
        self.assertEqual(self.runs(), 0)

    def test_P01_a_shell_whose_child_was_killed_knows_nothing(self):
        self.assertExit(self.oncerun(command="sh -c 'kill -KILL $$; :'; exit $?"), 137)
        self.assertStatus("unknown")

    def test_P01_exit_127_is_a_failure_and_not_a_missing_start(self):
        done = self.oncerun(command='"$D/hit"; no-such-tool')
        self.assertExit(done, NOT_FOUND)
        self.assertStatus("failed")
        self.assertEqual(self.runs(), 1)
        # A run that was never started would be started under every guarantee.
        self.assertExit(self.oncerun("--guarantee", "at-most-once"), HELD)
        self.assertExit(self.oncerun(command='echo "$ONCERUN_PREVIOUS" >"$D/previous"'), DONE)
        self.assertEqual(self.lines("previous"), ["failed"])

    def test_a_stop_ends_what_called_setsid_too(self):
        gate = self.gate()
        owner = self.start("--kill-after", "1", command=(
            "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & "
            f"{gate.announce}; exec sleep 60"))
        gate.wait_started()
        os.kill(owner.pid, signal.SIGTERM)
        self.assertExit(owner.end(20), 143)
        self.assertNothingLeft()
        self.assertStatus("unknown")

    def test_INT_does_not_escalate_to_KILL(self):
        gate = self.gate()
        owner = self.start("--kill-after", "0.2s", command=(
            f"trap 'sleep 1; echo whole >\"$D/clean\"; exit 7' INT; {gate.announce}; "
            "while :; do sleep 0.1; done"))
        gate.wait_started()
        os.kill(owner.pid, signal.SIGINT)
        self.assertExit(owner.end(20), 7)
        self.assertEqual(self.lines("clean"), ["whole"])

    def test_an_ignored_SIGCHLD_changes_nothing(self):
        def ignore():
            default_signals()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)

        self.assertExit(self.oncerun(command="exit 3", preexec_fn=ignore), 3)
        self.assertStatus("failed")

    def test_closed_standard_descriptors_change_nothing(self):
        # The loop's own output stands at 1; 0 and 2 are as closed as they were given.
        probe = 'for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && echo $n; done >>"$D/opened"; exit 5'
        argv = self.argv(command=["sh", "-c", probe])
        closed = self.spawn(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *argv]).end()
        self.assertEqual(closed.returncode, 5)
        self.assertStatus("failed")
        self.assertEqual(self.lines("opened"), ["1"])
        for name in ("led.db", "st.json"):
            head = self.read(self.path(name))[:16]
            self.assertIn(head[:1], (b"S", b"{"), f"{name} was written over")


class Timeouts(ProcessCase):
    JOB = 'trap "" TERM; (trap "" TERM; sleep 30; echo late >>"$D/late") & sleep 30'

    def stubborn(self, command):
        held = self.path("held")
        os.mkfifo(held)
        # Every process of the tree inherits the writing end: end of file says that all are gone.
        reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        begin = time.monotonic()
        done = self.oncerun("--timeout", "2", "--kill-after", "1",
                            command=f'exec 9>"$D/held"; {command}')
        took = time.monotonic() - begin
        self.assertExit(done, TIMEOUT)
        self.assertLess(took, 5)
        self.assertGreaterEqual(took, 2)
        self.assertEqual(os.read(reader, 1), b"", "somebody still holds the pipe")
        self.assertNothingLeft()
        self.assertEqual(self.lines("late"), [])
        self.assertStatus("unknown")

    def test_P02_a_timeout_ends_the_whole_tree(self):
        self.stubborn(self.JOB)

    def test_P02_a_timeout_ends_what_called_setsid(self):
        self.write(self.path("deaf"), self.JOB)
        self.stubborn("setsid sh \"$D/deaf\" & setsid -f sh \"$D/deaf\"; wait")

    def test_P02_a_kill_from_elsewhere_is_not_a_timeout(self):
        report = self.path("report.json")
        done = self.oncerun("--timeout", "30", "--report", report, command="kill -9 $$; sleep 60")
        self.assertExit(done, 137)
        self.assertNotEqual(json.loads(self.read(report))["outcome"], "timeout")

    def test_P02_a_step_of_the_wall_clock_is_not_a_timeout(self):
        library = next((p for p in ("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
                                    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1")
                        if os.path.exists(p)), None)
        if library is None:
            self.skip("needs libfaketime, which is not installed")
        with open(os.environ["ONCERUN_BINARY"], "rb") as file:
            if b"__asan_init" in file.read():
                self.skip("a sanitizer's run time and libfaketime do not go together")
        clock = self.path("clock")
        self.write(clock, "+0\n")
        gate = self.gate()
        report = self.path("report.json")
        # The job itself runs by the real clock.
        owner = self.start("--timeout", "1h", "--report", report,
                           command=["env", "-u", "LD_PRELOAD", "sh", "-c",
                                    f"trap 'echo woken >>\"$D/woken\"' USR1; {gate.announce}; "
                                    + gate.patient],
                           env={"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": clock,
                                "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"})
        gate.wait_started()
        self.write(clock, "+2h\n")
        os.kill(owner.pid, signal.SIGUSR1)  # wakes oncerun, which then looks at its timers
        self.wait_for(lambda: self.lines("woken"), 10, "the passed on USR1")
        gate.go()
        self.assertExit(owner.end(20), 0)
        self.assertEqual(json.loads(self.read(report))["outcome"], "done")


class OwnerKilled(ProcessCase):
    """P11: oncerun alone is killed, and its command has closed what it inherited."""

    def assertOrphanIsSeen(self, owner, pid):
        owner.kill_now()
        self.assertIn(process_state(pid), ("S", "R"), "the command lives on")
        for fd in os.listdir(f"/proc/{pid}/fd"):
            self.assertFalse(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(self.led))
        busy = self.oncerun()
        self.assertExit(busy, BUSY)
        pids = {str(each) for each in self.processes()}
        self.assertTrue(set(re.findall(r"\d+", busy.stderr)) & pids,
                        f"names none of {pids}: {busy.stderr!r}")
        blocked = self.oncerun(date=NEXT)
        self.assertExit(blocked, BLOCKED)
        self.assertEqual(self.runs(), 0)
        for each in self.processes():
            os.kill(each, signal.SIGKILL)
        self.wait_quiet()
        self.assertExit(self.oncerun(), HELD)
        self.assertEqual(self.runs(), 0)
        self.assertExit(self.oncerun("--guarantee", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_P11_bash_closed_them(self):
        self.need("bash")
        gate = self.gate()
        job = ('for fd in /proc/$$/fd/*; do n=${fd##*/}; '
               '[ "$n" -gt 2 ] && eval "exec $n>&-"; done 2>/dev/null; '
               f"{gate.announce}; exec sleep 60")
        owner = self.start(command=["bash", "-c", job])
        self.assertOrphanIsSeen(owner, gate.wait_started())

    def test_P11_a_python_subprocess_never_had_them(self):
        gate = self.gate()
        job = ("import os, subprocess\n"
               f"child = subprocess.Popen(['sh', '-c', {gate.announce + '; exec sleep 60'!r}])\n"
               "os.closerange(3, 1024)\nchild.wait()\n")
        owner = self.start(command=["/usr/bin/python3", "-c", job])
        self.assertOrphanIsSeen(owner, gate.wait_started())

    def test_P11_the_parent_that_had_them_is_gone(self):
        gate = self.gate()
        job = ("import os, subprocess\n"
               f"child = subprocess.Popen(['sh', '-c', {gate.announce + '; exec sleep 60'!r}])\n"
               "child.wait()\n")
        owner = self.start(command=["/usr/bin/python3", "-c", job])
        pid = gate.wait_started()
        owner.kill_now()
        parent = next(each for each in processes_with(f"D={self.dir}") if each != pid)
        os.kill(parent, signal.SIGKILL)
        self.wait_for(lambda: process_state(parent) in (None, "Z"), 10, "the parent's end")
        self.assertOrphanIsSeen(owner, pid)

    def test_P11_sudo_closed_them(self):
        self.need_root()
        self.need("sudo")
        gate = self.gate()
        owner = self.start(command=["sudo", "--preserve-env=D", "--", "sh", "-c",
                                    f"{gate.announce}; exec sleep 60"])
        self.assertOrphanIsSeen(owner, gate.wait_started())


if __name__ == "__main__":
    main()
