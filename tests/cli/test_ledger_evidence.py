"""What a ledger takes over, accepts and refuses: S10, S13, S14, schemas, foreign files."""

import itertools
import os
import shutil
import signal
import sqlite3
import sys

from oncerun_test import (ABSENT, BUSY, CONFIG, DATE, DONE, EARLIER, HELD, LATER, NEXT, PRESENT,
                          Case, main)


class Evidence(Case):
    """S10: oncerun is put in front of a script that kept a state file."""

    def fresh(self, content):
        self.number = getattr(self, "number", 0) + 1
        self.led, self.st = self.path(f"{self.number}.db"), self.path(f"{self.number}.json")
        self.write(self.path("runs"), "")
        self.write(self.st, content)

    def test_S10_in_any_order(self):
        expected = {DATE: (DONE, 0), EARLIER: (HELD, 0), NEXT: (DONE, 1)}
        for order in itertools.permutations(expected):
            with self.subTest(order=order):
                self.fresh(f'{{"lastPublishedDate": "{DATE}", "status": "done"}}')
                for date in order:
                    code, runs = expected[date]
                    before = self.runs()
                    result = self.oncerun("-g", "at-least-once", date=date)
                    self.assertExit(result, code)
                    self.assertEqual(self.runs() - before, runs)
                self.assertEqual(self.state()["lastPublishedDate"], NEXT)

    def test_S10_the_floor_stays_when_the_file_is_gone(self):
        self.fresh(f'{{"lastPublishedDate": "{DATE}"}}')
        self.assertExit(self.oncerun(date=NEXT), DONE)
        os.unlink(self.st)
        self.assertExit(self.oncerun(date=DATE), DONE)
        self.assertExit(self.oncerun("-g", "at-least-once", date=EARLIER), HELD)
        self.assertEqual(self.runs(), 1)

    def test_S10_the_file_counts_only_for_a_job_that_is_new(self):
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        self.write(self.st, f'{{"lastPublishedDate": "{NEXT}"}}')
        self.assertExit(self.oncerun(date=DATE), DONE)
        self.assertEqual(self.runs(), 2, "the ledger is the truth about a job that it knows")

    def test_S10_a_pending_date_is_a_doubt(self):
        for status in ("pending", "failed", "unknown"):
            with self.subTest(status=status):
                self.fresh(f'{{"lastPublishedDate": "{EARLIER}", "status": "{status}",'
                           f' "pendingDate": "{DATE}"}}')
                self.assertExit(self.oncerun(), HELD)
                self.assertEqual(self.runs(), 0)
                self.assertExit(self.oncerun(check=PRESENT), DONE)
                self.assertEqual(self.runs(), 0)
                self.assertStatus("done")
                self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def test_S10_a_pending_date_that_is_the_last_one_is_done(self):
        self.fresh(f'{{"lastPublishedDate": "{DATE}", "status": "done", "pendingDate": "{DATE}"}}')
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 0)

    def test_S10_an_operator_opens_a_date_below_the_floor(self):
        self.fresh(f'{{"lastPublishedDate": "{DATE}"}}')
        self.assertExit(self.oncerun(date=NEXT), DONE)
        self.assertExit(self.oncerun(date=EARLIER), HELD)
        self.assertExit(self.resolve("--ready", date=EARLIER), 0)
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertEqual(self.state()["lastPublishedDate"], NEXT)


