"""A power cut as a test input: the file system's image is copied while it is mounted.

What a process wrote and nobody synced is in memory only, and not in the copy. The copy is mounted
(its journal is replayed) in place of the original, under another boot id, as after a reboot.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import uuid

from oncerun_test import (DATE, DONE, EARLIER, HELD, JOB, UNRECORDED, UNWRITABLE, Case, main)

SIZE = 24 * 1024 * 1024
BLOCKS = ("1024", "4096")
LEDGER, STATE, BOTH = "ledger", "state file", "both"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
HONEST = 'grep -q e "$D/effects" && exit 0; exit 10'


class PowerCase(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.need("mkfs.ext4", "losetup")
        self.private_mounts()
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        self.number = 0

    def make_disk(self, block):
        """An empty file system with a journal, mounted."""
        self.number += 1
        self.image = self.path(f"image-{self.number}")
        with open(self.image, "wb") as file:
            file.truncate(SIZE)
        subprocess.run(["mkfs.ext4", "-q", "-b", block, "-m", "0", "-J", "size=4", self.image],
                       check=True)
        self.mount("-o", "loop", self.image, self.disk)

    def use(self, store):
        """Points the test's ledger and state file to the disk; None is left out."""
        self.led = os.path.join(self.disk, "led.db") if store != STATE else "none"
        self.st = os.path.join(self.disk, "st.json") if store != LEDGER else None

    def unmount(self):
        subprocess.run(["umount", self.disk], check=True)

    def cut(self):
        """The power goes: returns an image of what was on the disk at this moment."""
        self.number += 1
        copy = self.path(f"image-{self.number}")
        shutil.copyfile(self.image, copy)
        return copy

    def come_back(self, copy):
        """The machine boots again with what was on its disk."""
        self.unmount()
        self.image = copy
        self.mount("-o", "loop", copy, self.disk)
        self.boot = self.path(f"boot-{self.number}")
        self.write(self.boot, str(uuid.uuid4()) + "\n")
        self.mount("--bind", self.boot, BOOT_ID)
        self.addCleanup(subprocess.run, ["umount", "-l", BOOT_ID], check=False,
                        capture_output=True)

    def marks(self):
        """The status that ledger and state file have of the date; each None if it has none."""
        found = {}
        if self.led != "none":
            found[LEDGER] = None
            if os.path.exists(self.led):
                with sqlite3.connect(self.led) as connection:
                    rows = connection.execute(
                        "SELECT status FROM job_run WHERE job_name = ? AND biz_date = ?",
                        (JOB, DATE)).fetchall()
                    found[LEDGER] = rows[0][0] if rows else None
                    self.assertEqual(connection.execute("PRAGMA integrity_check").fetchone(),
                                     ("ok",))
                connection.close()
        if self.st is not None:
            text = self.read(self.st)
            document = json.loads(text) if text is not None else {}
            if document.get("lastPublishedDate") == DATE:
                found[STATE] = "done"
            else:
                pending = document.get("pendingDate") == DATE
                found[STATE] = document.get("status") if pending else None
        return found

    def disks(self):
        return [(block, store) for block in BLOCKS for store in (LEDGER, STATE, BOTH)]

    @contextlib.contextmanager
    def on(self, block, store):
        """A fresh disk with these blocks, and the test's files on it."""
        with self.subTest(block=block, store=store):
            self.make_disk(block)
            self.use(store)
            self.write(self.path("effects"), "")
            try:
                yield
            finally:
                subprocess.run(["umount", "-l", self.disk], check=True)
                subprocess.run(["umount", "-l", BOOT_ID], check=False, capture_output=True)


