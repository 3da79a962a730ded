"""L06 and L08: containers, other machines, and file systems that may only be read."""

import os
import signal

from oncerun_test import (ABSENT, BUSY, CONTAINER, DATE, DONE, EARLIER, HELD, JOB, UNWRITABLE, Case,
                          child_of, main)

# Runs the rest of the line as if on the machine and in the boot that two files name.
ELSEWHERE = """
mount --make-rprivate / &&
mount --bind "$1" /etc/machine-id && mount --bind "$2" /proc/sys/kernel/random/boot_id || exit 111
shift 2; exec "$@"
"""


class Containers(Case):
    def setUp(self):
        super().setUp()
        self.need_containers()

    def crash_in_a_container(self):
        gate = self.gate()
        first = self.start(prefix=CONTAINER, command=f'"$D/hit"; {gate.announce}; sleep 100')
        gate.wait_started()
        init = child_of(first.pid)
        self.assertNotEqual(init, 0)
        os.kill(init, signal.SIGKILL)
        first.end()
        self.wait_quiet()

    def test_L06_a_recorded_pid_that_is_alive_again_is_stale_at_once(self):
        self.crash_in_a_container()
        second = self.oncerun(prefix=CONTAINER, timeout=5,
                              check='echo asked >>"$D/asked"; exit 10')
        self.assertExit(second, DONE)
        self.assertTrue(self.lines("asked"))
        self.assertEqual(self.runs(), 2)
        self.assertStatus("done")

    def test_L06_seen_from_outside_it_is_stale_too(self):
        self.crash_in_a_container()
        self.assertExit(self.oncerun(), HELD)
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_L06_an_owner_alive_in_another_container_is_seen(self):
        gate = self.gate()
        owner = self.start(prefix=CONTAINER, command=gate.shell)
        gate.wait_started()
        for prefix in (CONTAINER, []):
            self.assertExit(self.oncerun("-g", "at-least-once", "--lock", "none", prefix=prefix),
                            BUSY)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.runs(), 0)

    def elsewhere(self, machine=None, boot=None):
        """A prefix that changes the machine's or the boot's identity (hex digits, a UUID)."""
        self.need_machine_id()
        names = []
        for name, given, real in (("machine", machine, "/etc/machine-id"),
                                  ("boot", boot, "/proc/sys/kernel/random/boot_id")):
            content = self.read(real) if given is None else (given + "\n").encode()
            if not content:
                self.skip(f"{real} is empty or missing")
            self.write(self.path(name), content)
            names.append(self.path(name))
        return ["unshare", "--mount", "sh", "-c", ELSEWHERE, "sh", *names]

    def crash(self, prefix):
        gate = self.gate()
        first = self.start(prefix=prefix, command=f'"$D/hit"; {gate.announce}; exec sleep 100')
        pid = gate.wait_started()
        # unshare --mount execs, so this is oncerun; its command goes with it.
        os.kill(first.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        self.assertExit(first.end(), -signal.SIGKILL)
        self.wait_quiet()

    def test_L06_S14_a_row_of_another_machine_proves_nothing(self):
        other = self.elsewhere("0123456789abcdef0123456789abcdef",
                               "01234567-89ab-cdef-0123-456789abcdef")
        self.crash(other)
        # A pid that does live here must not matter.
        self.assertEqual(self.execute("UPDATE job_run SET pid = ? WHERE job_name = ?",
                                      os.getpid(), JOB), 1)
        row = self.row()
        for guarantee in ("cautious", "at-least-once", "at-most-once"):
            result = self.oncerun("-g", guarantee, check='echo asked >>"$D/asked"; exit 10')
            self.assertExit(result, HELD)
            self.assertExit(self.oncerun("-g", guarantee), HELD)
        self.assertEqual(self.lines("asked"), [], "a check cannot answer for a run that may go on")
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.row(), row)

    def test_L06_S14_a_row_of_another_machine_needs_force(self):
        self.crash(self.elsewhere("0123456789abcdef0123456789abcdef",
                                  "01234567-89ab-cdef-0123-456789abcdef"))
        self.assertNotEqual(self.resolve("--ready").returncode, 0)
        self.assertExit(self.oncerun("-g", "at-least-once"), HELD)
        self.assertExit(self.resolve("--ready", "--force"), 0)
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 2)

    def test_another_boot_of_this_machine_proves_the_owner_dead(self):
        self.crash(self.elsewhere(boot="01234567-89ab-cdef-0123-456789abcdef"))
        self.assertExit(self.oncerun(), HELD)
        self.assertExit(self.oncerun(check=ABSENT), DONE)
        self.assertEqual(self.runs(), 2)