class OwnTransaction(Case):
    """S13: the command marks its run done as the last statement of its own transaction."""

    MARK = """
import os, signal, sqlite3, sys
db = sqlite3.connect(os.environ["D"] + "/led.db", isolation_level=None, timeout=10)
db.execute("BEGIN IMMEDIATE")
db.execute("CREATE TABLE IF NOT EXISTS effect (label TEXT)")
db.execute("INSERT INTO effect VALUES (?)", (os.environ["ONCERUN_BIZ_DATE"],))
if "early" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
if db.execute("UPDATE job_run SET status = 'done', updated_at = strftime('%Y-%m-%dT%H:%M:%fZ')"
              " WHERE run_id = ? AND fencing_token = ? AND status = 'pending'",
              (os.environ["ONCERUN_RUN_ID"], os.environ["ONCERUN_TOKEN"])).rowcount != 1:
    sys.exit("not mine")
db.execute("COMMIT")
"""

    def mark(self, then, *args, **kw):
        self.write(self.path("mark.py"), self.MARK)
        return self.oncerun(*args, command=f'{sys.executable} "$D/mark.py" || exit 9; {then}', **kw)

    def effects(self):
        try:
            return len(self.query("SELECT * FROM effect"))
        except sqlite3.OperationalError:
            return 0

    def never_again(self):
        self.wait_quiet()
        self.assertStatus("done")
        self.assertExit(self.oncerun("-g", "at-least-once", check=ABSENT), DONE)
        self.assertEqual((self.runs(), self.effects()), (0, 1))
        self.assertStatus("done")

    def test_S13_and_ends_well(self):
        self.assertExit(self.mark("exit 0"), DONE)
        self.never_again()
        self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def test_S13_and_fails_afterwards(self):
        self.assertExit(self.mark("exit 3"), DONE)
        self.never_again()

    def test_S13_and_is_killed_right_after(self):
        self.assertExit(self.mark("kill -9 $$"), DONE)
        self.never_again()

    def test_S13_and_kills_its_oncerun(self):
        self.assertExit(self.mark("kill -9 $PPID; kill -9 $$"), -signal.SIGKILL)
        self.never_again()

    def test_S13_and_runs_into_the_timeout(self):
        self.assertExit(self.mark("sleep 60", "--timeout", "2s", "--kill-after", "1s"), DONE)
        self.never_again()

    def test_S13_killed_before_the_commit(self):
        self.write(self.path("mark.py"), self.MARK)
        result = self.oncerun(command=[sys.executable, self.path("mark.py"), "early"])
        self.assertExit(result, 137)
        self.assertEqual(self.effects(), 0)
        self.assertStatus("unknown")
        self.assertExit(self.oncerun(), HELD)
        self.assertExit(self.mark("exit 0", check=ABSENT), DONE)
        self.assertEqual(self.effects(), 1)
        self.assertStatus("done")

    def test_S13_still_mine(self):
        command = f'{self.binary} still-mine; echo $? >>"$D/said"'
        self.assertExit(self.oncerun(command=command), DONE)
        self.assertEqual(self.lines("said"), ["0"])

    def test_S13_still_mine_after_somebody_else_took_it(self):
        gate = self.gate()
        owner = self.start(command=f'{gate.shell}; {self.binary} still-mine; echo $? >>"$D/said"')
        gate.wait_started()
        self.execute("UPDATE job_run SET fencing_token = fencing_token + 1, run_id = 'another'")
        gate.go()
        result = owner.end()
        self.assertEqual(self.lines("said"), ["82"])
        self.assertExit(result, 82)