class PowerCut(PowerCase):
    def expect_marks(self, status):
        marks = self.marks()
        self.assertEqual(marks, dict.fromkeys(marks, status))

    def test_pending_is_there_while_the_command_runs_and_done_after_its_end(self):
        for disk in self.disks():
            with self.on(*disk):
                gate = self.gate("-".join(disk))
                owner = self.start(command=gate.shell)
                gate.wait_started()
                running = self.cut()
                gate.go()
                self.assertExit(owner.end(), DONE)
                ended = self.cut()
                self.come_back(running)
                self.expect_marks("pending")
                self.come_back(ended)
                self.expect_marks("done")

    def test_the_next_start_after_a_cut_in_mid_run_decides_by_the_guarantee(self):
        self.need_machine_id()
        for disk in self.disks():
            with self.on(*disk):
                gate = self.gate("-".join(disk))
                owner = self.start(command=gate.shell)
                gate.wait_started()
                running = self.cut()
                gate.go()
                self.assertExit(owner.end(), DONE)
                for guarantee, code in (("cautious", HELD), ("at-most-once", HELD),
                                        ("at-least-once", DONE)):
                    self.come_back(running)
                    result = self.oncerun("-g", guarantee, command='echo e >>"$D/effects"')
                    self.assertExit(result, code)
                    self.assertEqual(len(self.lines("effects")), 1 if code == DONE else 0)
                self.come_back(self.cut())
                self.expect_marks("done")

    def test_an_honest_check_settles_a_cut(self):
        self.need_machine_id()
        for disk in self.disks():
            with self.on(*disk):
                gate = self.gate("-".join(disk))
                owner = self.start(command=f'echo e >>"$D/effects"; {gate.shell}')
                gate.wait_started()
                running = self.cut()
                gate.go()
                self.assertExit(owner.end(), DONE)
                self.come_back(running)
                self.assertExit(self.oncerun(check=HONEST, command='echo e >>"$D/effects"'), DONE)
                self.assertEqual(self.lines("effects"), ["e"])
                self.expect_marks("done")

    def test_without_syncs_the_marks_would_be_missing(self):
        # The harness must be able to fail: a run whose syncs do nothing leaves nothing.
        self.need("strace")
        for disk in self.disks():
            with self.on(*disk):
                self.assertExit(self.oncerun(date=EARLIER), DONE)
                subprocess.run(["sync", "-f", self.disk], check=True)
                result = self.oncerun(
                    prefix=["strace", "-o", os.devnull, "-e", "trace=fsync,fdatasync,sync_file_range",
                            "-e", "inject=fsync,fdatasync,sync_file_range:retval=0"])
                self.assertExit(result, DONE)
                self.come_back(self.cut())
                self.expect_marks(None)


class FullFileSystem(PowerCase):
    """On real blocks: a page of shared memory without one would end the process by SIGBUS."""

    def fill(self):
        for size in ("64k", "1k"):
            subprocess.run(f'cat /dev/zero | dd of="{self.disk}/fill-{size}" bs={size}', shell=True,
                           capture_output=True, check=False)
        self.assertEqual(os.statvfs(self.disk).f_bavail, 0)

    def free(self):
        for size in ("64k", "1k"):
            os.unlink(os.path.join(self.disk, f"fill-{size}"))

    def test_full_before_the_start(self):
        for disk in self.disks():
            with self.on(*disk):
                self.assertExit(self.oncerun(date=EARLIER), DONE)
                self.fill()
                result = self.oncerun("--record-timeout", "1s", command='echo e >>"$D/effects"')
                # The log may have room for the claim, which an earlier run kept: then it runs, and
                # what came of it is in the spool.
                self.assertIn(result.returncode, (UNWRITABLE, UNRECORDED), result.stderr)
                started = result.returncode == UNRECORDED
                self.assertEqual(self.lines("effects"), ["e"] if started else [])
                self.free()
                self.assertExit(self.oncerun(command='echo e >>"$D/effects"'), DONE)
                self.assertEqual(self.lines("effects"), ["e"])

    def test_full_before_the_first_start_ever(self):
        for disk in self.disks():
            with self.on(*disk):
                self.fill()
                self.assertExit(self.oncerun(command='echo e >>"$D/effects"'), UNWRITABLE)
                self.assertEqual(self.lines("effects"), [])
                self.free()
                self.assertExit(self.oncerun(command='echo e >>"$D/effects"'), DONE)
                self.assertEqual(self.lines("effects"), ["e"])

    def test_full_while_the_files_are_cold(self):
        # Nobody has the shared memory open, and it is gone: it has to be made anew.
        for disk in self.disks():
            with self.on(*disk):
                self.assertExit(self.oncerun(date=EARLIER), DONE)
                if self.led != "none":
                    os.unlink(self.led + "-shm")
                self.fill()
                self.assertExit(self.oncerun(command='echo e >>"$D/effects"'), UNWRITABLE)
                self.assertEqual(self.lines("effects"), [])
                self.free()
                self.assertExit(self.oncerun(command='echo e >>"$D/effects"'), DONE)

    def test_the_command_fills_it(self):
        self.env["DISK"] = self.disk
        for disk in self.disks():
            with self.on(*disk):
                self.assertExit(self.oncerun(date=EARLIER), DONE)
                result = self.oncerun(
                    "--record-timeout", "1s",
                    command='echo e >>"$D/effects"; cat /dev/zero >"$DISK/fill-64k" 2>/dev/null; '
                            ': >"$DISK/fill-1k"; exit 0')
                self.assertIn(result.returncode, (DONE, UNRECORDED), result.stderr)
                self.free()
                self.assertExit(self.oncerun(command='echo e >>"$D/effects"'), DONE)
                self.assertEqual(self.lines("effects"), ["e"])
                marks = self.marks()
                self.assertEqual(marks, dict.fromkeys(marks, "done"))


if __name__ == "__main__":
    main()
