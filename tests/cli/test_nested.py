"""oncerun inside a run of oncerun: what is still read there, and what its exit codes mean to the outer
one (case S15's neighbours)."""

import datetime
import os

from oncerun_test import BINARY, BUSY, DATE, DONE, HELD, UNAVAILABLE, USAGE, Case, main


class Nested(Case):
    def inner(self, *args, job="inner", date=DATE, ledger=..., command='"$D/hit"'):
        """The text of an inner oncerun, for `sh -c`."""
        options = ["--job", job]
        options += ["--date", date] if date else []
        options += ["--ledger", self.led if ledger is ... else ledger] if ledger else []
        return " ".join([BINARY, *options, *args, "--", "sh", "-c", f"'{command}'"])

    def test_another_job_runs_inside(self):
        self.assertExit(self.oncerun(command=self.inner()), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")
        self.assertStatus("done", job="inner")

    def test_another_date_of_the_same_job_is_blocked_by_the_jobs_lock(self):
        done = self.oncerun(command=self.inner(job="settle", date="2024-10-25"))
        self.assertExit(done, 76)
        self.assertStatus("failed")
        self.assertEqual(self.runs(), 0)

    def test_S15_a_run_of_its_own_ancestor_is_a_usage_error(self):
        done = self.oncerun(command=self.inner(job="settle"))
        self.assertExit(done, USAGE)
        self.assertEqual(self.runs(), 0)
        self.assertStatus("failed")
        self.assertIsNone(self.state().get("lastPublishedDate"))

    def test_S15_a_run_of_its_grandparent_is_a_usage_error(self):
        deep = self.path("deep")
        self.write(deep, self.inner(job="settle") + "\n")
        done = self.oncerun(command=self.inner(command=f"sh {deep}"))
        self.assertExit(done, USAGE)
        self.assertEqual(self.runs(), 0)
        self.assertStatus("failed")
        self.assertStatus("failed", job="inner")

    def test_S15_an_ancestor_with_another_ledger_is_still_one(self):
        done = self.oncerun(command=self.inner("--wait", "5", job="settle",
                                               ledger=self.path("other.db")))
        self.assertExit(done, USAGE)
        self.assertEqual(self.runs(), 0)

    def test_S15_what_follows_a_busy_skip_is_not_started(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        listed = " ".join(f"'{word}'" for word in self.argv())
        chain = self.spawn(["sh", "-c", f'{listed} && echo next >>"$D/next"']).end()
        self.assertExit(chain, BUSY)
        self.assertEqual(self.lines("next"), [])
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_the_outers_instant_does_not_steer_the_inner(self):
        today = datetime.datetime.now(datetime.timezone.utc).date()
        done = self.oncerun("--tz", "UTC", date="this",
                            env={"ONCERUN_SCHEDULED_AT": "2020-02-02T10:00:00Z"},
                            command=self.inner("--tz", "UTC", date="this",
                                               command='echo "$ONCERUN_BIZ_DATE" >>"$D/inner"'))
        self.assertExit(done, DONE)
        self.assertStatus("done", date="2020-02-02")
        later = datetime.datetime.now(datetime.timezone.utc).date()
        self.assertIn(self.lines("inner"), [[str(today)], [str(later)]])

    def test_the_outers_lock_does_not_steer_the_inner(self):
        outer = self.path("outer.lock")
        done = self.oncerun(env={"ONCERUN_LOCK": f"flock:{outer}"}, command=self.inner())
        self.assertExit(done, DONE)  # with the outer's lock it would be blocked by its parent
        self.assertTrue(os.path.exists(outer))
        self.assertEqual(self.runs(), 1)

    def test_the_ledger_is_still_read_from_the_environment(self):
        done = self.oncerun(ledger=None, env={"ONCERUN_LEDGER": self.led},
                            command=self.inner(ledger=None))
        self.assertExit(done, DONE)
        self.assertStatus("done")
        self.assertStatus("done", job="inner")

    def test_a_held_inner_leaves_the_outer_unknown(self):
        self.assertExit(self.oncerun(job="inner", state=None, command="kill -9 $$"), 137)
        self.assertExit(self.oncerun(command=self.inner()), HELD)
        self.assertStatus("unknown")
        self.assertEqual(self.runs(), 0)

    def test_a_done_inner_is_a_success(self):
        for _ in range(2):
            self.assertExit(self.oncerun("--rerun", command=self.inner()), DONE)
        self.assertEqual(self.runs(), 1)

    def test_the_inner_sees_its_own_run(self):
        show = 'echo "$ONCERUN_JOB $ONCERUN_RUN_ID" >>"$D/seen"'
        self.assertExit(self.oncerun(command=f"{show}; {self.inner(command=show)}; {show}"), DONE)
        first, inner, last = (line.split() for line in self.lines("seen"))
        self.assertEqual(first, last)
        self.assertEqual((first[0], inner[0]), ("settle", "inner"))
        self.assertNotEqual(first[1], inner[1])


class StillMine(Case):
    """oncerun still-mine, where the ledger it would ask is out of reach."""

    ASK = f'{BINARY} still-mine; echo $? >>"$D/said"'

    def test_a_ledger_that_is_gone(self):
        """Neither yes nor no: 82 would say that somebody else has the run."""
        away = self.path("away.db")
        command = f'{self.ASK}; mv "{self.led}" "{away}"; {self.ASK}; mv "{away}" "{self.led}"'
        result = self.oncerun(command=f"{command}; {self.ASK}")
        self.assertExit(result, DONE, self.led)
        self.assertEqual(self.lines("said"), ["0", str(UNAVAILABLE), "0"])
        self.assertStatus("done")

    def test_a_ledger_that_is_another_file(self):
        # With its side files: SQLite clears away the log of a database that is empty.
        away = self.path("away.db")
        names = 'for end in "" -wal -shm; do mv "{}$end" "{}$end"; done'
        command = [names.format(self.led, away), f': >"{self.led}"', self.ASK,
                   names.format(away, self.led)]
        self.assertExit(self.oncerun(command="; ".join(command)), DONE)
        self.assertEqual(self.lines("said"), [str(UNAVAILABLE)])

    def test_a_state_file_that_is_gone(self):
        away = self.path("away.json")
        command = f'{self.ASK}; mv "{self.st}" "{away}"; {self.ASK}; mv "{away}" "{self.st}"'
        result = self.oncerun(command=f"{command}; {self.ASK}", ledger="none")
        self.assertExit(result, DONE, self.st)
        self.assertEqual(self.lines("said"), ["0", str(UNAVAILABLE), "0"])


if __name__ == "__main__":
    main()
