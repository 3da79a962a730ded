"""Bad input: one clear lowercase line, a hint, its exit code; nothing starts and nothing is written."""

import json
import os
import subprocess

from oncerun_test import (AS_NOBODY, BINARY, CONFIG, DONE, HELD, UNAVAILABLE, UNWRITABLE,
                          USAGE, Case, main)


class BadInputCase(Case):
    def tree(self, folder=None):
        """Every file below the folder with its content, mode and times."""
        found = {}
        for path, folders, files in os.walk(folder or self.dir):
            for name in folders + files:
                full = os.path.join(path, name)
                info = os.lstat(full)
                content = self.read(full) if os.path.isfile(full) else None
                found[full] = (info.st_mode, info.st_uid, info.st_mtime_ns, info.st_size, content)
        return found

    def assertClear(self, result, code, *words):
        """One lowercase line that says what, and one that says what to do."""
        self.assertExit(result, code)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 2, result.stderr)
        self.assertRegex(lines[0], r"^oncerun: [^A-Z]")
        self.assertRegex(lines[1], r"^(oncerun: )?hint: \S")
        for word in words:
            self.assertIn(word, lines[0] + "\n" + lines[1])

    def assertRefused(self, code, *args, words=(), **kw):
        before = self.tree()
        result = self.oncerun(*args, **kw)
        self.assertClear(result, code, *words)
        self.assertEqual(self.runs(), 0)
        self.assertEqual(self.tree(), before, "something was written")
        return result

    def assertRefusedAsGiven(self, *argv, words=()):
        before = self.tree()
        result = self.spawn([BINARY, *argv]).end()
        self.assertClear(result, USAGE, *words)
        self.assertEqual(self.tree(), before, "something was written")