class ReadOnly(Case):
    """L08: found out before the start, said in one line with path and errno."""

    def setUp(self):
        super().setUp()
        self.private_mounts()
        for name in ("l", "s", "k"):
            os.mkdir(self.path(name))
        self.led = self.path("l/led.db")
        self.st = self.path("s/st.json")
        self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)

    def read_only(self, folder):
        self.mount("--bind", folder, folder)
        self.mount("-o", "remount,bind,ro", folder)

    def refused(self, folder, *args, **kw):
        for _ in range(5):
            result = self.oncerun(*args, **kw)
            self.assertExit(result, UNWRITABLE)
            lines = [line for line in result.stderr.splitlines() if "hint:" not in line]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertIn(folder, lines[0])
            self.assertIn("read-only file system", lines[0].lower())
        self.assertEqual(self.runs(), 0)

    def test_L08_the_ledgers_folder(self):
        self.read_only(self.path("l"))
        before = self.snapshot(folder=self.path("l"))
        self.refused(self.path("l"))
        self.assertEqual(self.snapshot(folder=self.path("l")), before)

    def test_L08_the_folder_of_a_new_ledger(self):
        os.mkdir(self.path("n"))
        self.read_only(self.path("n"))
        self.refused(self.path("n"), ledger=self.path("n/led.db"), state=None)

    def test_L08_the_lock_folder_beside_the_ledger(self):
        self.read_only(self.led + "-locks")
        self.refused(self.led + "-locks", job="a job without a lock file", state=None)

    def test_L08_the_folder_of_a_lock_file(self):
        self.read_only(self.path("k"))
        self.refused(self.path("k"), "--lock", "flock:" + self.path("k/lock"))

    def test_L08_the_state_files_folder(self):
        self.read_only(self.path("s"))
        before = self.snapshot(folder=self.path("s"))
        self.refused(self.path("s"))
        self.assertEqual(self.snapshot(folder=self.path("s")), before)
        row = self.row()
        self.assertTrue(row is None or row["status"] == "failed", row)

    def test_L08_the_state_files_folder_without_a_ledger(self):
        self.read_only(self.path("s"))
        self.refused(self.path("s"), ledger="none")

    def test_L08_a_read_only_root_with_one_folder_to_write_in(self):
        script = """
            mount --bind "$D" "$D" || exit 111
            while read -r _ _ _ _ point _; do
                case $point in "$D"*|/proc*|/sys*|/dev*) ;;
                *) mount -o remount,bind,ro "$point" || exit 112 ;;
                esac
            done </proc/self/mountinfo
            ! (: >/tmp/oncerun-test-probe) 2>/dev/null || exit 113
            exec "$@"
        """
        before = {folder: set(os.listdir(folder)) for folder in ("/run", "/dev/shm")}
        result = self.oncerun(prefix=["unshare", "--mount", "sh", "-c", script, "sh"],
                              env={"HOME": "/root"})
        self.assertExit(result, DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")
        self.assertEqual(self.state()["lastPublishedDate"], DATE)
        for folder, names in before.items():
            # Other suites run beside this one, and may have their folders there.
            new = [name for name in os.listdir(folder)
                   if name not in names and "oncerun" in name and not name.startswith("oncerun-test-")]
            self.assertEqual(new, [], folder)


if __name__ == "__main__":
    main()
