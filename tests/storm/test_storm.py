"""Stampedes: hundreds of starts at once, and kills at random moments in the middle of them."""

import collections
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import threading
import time

from oncerun_test import BLOCKED, BUSY, DONE, HELD, JOB, Case, main

FULL = bool(os.environ.get("ONCERUN_TEST_FULL"))
MANY = 500
ROUNDS = 1000 if FULL else 40
AT_ONCE = 8
# A run of a short command takes a few milliseconds: kills that come later strike nothing.
LATEST_KILL_S = 0.015
EFFECT = 'echo e >>"$D/effects/$ONCERUN_BIZ_DATE"'
HONEST = 'grep -q e "$D/effects/$ONCERUN_BIZ_DATE" && exit 0; exit 10'
KILLED, TOO_LATE = 128 + 9, 124  # timeout(1): the clock struck, with or without a victim
# What a start may come to whose likes are killed around it.
ROUND_ENDS = {DONE, BUSY, BLOCKED, HELD, KILLED, TOO_LATE}


class Storm(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("effects"))
        self.errors = self.path("errors")

    def begin(self, *args, date, job=JOB, state=False, ledger=..., prefix=()):
        """A start without the usual files for its streams: hundreds are begun at once."""
        argv = self.argv(*args, job=job, date=date, command=EFFECT, ledger=ledger, prefix=prefix,
                         state=self.st if state else None)
        with open(self.errors, "ab") as errors:
            process = subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=errors, cwd=self.dir)
        self.addCleanup(self.reap, process)
        return process

    @staticmethod
    def reap(process):
        process.kill()
        process.wait()

    def codes(self, processes):
        return collections.Counter(process.wait(120) for process in processes)

    def effects(self, date):
        return len(self.lines(f"effects/{date}"))

    def assertSound(self, ledger):
        self.assertEqual(self.query("PRAGMA integrity_check", ledger=ledger),
                         [{"integrity_check": "ok"}])

    def test_500_starts_of_one_date_are_one_run(self):
        codes = self.codes([self.begin(date="2024-10-26") for _ in range(MANY)])
        self.assertEqual(sum(codes.values()), MANY)
        self.assertLessEqual(set(codes), {DONE, BUSY}, self.read(self.errors))
        self.assertEqual(self.read(self.errors), b"")
        self.assertEqual(self.effects("2024-10-26"), 1)
        self.assertStatus("done")
        self.assertEqual(self.query("SELECT count(*) AS n FROM job_attempt"), [{"n": 1}])
        self.assertSound(self.led)

    def test_500_starts_of_one_date_on_a_state_file_are_one_run(self):
        codes = self.codes([self.begin(date="2024-10-26", ledger="none", state=True)
                            for _ in range(MANY)])
        self.assertLessEqual(set(codes), {DONE, BUSY}, self.read(self.errors))
        self.assertEqual(self.read(self.errors), b"")
        self.assertEqual(self.effects("2024-10-26"), 1)
        self.assertEqual(self.state()["lastPublishedDate"], "2024-10-26")

    def test_500_starts_of_500_jobs_are_500_runs(self):
        codes = self.codes([self.begin(date="2024-10-26", job=f"job-{i}") for i in range(MANY)])
        self.assertEqual(codes, {DONE: MANY}, self.read(self.errors))
        self.assertEqual(self.effects("2024-10-26"), MANY)
        self.assertEqual(self.query("SELECT status, count(*) AS n FROM job_run GROUP BY status"),
                         [{"status": "done", "n": MANY}])
        tokens = self.query("SELECT count(DISTINCT serial) AS n FROM job_attempt")
        self.assertEqual(tokens, [{"n": MANY}])
        self.assertSound(self.led)

    def round_of_kills(self, chance, date, *args, **kw):
        """Eight starts of one date; most are killed at a random moment of their short lives."""
        processes = []
        for _ in range(AT_ONCE):
            # Kills oncerun alone, by a clock of its own, and tells by its exit code.
            after = f"{chance.uniform(0, LATEST_KILL_S):.4f}"
            killer = ["timeout", "--foreground", "--signal", "KILL", after]
            processes.append(self.begin(*args, date=date, **kw,
                                        prefix=killer if chance.random() < 0.8 else ()))
        codes = self.codes(processes)
        self.wait_quiet()
        self.assertLessEqual(set(codes), ROUND_ENDS, self.read(self.errors))
        self.assertNoFault()
        return codes[KILLED]

    def assertNoFault(self):
        """Nobody was told of a bug, or of a command line that is wrong."""
        self.assertEqual([line for line in self.lines("errors")
                          if re.search(r"\binternal\b|\busage\b|--help\b", line)], [])

    def settled(self, *args, **kw):
        """The exit code of one more start, once nothing of the round lives any more: a command that
        is just being executed has no environment by which it could be found."""
        codes = []

        def ended():
            codes.append(self.begin(*args, **kw).wait(60))
            return codes[-1] not in (BUSY, BLOCKED)

        self.wait_for(ended, 30, "the last command to end")
        return codes[-1]

    def rounds(self, seed, one_round):
        """Each round has a date of its own; `one_round` returns how many were killed in it."""
        chance = random.Random(seed)
        killed = 0
        for number in range(ROUNDS):
            date = f"20{number // 336:02}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}"
            with self.subTest(date=date, seed=seed):
                killed += one_round(chance, date)
        print(f"{self.id()}: {ROUNDS} rounds of {AT_ONCE}, {killed} killed, seed {seed}",
              file=sys.stderr)
        self.assertGreater(killed, ROUNDS, "hardly a kill has struck")

    def test_kills_never_make_a_second_effect_at_most_once(self):
        def one_round(chance, date):
            killed = self.round_of_kills(chance, date, "-g", "at-most-once")
            self.assertLessEqual(self.effects(date), 1)
            after = self.settled("-g", "at-most-once", date=date)
            self.assertIn(after, (DONE, HELD))
            self.assertLessEqual(self.effects(date), 1)
            if after == DONE:
                self.assertEqual(self.effects(date), 1)
            return killed

        self.rounds(20241026, one_round)
        self.assertSound(self.led)

    def exactly_one_effect(self, seed, **kw):
        check = ("--check", HONEST, "--check-settle", "0")

        def one_round(chance, date):
            killed = self.round_of_kills(chance, date, *check, **kw)
            self.assertEqual(self.settled(*check, date=date, **kw), DONE, self.read(self.errors))
            self.assertEqual(self.effects(date), 1)
            return killed

        self.rounds(seed, one_round)

    def test_kills_and_an_honest_check_make_exactly_one_effect(self):
        self.exactly_one_effect(1)
        self.assertSound(self.led)

    def test_kills_and_an_honest_check_with_a_state_file_beside_the_ledger(self):
        self.exactly_one_effect(2, state=True)
        self.assertSound(self.led)

    def test_kills_and_an_honest_check_on_a_state_file_alone(self):
        self.exactly_one_effect(3, state=True, ledger="none")

    def test_one_of_a_hundred_that_wait_takes_over(self):
        gate = self.gate()
        owner = self.start(state=None, command=gate.shell)
        gate.wait_started()
        waiting = [self.begin("--wait", "100", "-g", "at-least-once", date=self.date)
                   for _ in range(100)]
        owner.kill_now()
        gate.go()  # the command of the dead owner ends, too
        codes = self.codes(waiting)
        self.assertEqual(codes, {DONE: 100}, self.read(self.errors))
        self.assertEqual(self.effects(self.date), 1)