class Words(BadInputCase):
    def test_a_missing_job_name(self):
        self.assertRefused(USAGE, job=None, words=["--job"])

    def test_a_bad_job_name(self):
        for name in ("", "x" * 201, "a\nb", "a\x1bb", "a\x7fb", "a\u0085b",
                     os.fsdecode(b"\xff"), os.fsdecode(b"\xc0\xaf"), os.fsdecode(b"\xed\xa0\x80")):
            with self.subTest(repr(name)):
                result = self.assertRefused(USAGE, job=name, words=["job"])
                self.assertNotRegex(result.stderr, "[\x00-\x09\x0b-\x1f\x7f]", "printed raw")

    def test_a_bad_date(self):
        for label in ("2023-02-29", "2024-13-01", "2024-5-1", "", "2024-05-01x", "2999-01-01"):
            with self.subTest(label):
                self.assertRefused(USAGE, date=label, words=[label])

    def test_a_missing_date_of_a_key(self):
        self.assertRefused(USAGE, "--every", "key", date=None, state=None, words=["--date"])

    def test_a_bad_period(self):
        for period in ("", "7m", "0m", "0h", "5h", "25h", "fortnight", "-5m", "5", "1.5h", "5s",
                       "DAY", "day ", "99999999999999999999m"):
            with self.subTest(period):
                self.assertRefused(USAGE, "--every", period, words=["--every"])

    def test_a_bad_zone(self):
        for zone in ("", "Mars/Olympus", "../../../etc/passwd", "/etc/localtime", "UTC+25x",
                     "Europe", "Europe/Berlin/"):
            with self.subTest(zone):
                self.assertRefused(USAGE, "--tz", zone, words=["zone"])

    def test_a_bad_duration(self):
        for option in ("--wait", "--timeout", "--kill-after", "--check-timeout", "--check-settle",
                       "--retry-delay", "--record-timeout"):
            with self.subTest(option):
                self.assertRefused(USAGE, option, "5x", check="exit 0", settle=None,
                                   words=[option, "5x"])
        for duration in ("", "-1", "x", "1m1h", "1h1h", "inf", "1.5.2s", "5 s", "s",
                         "99999999999999999999d", "0x10", "1e3", "nan", "+5"):
            with self.subTest(duration):
                self.assertRefused(USAGE, f"--wait={duration}", words=["--wait"])

    def test_a_bad_number(self):
        for option, value in (("--retries", "-1"), ("--retries", "x"), ("--retries", ""),
                              ("--retries", "1.5"), ("--retries", "99999999999999999999"),
                              ("--check-absent", "256"), ("--check-absent", "-1"),
                              ("--check-present", "x"), ("--unknown-exit", "0"),
                              ("--unknown-exit", "80,"), ("--unknown-exit", "256"),
                              ("--unknown-exit", "x")):
            with self.subTest(option=option, value=value):
                self.assertRefused(USAGE, f"{option}={value}", check="exit 0", words=[option])

    def test_a_bad_choice(self):
        for option, value, words in (("--guarantee", "maybe", "guarantee"),
                                     ("--guarantee", "", "guarantee"),
                                     ("--log-format", "xml", "--log-format"),
                                     ("--lock-scope", "world", "--lock-scope")):
            with self.subTest(option=option, value=value):
                self.assertRefused(USAGE, f"{option}={value}", words=[words])

    def test_no_separator(self):
        self.assertRefusedAsGiven("--job", "settle", "--ledger", self.led, words=["--"])
        self.assertRefusedAsGiven("--job", "settle", "--ledger", self.led, self.hit)
        self.assertRefusedAsGiven()

    def test_nothing_after_the_separator(self):
        self.assertRefusedAsGiven("--job", "settle", "--ledger", self.led, "--", words=["command"])
        self.assertRefusedAsGiven("--", words=[])

    def test_an_empty_command_name(self):
        result = self.oncerun(command=[""])
        self.assertIn(result.returncode, (USAGE, 127), result.stderr)
        self.assertNotEqual((self.row() or {}).get("status"), "done")

    def test_a_word_before_the_separator(self):
        self.assertRefusedAsGiven("--job", "settle", "--ledger", self.led, "stray", "--", self.hit,
                                  words=["stray"])

    def test_an_option_without_its_value(self):
        self.assertRefusedAsGiven("--ledger", self.led, "--job", "--", self.hit, words=["--job"])

    def test_a_lock_that_is_none(self):
        for spec in ("", "flok", "flock:", "ledger", "ftp://host/"):
            with self.subTest(spec):
                self.assertRefused(USAGE, f"--lock={spec}", words=["lock"])

    def test_a_ledger_that_is_none(self):
        for spec in ("", "sqlite:"):
            with self.subTest(spec):
                self.assertRefused(USAGE, ledger=spec, words=["ledger"])

    def test_two_options_that_contradict_each_other(self):
        for options, kw in ((["--check-first"], {}), (["--check-after"], {}),
                            (["-v", "-q"], {}),
                            (["--guarantee", "at-most-once", "--retries", "2"], {}),
                            (["--every", "key"], {}),  # with --state
                            (["--check-absent", "3", "--check-present", "3"],
                             {"check": "exit 3"}),
                            (["--lock", "ledger"], {"ledger": "none"})):
            with self.subTest(options):
                self.assertRefused(USAGE, *options, **kw)

    def test_an_option_that_nothing_would_come_of(self):
        lock = "flock:" + self.path("lock")
        for options, kw, word in (
                (["--retry-delay", "5s"], {}, "--retries"),
                (["--json"], {}, "--explain"),
                (["--timeout", "0"], {}, "--timeout is 0"),
                (["--check-timeout", "0"], {"check": "exit 0"}, "--check-timeout is 0"),
                (["--check", ""], {}, "check"),
                (["--every", "key", "--tz", "UTC"], {"state": None}, "--tz"),
                (["--spool", self.path("spools")], {"ledger": "none"}, "--spool"),
                ([], {"ledger": "none", "state": None}, "flock:PATH"),
                (["--lock", "none"], {"ledger": "none", "state": None}, "nothing is protected"),
                (["--lock", lock, "--rerun"], {"ledger": "none", "state": None}, "--rerun"),
                (["--lock", lock, "--replace"], {"ledger": "none", "state": None}, "--replace"),
                (["--lock", lock, "--guarantee", "cautious"], {"ledger": "none", "state": None}, "--guarantee"),
                (["--lock", lock, "--check", "exit 0"], {"ledger": "none", "state": None}, "--check"),
                (["--spool", ""], {}, "--spool"),
                ([], {"state": ""}, "--state")):
            with self.subTest(options=options, **kw):
                self.assertRefused(USAGE, *options, words=[word], settle=None, **kw)

    def test_one_file_for_two_purposes(self):
        self.assertExit(self.oncerun("--lock", "flock:" + self.path("lock")), DONE)
        os.unlink(self.path("runs"))
        for options, kw in ((["--report", self.led], {}), ([], {"state": self.led}),
                            (["--report", self.st], {}), ([], {"state": self.led + "-wal"}),
                            (["--report", self.led + "-life"], {}),
                            (["--report", self.path("lock"), "--lock", "flock:" + self.path("lock")], {}),
                            (["--lock", f"flock:{self.st}"], {}), (["--lock", f"flock:{self.led}-guard"], {})):
            # Also where something else is wrong: that would be reported into the ledger.
            for more in ({}, {"date": "2024-13-01"}, {"job": ""}, {"command": [""]}):
                with self.subTest(options=options, **kw, **more):
                    self.assertRefused(USAGE, *options, words=["same file"], **kw, **more)
        for options, kw in ((["--report", self.st], {"ledger": "x://h"}),
                            (["--report", self.led, "--lock", "flok"], {})):
            with self.subTest(options=options, **kw):
                self.assertRefused(USAGE, *options, words=["same file"], **kw)

    def test_what_a_subcommand_cannot_take(self):
        on_ledger = ["--ledger", self.led]
        for argv, word in ((["status", *on_ledger, "--", "true"], "no command after --"),
                           (["history", *on_ledger, "--limit", "x"], "--limit"),
                           (["history", *on_ledger, "--limit", "-1"], "--limit"),
                           (["history", *on_ledger, "--limit=1x"], "--limit"),
                           (["history", *on_ledger, "--date", "2024-10-26"], "--job"),
                           (["status", "--ledger", "none"], "--state"),
                           (["resolve", *on_ledger, "--job", "settle", "--done"], "--date")):
            with self.subTest(argv):
                self.assertRefusedAsGiven(*argv, words=[word])

    def test_a_server_is_not_taken_for_a_file(self):
        for options, kw in ((["--lock", "redis://user:sesame@localhost/0"], {}),
                            ([], {"ledger": "postgresql://user:sesame@localhost/db"}),
                            ([], {"ledger": "mysql://user:sesame@localhost/db"})):
            with self.subTest(options=options, **kw):
                before = self.tree()
                result = self.oncerun(*options, state=None, **kw)
                self.assertIn(result.returncode, (USAGE, CONFIG, 69), result.stderr)
                self.assertNotIn("sesame", result.stderr)
                self.assertEqual(self.tree(), before)