class RestoredCopy(Case):
    """S14: the ledger is replaced by yesterday's copy."""

    def setUp(self):
        super().setUp()
        self.assertExit(self.oncerun(date=EARLIER, state=None), DONE)
        self.backup = self.path("backup.db")
        source, target = sqlite3.connect(self.led), sqlite3.connect(self.backup)
        source.backup(target)
        source.close()
        target.close()
        self.assertExit(self.oncerun(date=DATE, state=None), DONE)
        self.token = self.row()["fencing_token"]

    def restore(self):
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(self.led + suffix):
                os.unlink(self.led + suffix)
        shutil.copyfile(self.backup, self.led)

    def test_S14_refused_until_it_is_accepted(self):
        self.restore()
        for date in (DATE, NEXT):
            result = self.oncerun("-g", "at-least-once", date=date, state=None)
            self.assertExit(result, CONFIG)
            self.assertIn("ledger accept", result.stderr)
        self.assertEqual(self.runs(), 2)
        self.assertExit(self.sub("ledger accept"), 0)
        self.assertExit(self.oncerun(date=NEXT, state=None), DONE)
        self.assertEqual(self.runs(), 3)
        self.assertGreater(self.row(date=NEXT)["fencing_token"], self.token)
        self.assertExit(self.oncerun(date=EARLIER, state=None), DONE)
        self.assertEqual(self.runs(), 3)

    def test_S14_a_run_that_was_open_in_the_copy_is_not_provable(self):
        gate = self.gate()
        owner = self.start(command=gate.shell, date=NEXT, state=None)
        gate.wait_started()
        os.unlink(self.backup)
        source, target = sqlite3.connect(self.led), sqlite3.connect(self.backup)
        source.backup(target)
        source.close()
        target.close()
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertExit(self.oncerun(date=LATER, state=None), DONE)
        self.restore()
        self.assertExit(self.sub("ledger accept"), 0)
        result = self.oncerun("-g", "at-least-once", date=NEXT, state=None, check=ABSENT)
        self.assertExit(result, HELD)
        self.assertEqual(self.runs(), 3)

    def test_accept_of_a_ledger_that_is_in_order(self):
        self.assertExit(self.sub("ledger accept"), 0)
        self.assertExit(self.oncerun(date=DATE, state=None), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertExit(self.oncerun(date=NEXT, state=None), DONE)
        self.assertGreater(self.row(date=NEXT)["fencing_token"], self.token)


class SameLedger(Case):
    """S14: the file beside the ledger is deleted, or the ledger has another name."""

    def test_S14_the_liveness_file_is_deleted_in_mid_run(self):
        for lock in ("flock", "none"):
            with self.subTest(lock=lock):
                date = DATE if lock == "flock" else NEXT
                gate = self.gate(lock)
                owner = self.start("--lock", lock, date=date, command=gate.shell)
                gate.wait_started()
                os.unlink(self.led + "-life")
                for guarantee in ("cautious", "at-least-once"):
                    result = self.oncerun("--lock", lock, "-g", guarantee, date=date, check=ABSENT)
                    self.assertIn(result.returncode, (BUSY, HELD), result.stderr)
                self.assertEqual(self.runs(), 0)
                gate.go()
                self.assertExit(owner.end(), DONE)
                self.assertStatus("done", date=date)

    def test_S14_the_liveness_file_is_deleted_and_the_command_hides(self):
        """Neither bytes nor environment tell of it: not provable, and so not started."""
        gate = self.gate()
        owner = self.start("--lock", "none",
                           command=f'exec env -i D="$D" sh -c "{gate.shell}"')
        gate.wait_started()
        os.unlink(self.led + "-life")
        owner.kill_now()
        for guarantee in ("cautious", "at-least-once"):
            self.assertExit(self.oncerun("--lock", "none", "-g", guarantee, check=ABSENT), HELD)
        self.assertEqual(self.runs(), 0)

    def test_S14_through_a_symbolic_link(self):
        os.mkdir(self.path("real"))
        os.symlink("real/led.db", self.path("link.db"))
        real, link = self.path("real/led.db"), self.path("link.db")
        for first, second, date in ((real, link, DATE), (link, real, NEXT)):
            for lock in ("flock", "none"):
                with self.subTest(first=first, lock=lock):
                    job = f"job {lock}"
                    gate = self.gate(f"{lock}{date}")
                    owner = self.start("--lock", lock, job=job, date=date, ledger=first, state=None,
                                       command=gate.shell)
                    gate.wait_started()
                    result = self.oncerun("--lock", lock, "-g", "at-least-once", job=job, date=date,
                                          ledger=second, state=None)
                    self.assertExit(result, BUSY)
                    gate.go()
                    self.assertExit(owner.end(), DONE)
                    self.assertExit(self.oncerun("--lock", lock, job=job, date=date, ledger=second,
                                                 state=None), DONE)
        self.assertEqual(self.runs(), 0)
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("link.db-")], [])

    def test_S14_through_another_path_and_from_another_folder(self):
        gate = self.gate()
        owner = self.start(command=gate.shell, ledger="led.db")
        gate.wait_started()
        os.mkdir(self.path("sub"))
        for path in (self.led, "../led.db", "sqlite:" + self.led, "..//sub/.././led.db"):
            result = self.oncerun("-g", "at-least-once", ledger=path, cwd=self.path("sub"))
            self.assertExit(result, BUSY)
        gate.go()
        self.assertExit(owner.end(), DONE)


