"""The state file beside a ledger: its three fields, broken ones, and how it is written."""

import json
import os
import re
import stat

from oncerun_test import (CONFIG, DATE, DONE, EARLIER, HELD, LATER, NEXT, PRESENT, UNWRITABLE,
                          USAGE, Case, main)

# S06: what cannot be read as a state file. A date in 2999 cannot be known to be done.
BROKEN = {
    "empty": b"",
    "cut off": b'{"lastPubl',
    "NUL bytes": b"\0" * 200,
    "a list": b"[]",
    "a number for a date": b'{"lastPublishedDate": 20241025}',
    "a number for the status": b'{"lastPublishedDate": "2024-10-25", "status": 1}',
    "a list for the pending date": b'{"status": "pending", "pendingDate": ["2024-10-25"]}',
    "status zzz": b'{"lastPublishedDate": "2024-10-25", "status": "zzz"}',
    "a date to come": b'{"lastPublishedDate": "2999-01-01", "status": "done"}',
    "no date": b'{"lastPublishedDate": "2024-02-30", "status": "done"}',
    "two documents": b'{"lastPublishedDate": "2024-10-25"}{}',
    "not UTF-8": b'{"lastPublishedDate": "2024-10-25", "x": "\xff"}',
}

# What can be read; each says that EARLIER is done.
FINE = {
    "three fields": b'{"lastPublishedDate": "2024-10-25", "status": "done", "pendingDate": null}',
    "one field": b'{"lastPublishedDate": "2024-10-25"}',
    "BOM": b'\xef\xbb\xbf{"lastPublishedDate": "2024-10-25", "status": "done"}',
    "CRLF": b'{\r\n  "lastPublishedDate": "2024-10-25",\r\n  "status": "done"\r\n}\r\n',
    "unknown keys": b'{"zeta": [1, {"a": null}], "lastPublishedDate": "2024-10-25", "alpha": "x"}',
}


class Projection(Case):
    """What the three fields say, in each state of the ledger."""

    def fields(self):
        state = self.state() or {}
        return (state.get("lastPublishedDate"), state.get("status"), state.get("pendingDate"))

    def test_done(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.fields(), (DATE, "done", None))

    def test_pending_while_it_runs(self):
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        self.assertEqual(self.fields(), (EARLIER, "pending", DATE))
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.fields(), (DATE, "done", None))

    def test_failed_and_unknown(self):
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        self.assertExit(self.oncerun(command="exit 3"), 3)
        self.assertEqual(self.fields(), (EARLIER, "failed", DATE))
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        self.assertEqual(self.fields(), (EARLIER, "unknown", DATE))

    def test_the_oldest_unsettled_date_stays_named(self):
        self.assertExit(self.oncerun(date=EARLIER, command="exit 3"), 3)
        self.assertExit(self.oncerun(date=DATE, command="kill -9 $$"), 137)
        self.assertExit(self.oncerun(date=NEXT), DONE)
        self.assertEqual(self.fields(), (NEXT, "failed", EARLIER))
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        self.assertEqual(self.fields(), (NEXT, "unknown", DATE))
        self.assertExit(self.oncerun(date=DATE, check=PRESENT), DONE)
        self.assertEqual(self.fields(), (NEXT, "done", None))

    def test_the_last_date_never_goes_back(self):
        self.assertExit(self.oncerun(date=LATER), DONE)
        self.assertExit(self.oncerun(date=DATE), DONE)
        self.assertEqual(self.fields()[0], LATER)

    def test_it_names_job_and_period(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual((self.state()["job"], self.state()["every"]), (self.job, "day"))

    def test_another_jobs_file_is_refused(self):
        self.assertExit(self.oncerun(job="another"), DONE)
        before = self.read(self.st)
        for ledger in (self.led, "none"):
            result = self.oncerun(ledger=ledger)
            self.assertExit(result, CONFIG)
            self.assertIn("another", result.stderr)
        self.assertEqual((self.runs(), self.read(self.st)), (1, before))

    def test_another_periods_file_is_refused(self):
        self.assertExit(self.oncerun("--every", "month", date="2024-09"), DONE)
        before = self.read(self.st)
        self.assertExit(self.oncerun(ledger=self.path("new.db")), CONFIG)
        self.assertEqual((self.runs(), self.read(self.st)), (1, before))

    def test_keys_have_no_state_file(self):
        self.assertExit(self.oncerun("--every", "key", date="order 1"), USAGE)
        self.assertEqual(self.runs(), 0)

    def test_a_projection_that_cannot_be_written_afterwards_costs_a_line(self):
        os.mkdir(self.path("s"))
        self.st = self.path("s/st.json")
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        result = self.oncerun(command='rm -r "$D/s"')
        self.assertExit(result, DONE)
        self.assertIn(self.st, result.stderr)
        self.assertStatus("done")
        os.mkdir(self.path("s"))
        self.assertExit(self.oncerun(date=NEXT), DONE)
        self.assertEqual(self.fields(), (NEXT, "done", None))

    def test_a_file_that_missed_a_result_is_brought_up_to_date_by_a_hold(self):
        """The result is in the ledger, and a power cut came before the file was written."""
        for command, code, guarantee, status in (("exit 3", 3, "at-most-once", "failed"),
                                                 ("kill -9 $$", 137, "cautious", "unknown")):
            with self.subTest(status=status):
                self.led, self.st = self.path(status + ".db"), self.path(status + ".json")
                self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)
                gate = self.gate(status)
                owner = self.start(command=f"{gate.shell}; {command}")
                gate.wait_started()
                old = self.read(self.st)
                self.assertEqual(self.fields(), (EARLIER, "pending", DATE))
                gate.go()
                self.assertExit(owner.end(), code)
                self.assertEqual(self.fields(), (EARLIER, status, DATE))
                self.write(self.st, old)
                self.assertExit(self.oncerun("-g", guarantee), HELD)
                self.assertEqual(self.fields(), (EARLIER, status, DATE))
                self.assertEqual(self.runs(), 0)