class BigLedger(Case):
    """A report that reads a million rows while claims go on."""

    ROWS, CLAIMS = 1_000_000, 100

    def setUp(self):
        super().setUp()
        if not FULL:
            self.skip("a million rows take a while: only with full")

    def fill(self):
        self.assertExit(self.oncerun(state=None), DONE)
        connection = sqlite3.connect(self.led)
        with connection:
            connection.execute(
                "INSERT INTO job_run (job_name, biz_date, status, attempts, updated_at) "
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) "
                "SELECT 'other-' || (i / 1000), printf('key-%09d', i), 'failed', 1, "
                "'2024-10-26T00:00:00.000Z' FROM n", (self.ROWS,))
        connection.close()

    def claim_ms(self, number):
        begin = time.monotonic()
        code = subprocess.run(self.argv("--every", "key", "-q", job="claims", date=f"k-{number}",
                                        state=None, command=["true"]), env=self.env,
                              check=False).returncode
        self.assertEqual(code, DONE)
        return (time.monotonic() - begin) * 1000

    def test_a_report_does_not_hold_claims_up(self):
        self.fill()
        stop = threading.Event()
        reports = []

        def report():
            while not stop.is_set():
                # Every row is unsettled, so that each is read and printed.
                done = subprocess.run([self.binary, "status", "--ledger", self.led, "--json"],
                                      env=self.env, stdout=subprocess.DEVNULL, check=False)
                reports.append(done.returncode)

        alone = [self.claim_ms(i) for i in range(self.CLAIMS)]
        thread = threading.Thread(target=report)
        thread.start()
        try:
            beside = [self.claim_ms(self.CLAIMS + i) for i in range(self.CLAIMS)]
        finally:
            stop.set()
            thread.join()
        self.assertEqual(set(reports), {0})
        ratio = statistics.median(beside) / statistics.median(alone)
        print(f"claims beside a report of {self.ROWS} rows: {ratio:.2f} of their time alone",
              file=sys.stderr)
        # The report needs a processor of its own; that readers block nobody is what is asserted.
        self.assertLess(ratio, 2 if (os.cpu_count() or 1) > 1 else 4)


if __name__ == "__main__":
    main()