class Stored(BadInputCase):
    def setUp(self):
        super().setUp()
        self.assertExit(self.oncerun(date="2024-10-20", state=None, command=["true"]), DONE)

    def assertRefused(self, code, *args, words=(), **kw):
        """A ledger that exists may be looked at, so its shared memory file may change."""
        rows = self.query("SELECT * FROM job_run ORDER BY job_name, biz_date")
        names = sorted(os.listdir(self.dir))
        result = self.oncerun(*args, **kw)
        self.assertClear(result, code, *words)
        self.assertEqual(self.runs(), 0)
        self.assertEqual(self.query("SELECT * FROM job_run ORDER BY job_name, biz_date"), rows)
        self.assertEqual(sorted(os.listdir(self.dir)), names)

    def test_another_period(self):
        self.assertRefused(CONFIG, "--every", "hour", date="2024-10-26T10:00Z", state=None,
                           words=["day", "hour", "job set"])

    def test_another_zone(self):
        self.assertRefused(CONFIG, "--tz", "Europe/Berlin", state=None,
                           words=["Europe/Berlin", "job set"])

    def test_another_period_once_it_was_set(self):
        self.assertExit(self.sub("job set", "--job", "settle", "--tz", "Europe/Berlin"), DONE)
        self.assertExit(self.oncerun("--tz", "Europe/Berlin", state=None), DONE)
        self.assertRefusedNow()

    def assertRefusedNow(self):
        result = self.oncerun("--tz", "UTC", date="2024-10-27", state=None)
        self.assertClear(result, CONFIG, "Europe/Berlin")
        self.assertEqual(self.runs(), 1)