class Readings(Case):
    """S06, each content in turn."""

    def each(self, contents, test):
        """Calls `test` with each content, in a fresh ledger."""
        for number, (name, content) in enumerate(contents.items()):
            with self.subTest(content=name):
                self.led, self.st = self.path(f"{number}.db"), self.path(f"{number}.json")
                self.write(self.path("runs"), "")
                test(content)

    def test_S06_no_file_is_a_first_run(self):
        self.assertExit(self.oncerun(ledger="none"), DONE)
        self.assertExit(self.oncerun(date=NEXT, state=self.path("other.json")), DONE)
        self.assertEqual(self.runs(), 2)

    def test_S06_broken_without_a_ledger(self):
        def test(content):
            self.write(self.st, content)
            before = self.snapshot(os.path.basename(self.st))
            for args in ((), ("-g", "at-least-once"), ("--rerun",)):
                result = self.oncerun(*args, ledger="none")
                self.assertExit(result, HELD)
                self.assertIn(self.st, result.stderr)
                self.assertIn("hint:", result.stderr)
            self.assertEqual(self.runs(), 0)
            self.assertEqual(self.snapshot(os.path.basename(self.st)), before)

        self.each(BROKEN, test)

    def test_S06_broken_and_a_ledger_that_does_not_know_the_job(self):
        def test(content):
            self.write(self.st, content)
            before = self.snapshot(os.path.basename(self.st))
            result = self.oncerun("-g", "at-least-once")
            self.assertExit(result, HELD)
            self.assertIn(self.st, result.stderr)
            self.assertEqual(self.runs(), 0)
            self.assertEqual(self.snapshot(os.path.basename(self.st)), before)

        self.each(BROKEN, test)

    def test_S06_broken_and_a_ledger_that_knows_the_job(self):
        def test(content):
            self.assertExit(self.oncerun(), DONE)
            self.write(self.st, content)
            names = set(os.listdir(self.dir))
            skip = self.oncerun()
            self.assertExit(skip, DONE)
            self.assertEqual(self.runs(), 1, "what the ledger knows as done never runs again")
            result = self.oncerun(date=NEXT)
            self.assertExit(result, DONE)
            self.assertEqual(self.runs(), 2)
            said = skip.stderr + result.stderr
            self.assertIn(self.st, said)
            kept = [name for name in os.listdir(self.dir)
                    if name not in names and self.read(self.path(name)) == content]
            self.assertEqual(len(kept), 1, "the broken file is kept aside, once")
            self.assertIn(kept[0], said)
            self.assertEqual(self.state()["lastPublishedDate"], NEXT)

        self.each(BROKEN, test)

    def fine(self, with_ledger):
        def test(content):
            ledger = self.led if with_ledger else "none"
            self.write(self.st, content)
            self.assertExit(self.oncerun(date=EARLIER, ledger=ledger), DONE)
            self.assertEqual(self.runs(), 0, "the file says that it is done")
            self.assertExit(self.oncerun(date=DATE, ledger=ledger), DONE)
            self.assertEqual(self.runs(), 1)
            self.assertEqual(self.state()["lastPublishedDate"], DATE)
            if b"zeta" in content:
                self.assertEqual(self.state()["zeta"], [1, {"a": None}])
                self.assertEqual(self.state()["alpha"], "x")

        self.each(FINE, test)

    def test_S06_fine_with_a_ledger(self):
        self.fine(True)

    def test_S06_fine_without_a_ledger(self):
        self.fine(False)

    def test_S06_a_file_that_is_a_folder(self):
        os.mkdir(self.st)
        for ledger in (self.led, "none"):
            result = self.oncerun(ledger=ledger)
            self.assertIn(result.returncode, (HELD, CONFIG, UNWRITABLE), result.stderr)
            self.assertIn(self.st, result.stderr)
        self.assertEqual((self.runs(), os.listdir(self.st)), (0, []))


