"""The ledger under many hands: G01, G08, and a lock of somebody else's on the database."""

import os
import sqlite3
import time

from oncerun_test import BLOCKED, BUSY, DATE, DONE, EARLIER, NEXT, UNAVAILABLE, Case, main

# Waits for a line of its own from the FIFO $1, then becomes the rest of the line.
AT_THE_BARRIER = ["sh", "-c", 'read _ <"$0" && exec "$@"']


class Stampede(Case):
    def at_once(self, count, *args, jobs=None, **kw):
        """Starts `count` calls that leave a barrier together; returns their results."""
        barrier = self.path("barrier")
        if not os.path.exists(barrier):
            os.mkfifo(barrier)
        held = os.open(barrier, os.O_RDWR | os.O_CLOEXEC)
        try:
            started = [self.start(*args, prefix=[*AT_THE_BARRIER, barrier],
                                  job=jobs[number] if jobs else ..., **kw)
                       for number in range(count)]
            os.write(held, b"\n" * count)
            return [process.end() for process in started]
        finally:
            os.close(held)

    def no_lock_trouble(self, result):
        self.assertNotIn("database is locked", result.stderr + result.stdout)

    def stampede(self, *args):
        for number in range(20):
            self.led, self.st = self.path(f"led{number}.db"), self.path(f"st{number}.json")
            results = self.at_once(30, *args)
            codes = sorted(result.returncode for result in results)
            errors = [result.stderr for result in results if result.returncode not in (DONE, BUSY)]
            self.assertEqual(errors, [], codes)
            self.assertEqual(self.runs(), number + 1, codes)
            for result in results:
                self.no_lock_trouble(result)
            self.assertStatus("done")
            self.assertEqual(self.row()["attempts"], 1)

    def test_G01a_thirty_first_calls_at_once_without_a_lock(self):
        self.stampede("--lock", "none")

    def test_G01a_thirty_first_calls_at_once_with_flock(self):
        self.stampede("--lock", "flock")

    def stampede_of_state_files(self, *args):
        for number in range(10):
            self.st = self.path(f"st{number}.json")
            results = self.at_once(20, *args, ledger="none")
            codes = sorted(result.returncode for result in results)
            errors = [result.stderr for result in results
                      if result.returncode not in (DONE, BUSY, BLOCKED)]
            self.assertEqual(errors, [], codes)
            self.assertEqual(self.runs(), number + 1, codes)
            self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def test_twenty_first_calls_at_once_without_a_ledger(self):
        self.stampede_of_state_files()

    def test_twenty_first_calls_at_once_without_ledger_and_lock(self):
        self.stampede_of_state_files("--lock", "none")

    def test_twenty_calls_with_locks_that_do_not_know_each_other(self):
        """The ledger is a layer of its own: it suffices where the locks do not meet."""
        options = [("--lock", "none"), ("--lock", "flock"),
                   ("--lock", "flock:" + self.path("lock"))]
        for number in range(5):
            self.led, self.st = self.path(f"led{number}.db"), self.path(f"st{number}.json")
            started = [self.start(*options[call % 3]) for call in range(20)]
            for process in started:
                # Who holds a lock that is never written need not be known within a tenth of a second.
                self.assertIn(process.end().returncode, (DONE, BUSY, BLOCKED), process.err)
            self.assertEqual(self.runs(), number + 1)
            self.assertEqual(self.row()["attempts"], 1)

    def test_G01b_thirty_jobs_at_once(self):
        results = self.at_once(30, jobs=[f"job {number}" for number in range(30)], state=None)
        for result in results:
            self.assertExit(result, DONE)
            self.no_lock_trouble(result)
        self.assertEqual(self.runs(), 30)
        self.assertEqual(self.query("SELECT status, count(*) AS n FROM job_run GROUP BY status"),
                         [{"status": "done", "n": 30}])
        tokens = self.query("SELECT count(DISTINCT run_id) AS n FROM job_run")
        self.assertEqual(tokens, [{"n": 30}])

    def test_G08_two_from_a_barrier_and_a_third_later(self):
        for lock in ("flock", "none"):
            with self.subTest(lock=lock):
                before = self.runs()
                job = "job " + lock
                results = self.at_once(2, "--lock", lock, jobs=[job, job], state=None)
                self.assertIn(DONE, [result.returncode for result in results])
                for result in results:
                    self.assertIn(result.returncode, (DONE, BUSY), result.stderr)
                self.assertExit(self.oncerun("--lock", lock, job=job, state=None), DONE)
                self.assertEqual(self.runs(), before + 1)