class Refused(Case):
    """Not a ledger, or not one of ours to change."""

    def refused(self, code=CONFIG):
        before = self.snapshot()
        result = self.oncerun("-g", "at-least-once", state=None)
        self.assertExit(result, code)
        self.assertIn(self.led, result.stderr)
        self.assertEqual(self.runs(), 0)
        after = self.snapshot()
        self.assertEqual(after["led.db"], before["led.db"])
        return result

    def test_a_newer_schema(self):
        self.assertExit(self.oncerun(date=EARLIER, state=None, command=["true"]), DONE)
        version = self.query("SELECT * FROM oncerun_meta")[0]
        column = next(name for name in version if "version" in name)
        self.execute(f"UPDATE oncerun_meta SET {column} = {column} + 1")
        connection = sqlite3.connect(self.led)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        before = self.query("SELECT * FROM job_run")
        result = self.refused()
        self.assertIn("newer", result.stderr)
        self.assertEqual(self.query("SELECT * FROM job_run"), before)

    def test_not_a_database(self):
        self.write(self.led, "a file of somebody's\n" * 100)
        self.refused()

    def test_a_short_file(self):
        self.write(self.led, "x")
        self.refused()

    def test_a_folder(self):
        os.mkdir(self.led)
        result = self.oncerun(state=None)
        self.assertExit(result, CONFIG)
        self.assertEqual((self.runs(), os.listdir(self.led)), (0, []))

    def test_a_database_with_a_job_run_of_somebody_elses(self):
        connection = sqlite3.connect(self.led)
        connection.execute("CREATE TABLE job_run (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO job_run (name) VALUES ('theirs')")
        connection.commit()
        connection.close()
        self.refused()
        self.assertEqual(self.query("SELECT * FROM job_run"), [{"id": 1, "name": "theirs"}])

    def test_a_database_with_other_tables_can_be_the_ledger(self):
        """S13 needs it: job_run lives in the database that the command writes to."""
        connection = sqlite3.connect(self.led)
        connection.execute("CREATE TABLE booking (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO booking VALUES (7)")
        connection.commit()
        connection.close()
        self.assertExit(self.oncerun(state=None), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")
        self.assertEqual(self.query("SELECT * FROM booking"), [{"id": 7}])

    def test_a_named_pipe(self):
        os.mkfifo(self.led)
        result = self.oncerun(state=None, timeout=20)
        self.assertExit(result, CONFIG)
        self.assertEqual(self.runs(), 0)


class OpenFormat(Case):
    """What the sqlite3 shell of an operator finds."""

    def test_columns_and_times(self):
        self.assertExit(self.oncerun(command="exit 3"), 3)
        row = self.row()
        for column in ("job_name", "biz_date", "status", "attempts", "run_id", "fencing_token",
                       "host", "pid", "started_at", "updated_at", "finished_at", "exit_code"):
            self.assertIn(column, row)
        self.assertEqual((row["job_name"], row["biz_date"], row["status"], row["attempts"],
                          row["exit_code"]), (self.job, self.date, "failed", 1, 3))
        for column in ("started_at", "updated_at", "finished_at"):
            self.assertRegex(row[column], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
        self.assertRegex(row["run_id"], "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

    def test_the_key_is_job_and_date(self):
        self.assertExit(self.oncerun(), DONE)
        with self.assertRaises(sqlite3.IntegrityError):
            self.execute("INSERT INTO job_run SELECT * FROM job_run")

    def test_WAL_mode(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.query("PRAGMA journal_mode"), [{"journal_mode": "wal"}])

    def test_tokens_grow_over_dates_of_a_job(self):
        tokens = []
        for date in (NEXT, EARLIER, DATE):
            self.assertExit(self.oncerun("--lock", "none", date=date), DONE)
            tokens.append(self.row(date=date)["fencing_token"])
        self.assertEqual(tokens, sorted(set(tokens)))
        # Milliseconds since 1970, so that they grow past any earlier ledger's.
        self.assertGreater(tokens[0], 1_600_000_000_000)

    def test_older_dates_that_are_unsettled_are_said_once_a_day(self):
        self.assertExit(self.oncerun(date=EARLIER, command="exit 3"), 3)
        first = self.oncerun(date=DATE)
        self.assertExit(first, DONE)
        self.assertEqual(sum(EARLIER in line for line in first.stderr.splitlines()), 1)
        self.assertNotIn(EARLIER, self.oncerun(date=NEXT).stderr)

    def test_period_and_zone_are_fixed_by_the_first_claim(self):
        self.assertExit(self.oncerun("--tz", "UTC"), DONE)
        for args in (("--tz", "Europe/Berlin"), ("--tz", "UTC", "--every", "week", )):
            date = NEXT if "week" not in args else "2024-W43"
            result = self.oncerun(*args, date=date, state=None)
            self.assertExit(result, CONFIG)
            self.assertIn("job set", result.stderr)
        self.assertEqual(self.runs(), 1)
        self.assertExit(self.sub("job set", "--job", self.job, "--tz", "Europe/Berlin"), 0)
        self.assertExit(self.oncerun("--tz", "Europe/Berlin", date=NEXT), DONE)
        self.assertEqual(self.runs(), 2)


if __name__ == "__main__":
    main()