class LedgerPaths(BadInputCase):
    def test_a_folder(self):
        os.mkdir(self.led)
        self.assertRefused(CONFIG, words=[self.led])

    def test_not_a_database(self):
        for text in ("hello\n" * 1000, "hello\n"):
            with self.subTest(len(text)):
                self.write(self.led, text)
                self.assertRefused(CONFIG, words=[self.led])

    def test_a_folder_below_a_file(self):
        self.write(self.path("file"), "")
        result = self.oncerun(ledger=self.path("file/led.db"), state=None)
        self.assertIn(result.returncode, (UNAVAILABLE, CONFIG, UNWRITABLE))
        self.assertClear(result, result.returncode, "file")

    def test_a_newer_schema(self):
        self.assertExit(self.oncerun(date="2024-10-20", state=None, command=["true"]), DONE)
        table, column = self.version_column()
        self.execute(f"UPDATE {table} SET {column} = {column} + 1")
        content = self.query("SELECT * FROM job_run")
        result = self.oncerun(state=None)
        self.assertClear(result, CONFIG, "newer")
        self.assertEqual(self.runs(), 0)
        self.assertEqual(self.query("SELECT * FROM job_run"), content)

    def version_column(self):
        for table in self.query("SELECT name FROM sqlite_master WHERE type = 'table'"):
            for column in self.query(f"SELECT name FROM pragma_table_info('{table['name']}')"):
                if "version" in column["name"]:
                    return table["name"], column["name"]
        return self.fail("the ledger names no schema version")

    def test_a_read_only_ledger(self):
        self.need_root()
        self.need("setpriv")
        folder = self.path("roots")
        os.mkdir(folder)
        ledger = os.path.join(folder, "led.db")
        self.assertExit(self.oncerun(date="2024-10-20", ledger=ledger, state=None,
                                     command=["true"]), DONE)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            os.chmod(path, 0o755 if os.path.isdir(path) else 0o444)
        os.chmod(folder, 0o755)
        self.assertRefused(UNWRITABLE, ledger=ledger, state=None, prefix=AS_NOBODY,
                           words=[folder, "root"])

    def test_a_folder_that_cannot_be_written(self):
        self.need_root()
        self.need("setpriv")
        folder = self.path("roots")
        os.mkdir(folder, 0o755)
        self.assertRefused(UNWRITABLE, ledger=os.path.join(folder, "led.db"), state=None,
                           prefix=AS_NOBODY, words=[folder])

    def test_a_full_disk(self):
        self.need_root()
        folder = self.path("small")
        os.mkdir(folder)
        # The mounts are this process's own, so the disk is filled from within it as well.
        self.private_mounts()
        self.mount("-t", "tmpfs", "-o", "size=2m", "none", folder)
        with open(os.path.join(folder, "ballast"), "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096) == 4096:
                    pass
            except OSError:
                pass
        result = self.oncerun(ledger=os.path.join(folder, "led.db"), state=None)
        self.assertClear(result, UNWRITABLE, folder)
        self.assertEqual(self.runs(), 0)

    def test_a_network_file_system(self):
        self.need("strace")
        # strace writes NFS_SUPER_MAGIC (statfs(2)) into what the kernel answers.
        nfs = "poke_exit=@arg2=6969000000000000"
        probe = subprocess.run(["strace", "-o", "/dev/null", "-e", f"inject=statfs,fstatfs:{nfs}",
                                "stat", "-f", "-c", "%t", self.dir], capture_output=True, text=True,
                               check=False)
        if probe.stdout.strip() != "6969":
            self.skip(f"this strace cannot poke: {probe.stderr.strip()}")
        result = self.oncerun(state=None, prefix=["strace", "-f", "-o", "/dev/null", "-e",
                                                  f"inject=statfs,fstatfs:{nfs}"])
        self.assertClear(result, CONFIG, "network file system", "PostgreSQL")
        self.assertEqual(self.runs(), 0)
        self.assertEqual(os.listdir(self.dir), ["hit"])


class StateFiles(BadInputCase):
    def test_one_that_cannot_be_read_as_such(self):
        for text in ("", '{"lastPubl', "\0" * 200, "[]", '{"status": "zzz"}',
                     '{"lastPublishedDate": 20241026}', '{"lastPublishedDate": "2999-01-01"}'):
            with self.subTest(text):
                self.write(self.st, text)
                result = self.oncerun(ledger="none")
                self.assertClear(result, HELD, self.st)
                self.assertEqual(self.runs(), 0)
                self.assertEqual(self.read(self.st), text.encode())

    def test_one_of_another_job(self):
        for ledger in ("none", self.led):
            with self.subTest(ledger):
                document = json.dumps({"lastPublishedDate": "2024-10-20", "status": "done",
                                       "job": "other", "every": "day"})
                self.write(self.st, document)
                result = self.oncerun(ledger=ledger)
                self.assertClear(result, CONFIG, self.st, "other")
                self.assertEqual(self.runs(), 0)
                self.assertEqual(self.read(self.st), document.encode())

    def test_one_of_another_period(self):
        self.write(self.st, json.dumps({"lastPublishedDate": "2024-10-20", "status": "done",
                                        "job": "settle", "every": "day"}))
        for ledger in ("none", self.led):
            with self.subTest(ledger):
                result = self.oncerun("--every", "month", date="2024-09", ledger=ledger)
                self.assertClear(result, CONFIG, self.st)
                self.assertEqual(self.runs(), 0)

    def test_a_folder(self):
        os.mkdir(self.st)
        result = self.oncerun()
        self.assertIn(result.returncode, (CONFIG, HELD, UNWRITABLE))
        self.assertClear(result, result.returncode, self.st)
        self.assertEqual(self.runs(), 0)

    def test_one_in_a_folder_that_does_not_exist_is_found_out_before_the_start(self):
        result = self.oncerun(state=self.path("no/such/st.json"))
        if result.returncode == DONE:  # made, then: privately
            self.assertEqual(os.stat(self.path("no")).st_mode & 0o777, 0o700)
        else:
            self.assertClear(result, UNWRITABLE, "no/such")
            self.assertEqual(self.runs(), 0)


class OtherUsersFiles(BadInputCase):
    def test_folders_are_made_0700_and_files_0600(self):
        ledger = self.path("var/lib/oncerun/led.db")
        self.assertExit(self.oncerun(ledger=ledger, state=None, umask=0), DONE)
        for path, folders, files in os.walk(self.path("var")):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700, path)
            for name in files:
                full = os.path.join(path, name)
                self.assertEqual(os.stat(full).st_mode & 0o777, 0o600, full)
        self.assertExit(self.oncerun(ledger=self.path("new.db"), umask=0), DONE)
        for name in os.listdir(self.dir):
            if name.startswith(("new.db", "st.json")) and os.path.isfile(self.path(name)):
                self.assertEqual(os.stat(self.path(name)).st_mode & 0o777, 0o600, name)

    def planted(self, name):
        """A sticky folder as /tmp is one, with nobody's link in it; link and target."""
        self.need_root()
        self.need("setpriv")
        shared, target = self.path("shared"), self.path("target")
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        link = os.path.join(shared, name)
        os.symlink(target, link)
        os.lchown(link, 65534, 65534)
        return link, target

    def test_a_planted_link_in_the_ledgers_place_is_refused(self):
        link, target = self.planted("led.db")
        result = self.oncerun(ledger=link, state=None)
        self.assertIn(result.returncode, (CONFIG, UNWRITABLE))
        self.assertClear(result, result.returncode, link, "link")
        self.assertFalse(os.path.exists(target))
        self.assertEqual(self.runs(), 0)

    def test_a_planted_link_in_the_locks_place_is_refused(self):
        link, target = self.planted("job.lock")
        result = self.oncerun("--lock", f"flock:{link}", state=None)
        self.assertIn(result.returncode, (CONFIG, UNWRITABLE))
        self.assertClear(result, result.returncode, link)
        self.assertFalse(os.path.exists(target))
        self.assertEqual(self.runs(), 0)

    def test_ones_own_link_to_the_ledger_is_followed(self):
        self.assertExit(self.oncerun(ledger=self.path("real.db"), state=None), DONE)
        os.symlink(self.path("real.db"), self.path("link.db"))
        self.assertExit(self.oncerun(ledger=self.path("link.db"), state=None), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.row(ledger=self.path("real.db"))["attempts"], 1)


if __name__ == "__main__":
    main()
