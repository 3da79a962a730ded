"""What a start may cost: syncs, files touched, the WAL's length, memory while the command runs."""

import os
import re
import sqlite3
import subprocess
import tempfile

from oncerun_test import BINARY, DONE, Case, is_instrumented, main

SYNCS = "fsync,fdatasync,sync_file_range,msync,sync,syncfs"


class Cost(Case):
    def setUp(self):
        super().setUp()
        for name in ("ledger", "state"):
            os.mkdir(self.path(name))
        self.led = self.path("ledger/led.db")
        self.st = self.path("state/st.json")

    def everything(self):
        """Content, owner, mode, size and time of change of every file and folder of the test."""
        found = {}
        for folder, folders, files in os.walk(self.dir):
            for name in [*folders, *files, "."]:
                path = os.path.join(folder, name)
                info = os.lstat(path)
                found[path] = (info.st_ino, info.st_mode, info.st_uid, info.st_size,
                               info.st_mtime_ns, self.read(path) if os.path.isfile(path) else None)
        return found

    def assertUntouched(self, before, after):
        changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
        self.assertEqual(changed, [])

    def traced(self, *args, **kw):
        """One start under strace; the syncs that were made, each with its file."""
        self.need("strace")
        log = self.path("strace.log")
        self.write(log, "")
        before = self.everything()
        done = self.oncerun(*args, prefix=["strace", "-f", "-y", "-o", log, "-e", f"trace={SYNCS}"],
                            **kw)
        after = self.everything()
        syncs = [line for line in (self.read(log) or b"").decode().splitlines()
                 if re.search(rf"\b({SYNCS.replace(',', '|')})\(", line)]
        os.unlink(log)
        before.pop(log), after.pop(log)
        return done, syncs, before, after

    def test_the_skip_of_a_done_date_leaves_every_file_as_it_was_and_syncs_nothing(self):
        self.assertExit(self.oncerun(), DONE)
        for _ in range(3):
            done, syncs, before, after = self.traced()
            self.assertExit(done, DONE)
            self.assertEqual(syncs, [])
            self.assertUntouched(before, after)
        self.assertEqual(self.runs(), 1)

    def test_a_busy_skip_leaves_every_file_as_it_was_and_syncs_nothing(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        self.at_rest(self.everything)
        done, syncs, before, after = self.traced()
        gate.go()
        self.assertExit(done, 75)
        self.assertEqual(syncs, [])
        self.assertUntouched(before, after)
        self.assertExit(owner.end(), DONE)

    def test_a_run_makes_at_most_three_syncs_in_the_ledgers_folder(self):
        self.assertExit(self.oncerun(date="2024-10-01"), DONE)
        for day in range(2, 6):
            done, syncs, _, _ = self.traced(date=f"2024-10-0{day}")
            self.assertExit(done, DONE)
            at_ledger = [line for line in syncs if f"<{self.path('ledger')}" in line]
            self.assertLessEqual(len(at_ledger), 3, at_ledger)
            self.assertGreaterEqual(len(at_ledger), 2, "pending and done are each made durable")
        self.assertEqual(self.runs(), 5)

    def pages_read(self, **kw):
        """One start; how often it read from the ledger's own file."""
        self.need("strace")
        log = self.path("reads.log")
        done = self.oncerun(prefix=["strace", "-y", "-o", log, "-e", "trace=pread64"], **kw)
        self.assertExit(done, DONE)
        return (self.read(log) or b"").count(f"<{self.led}>".encode())

    def test_a_run_reads_no_more_where_its_job_has_thousands_of_runs(self):
        for state in (None, self.st):
            with self.subTest(state=state):
                for day in (1, 2):
                    self.assertExit(self.oncerun(date=f"2024-10-0{day}", state=state), DONE)
                self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                few = self.pages_read(date="2024-10-03", state=state)
                for table, key in (("job_run", "biz_date"), ("job_attempt", "serial")):
                    columns = [row["name"] for row in self.query(f"PRAGMA table_info({table})")]
                    made = {"biz_date": "date('2000-01-01', '+' || n || ' days')",
                            "serial": "n + 1000000"}
                    values = ", ".join(made.get(name, name) for name in columns)
                    self.execute(
                        "WITH RECURSIVE days(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM days "
                        f"WHERE n < 3000) INSERT INTO {table} SELECT {values} FROM days, "
                        f"(SELECT * FROM {table} ORDER BY {key} LIMIT 1)")
                self.execute("UPDATE oncerun_meta SET last_serial = last_serial + 2000000")
                self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                # Each of four trees may be two levels deeper: a hundred pages would be a scan.
                self.assertLess(self.pages_read(date="2024-10-04", state=state), few + 20)
                os.unlink(self.led), os.unlink(self.led + "-life")

    def test_the_wal_stays_short_over_5000_runs(self):
        # Where each start takes a tenth of a second, a tenth of them still fill a WAL many times.
        runs = 500 if is_instrumented(BINARY) else 5000
        # In memory where there is such a place: its length does not depend on the disk's speed.
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="oncerun-test-", dir=shared) as folder:
            self.led = os.path.join(folder, "led.db")
            longest = 0
            # One after the other and four at a time, as fast as they end: no command runs long
            # enough for what is done meanwhile.
            for begin in range(0, runs, 250):
                at_a_time = "1" if begin % 500 else "4"
                numbers = "\n".join(str(number) for number in range(begin, begin + 250))
                subprocess.run(["xargs", "-P", at_a_time, "-I{}", BINARY, "--job", "many", "--every",
                                "key", "--date", "{}", "--lock", "none", "--ledger", self.led, "--",
                                "/bin/true"],
                               input=numbers, text=True, env=self.env, check=True, timeout=120)
                longest = max(longest, os.stat(self.led + "-wal").st_size)
            self.assertEqual(self.query("SELECT count(*) AS n FROM job_run WHERE status = 'done'"),
                             [{"n": runs}])
        # A frame is a page of 4096 bytes with a header of 24 (sqlite.org/fileformat2.html, 4.1).
        frames = longest // (4096 + 24)
        print(f"longest WAL: {frames} frames")
        self.assertLess(frames, 300)

    def skip_if_instrumented(self):
        if is_instrumented(BINARY):
            self.skip("a program with instruments in it is not the one that is shipped")

    def test_only_the_c_library_is_loaded_at_the_start(self):
        self.skip_if_instrumented()
        self.need("readelf")
        dynamic = subprocess.run(["readelf", "-d", BINARY], capture_output=True, text=True,
                                 check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.assertLessEqual(set(needed), {"libc.so.6", "ld-linux-x86-64.so.2"})

    def test_a_trigger_in_the_ledger_may_do_mathematics(self):
        self.assertExit(self.oncerun(date="2024-10-01"), DONE)
        self.execute("CREATE TABLE roots (root REAL)")
        try:
            self.execute("CREATE TRIGGER r AFTER INSERT ON job_run BEGIN "
                         "INSERT INTO roots VALUES (sqrt(2.25) + pow(2, 3)); END")
        except sqlite3.OperationalError as error:
            self.skip(f"no mathematical functions in SQLite: {error}")
        self.assertExit(self.oncerun(date="2024-10-02"), DONE)
        self.assertEqual(self.query("SELECT root FROM roots"), [{"root": 9.5}])

    def test_memory_while_the_command_runs(self):
        self.skip_if_instrumented()
        # Pages of a program that was just linked are dirty until they are on the disk.
        with open(BINARY, "rb") as file:
            os.fsync(file)
        self.assertExit(self.oncerun(date="2024-10-20"), DONE)
        gate = self.gate()
        owner = self.start("--check", "exit 10", "--timeout", "1h", command=gate.shell)
        gate.wait_started()

        def private_dirty():
            with open(f"/proc/{owner.pid}/smaps_rollup", encoding="ascii") as file:
                return int(re.search(r"Private_Dirty:\s+(\d+) kB", file.read()).group(1))

        # What is done once the command runs (a checkpoint, giving memory back) may take a moment.
        try:
            self.wait_for(lambda: private_dirty() < 512, 5, "less than 512 KiB")
        finally:
            print(f"private dirty memory while waiting: {private_dirty()} KiB")
            gate.go()
        self.assertExit(owner.end(), DONE)


if __name__ == "__main__":
    main()