class HeldByAnother(Case):
    """Somebody holds the database's write lock: a sqlite3 shell with an open transaction."""

    def setUp(self):
        super().setUp()
        self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)

    def hold(self):
        connection = sqlite3.connect(self.led, isolation_level=None)
        self.addCleanup(connection.close)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def test_G01c_held_for_a_while_before_the_start(self):
        holder = self.hold()
        waiting = self.start()
        time.sleep(1.5)  # the case's own timing
        self.assertIsNone(waiting.poll(), waiting.err)
        self.assertEqual(self.runs(), 0)
        holder.execute("ROLLBACK")
        result = waiting.end(timeout=5)
        self.assertExit(result, DONE)
        self.assertNotIn("locked", result.stderr)
        self.assertEqual(self.runs(), 1)

    def test_G01d_held_when_the_job_ends(self):
        for code in (0, 3):
            date = DATE if code == 0 else NEXT
            gate = self.gate(f"gate{code}")
            owner = self.start(date=date, command=f"{gate.shell}; exit {code}")
            gate.wait_started()
            holder = self.hold()
            gate.go()
            time.sleep(2)  # the case's own timing
            self.assertIsNone(owner.poll(), owner.err)
            holder.execute("ROLLBACK")
            self.assertExit(owner.end(timeout=5), code)
            self.assertStatus("failed" if code else "done", date=date)
            self.assertEqual(self.row(date=date)["exit_code"], code)

    def test_G01d_held_longer_than_the_busy_timeout_when_the_job_ends(self):
        gate = self.gate()
        owner = self.start(command=f"{gate.shell}; exit 3")
        gate.wait_started()
        holder = self.hold()
        gate.go()
        time.sleep(11)  # longer than busy_timeout, shorter than --record-timeout
        self.assertIsNone(owner.poll(), owner.err)
        holder.execute("ROLLBACK")
        self.assertExit(owner.end(timeout=5), 3)
        self.assertStatus("failed")

    def test_G01e_held_longer_than_the_limit(self):
        self.hold()
        result = self.oncerun(timeout=20)
        self.assertExit(result, UNAVAILABLE)
        self.assertIn(self.led, result.stderr)
        self.assertIn("hint:", result.stderr)
        self.assertEqual(self.runs(), 0)
        self.assertIsNone(self.row())

    def test_a_skip_does_not_wait_for_a_writer(self):
        self.hold()
        result = self.oncerun(date=EARLIER, timeout=2)
        self.assertExit(result, DONE)
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def test_waiting_for_the_database_ends_with_TERM(self):
        self.hold()
        waiting = self.start()
        # It waits as soon as it holds a descriptor of the database.
        self.wait_for(lambda: self.has_open(waiting.pid, self.led), what="the ledger to be opened")
        waiting.terminate()
        self.assertExit(waiting.end(timeout=1.5), 143)
        self.assertEqual(self.runs(), 0)

    def has_open(self, pid, path):
        folder = f"/proc/{pid}/fd"
        return any(os.path.realpath(os.path.join(folder, name)) == path
                   for name in os.listdir(folder))


class DroppedIndex(Case):
    """The ledger is an open format: an operator may drop an index, or put another in its place."""

    state = None

    def indexes(self):
        found = self.query("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql <> ''")
        return {row["name"]: row["sql"] for row in found}

    def test_the_next_claim_makes_it_again(self):
        self.assertExit(self.oncerun(date="2024-09-01"), DONE)
        made = self.indexes()
        self.assertEqual(len(made), 5, made)
        for day, name in enumerate(sorted(made), 2):
            with self.subTest(index=name):
                self.execute(f"DROP INDEX {name}")
                # Who only looks does without it, and changes nothing.
                self.assertExit(self.oncerun(date="2024-09-01"), DONE, "")
                self.assertExit(self.sub("status"), DONE, "")
                self.assertNotIn(name, self.indexes())
                self.assertExit(self.oncerun(date=f"2024-09-{day:02}"), DONE, "")
                self.assertEqual(self.indexes(), made)
        self.assertEqual(self.runs(), 6)

    def test_another_index_of_its_name_is_left_alone(self):
        self.assertExit(self.oncerun(command="exit 3", date=EARLIER), 3)
        for name, sql in self.indexes().items():
            table = sql.split(" ON ")[1].split()[0]
            self.execute(f"DROP INDEX {name}")
            self.execute(f"CREATE INDEX {name} ON {table} (run_id, job_name)")
        before = self.indexes()
        told = self.oncerun()
        self.assertExit(told, DONE, f"{EARLIER}")
        self.assertExit(self.sub("status"), DONE, "")
        self.assertEqual(self.indexes(), before)


if __name__ == "__main__":
    main()