class Writing(Case):
    """S08: how the file is replaced."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("s"))
        self.st = self.path("s/st.json")

    def test_S08_the_order_of_system_calls(self):
        self.need("strace")
        os.mkdir(self.path("tmp"))
        trace = self.path("trace")
        calls = "openat,open,fsync,fdatasync,rename,renameat,renameat2,linkat,execve"
        for ledger in (self.led, "none"):
            with self.subTest(ledger=ledger):
                self.st = self.path("s/st.json" if ledger != "none" else "s/alone.json")
                result = self.oncerun(prefix=["strace", "-f", "-y", "-s", "300", "-o", trace, "-e",
                                              f"trace={calls}"],
                                      env={"TMPDIR": self.path("tmp")}, ledger=ledger)
                self.assertExit(result, DONE)
                self.order(self.lines("trace"))
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assertEqual([name for name in os.listdir(self.path("s")) if "json" not in name], [])

    def order(self, lines):
        # The command's execve is told in two pieces when oncerun's vfork returns in between.
        done = [line for line in lines if re.search(r"\) += \d", line)
                or f'execve("{self.hit}"' in line]
        folder, target = re.escape(self.path("s")), re.escape(self.st)

        def find(pattern, start, what):
            for index in range(start, len(done)):
                if re.search(pattern, done[index]):
                    return index
            self.fail(f"{what} not found after line {start} of\n" + "\n".join(done))

        command = find(f'execve\\("{re.escape(self.hit)}"', 0, "the command's start")
        first = find(f'rename[a-z0-9]*\\(.*"(?:{target}|st.json|alone.json)"', 0, "a rename")
        self.assertLess(first, command, "the mark is written before the command starts")
        # A temporary file in the same folder, synced before it takes the name, and then the folder.
        # A sync right before the rename, of a file there, with or without a name.
        self.assertTrue(any(re.search(f"f(data)?sync\\(\\d+<{folder}/", line)
                            for line in done[:first]), "\n".join(done))
        synced = find(f"fsync\\(\\d+<{folder}>", first, "the folder's fsync")
        self.assertLess(synced, command, "the folder is synced before the command starts")
        second = find(f'rename[a-z0-9]*\\(.*"(?:{target}|st.json|alone.json)"', command,
                      "a rename of the result")
        self.assertTrue(any(re.search(f"f(data)?sync\\(\\d+<{folder}/", line)
                            for line in done[command:second]), "\n".join(done[command:]))
        find(f"fsync\\(\\d+<{folder}>", second, "the folder's fsync after the result")

    def with_umask(self, mask, *args, **kw):
        return self.oncerun(*args, prefix=["sh", "-c", f'umask {mask}; exec "$@"', "sh"], **kw)

    def test_S08_umask(self):
        for mask in ("000", "077"):
            for ledger in ("none", self.led):
                with self.subTest(umask=mask, ledger=ledger):
                    self.st = self.path(f"s/{mask}-{os.path.basename(ledger)}.json")
                    self.job = f"job {mask} {ledger}"
                    self.assertExit(self.with_umask(mask, ledger=ledger), DONE)
                    mode = stat.S_IMODE(os.stat(self.st).st_mode)
                    self.assertEqual(mode & 0o022, 0, oct(mode))
                    self.assertEqual(mode & 0o600, 0o600, oct(mode))

    def test_S08_an_existing_file_keeps_mode_owner_and_link(self):
        self.need_root()
        for ledger in ("none", self.led):
            for mask in ("000", "077"):
                with self.subTest(ledger=ledger, umask=mask):
                    self.job = f"job {mask} {ledger}"
                    real = self.path(f"s/real{mask}{os.path.basename(ledger)}.json")
                    self.st = self.path(f"link{mask}{os.path.basename(ledger)}.json")
                    self.write(real, b'{"lastPublishedDate": "2024-10-25"}')
                    os.chmod(real, 0o640)
                    os.chown(real, 65534, 65533)
                    os.symlink(os.path.relpath(real, self.dir), self.st)
                    with open(real, "rb") as old:  # held, so that its inode is not used again
                        self.assertExit(self.with_umask(mask, ledger=ledger), DONE)
                        inode = os.fstat(old.fileno()).st_ino
                        info = os.lstat(real)
                    self.assertEqual((stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid),
                                     (0o640, 65534, 65533))
                    self.assertNotEqual(info.st_ino, inode, "replaced, not overwritten")
                    self.assertTrue(os.path.islink(self.st))
                    self.assertEqual(self.state(real)["lastPublishedDate"], DATE)

    def test_what_a_killed_writer_left_is_gone_after_the_next_start(self):
        """Whatever the row says: who was killed as it wrote a result left a run that is done."""
        for ledger in (self.led, "none"):
            with self.subTest(ledger=ledger):
                self.assertExit(self.oncerun(ledger=ledger, date=EARLIER), DONE)
                left = self.path("s/.st.json.oncerun-abc123")
                self.write(left, "{}")
                self.assertExit(self.oncerun(ledger=ledger, date=DATE), DONE)
                self.assertFalse(os.path.exists(left))
                os.unlink(self.st)

    def test_a_reader_never_sees_half_a_file(self):
        gate = self.gate()
        owner = self.start("--retries", "0", command=gate.shell)
        gate.wait_started()
        with open(self.st, "rb") as old:
            gate.go()
            self.assertExit(owner.end(), DONE)
            self.assertEqual(json.load(old)["status"], "pending", "the old file stays what it was")
        self.assertEqual(self.state()["status"], "done")


class SingleFile(Case):
    """S07: a single file bind-mounted into a container cannot be replaced."""

    def test_S07_found_out_before_the_start(self):
        self.private_mounts()
        os.mkdir(self.path("s"))
        self.st = self.path("s/st.json")
        for ledger in (self.led, "none"):
            with self.subTest(ledger=ledger):
                self.write(self.st, b'{"lastPublishedDate": "2024-10-25"}')
                self.write(self.path("outside.json"), b'{"lastPublishedDate": "2024-10-25"}')
                self.mount("--bind", self.path("outside.json"), self.st)
                before = self.snapshot("st.json", folder=self.path("s"))
                result = self.oncerun(ledger=ledger)
                self.assertIn(result.returncode, (UNWRITABLE, CONFIG), result.stderr)
                hint = [line for line in result.stderr.splitlines() if "hint:" in line]
                self.assertTrue(hint, result.stderr)
                self.assertRegex(hint[0], "mount .*(folder|directory)")
                self.assertEqual(self.runs(), 0)
                self.assertEqual(self.snapshot("st.json", folder=self.path("s")), before)
                left = [name for name in os.listdir(self.path("s"))
                        if name not in ("st.json", "st.json.lock")]
                self.assertEqual(left, [])
                self.assertIsNone(self.row())


if __name__ == "__main__":
    main()
