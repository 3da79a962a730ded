"""oncerun resolve: a person settles what no program can, and the history says who and why."""

import json
import os
import signal

from oncerun_test import BUSY, DATE, DONE, EARLIER, HELD, NEXT, USAGE, Case, main


class Resolve(Case):
    def unknown(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        self.assertStatus("unknown")

    def unchanged(self, *args, code=None, text=None, **kw):
        """A resolve that is refused and changes nothing."""
        before = self.row()
        result = self.resolve(*args, **kw)
        if code is None:
            self.assertNotEqual(result.returncode, 0, result.stdout)
        else:
            self.assertExit(result, code)
        self.assertNotEqual(result.stderr, "")
        if text is not None:
            self.assertIn(text, result.stderr)
        self.assertEqual(self.row(), before)

    def test_done(self):
        self.unknown()
        self.assertExit(self.resolve("--done"), 0)
        self.assertStatus("done")
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 0)

    def test_ready(self):
        self.unknown()
        self.assertExit(self.resolve("--ready"), 0)
        self.assertStatus("ready")
        self.assertExit(self.oncerun("-g", "at-most-once"), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")

    def test_skip(self):
        self.unknown()
        self.assertExit(self.resolve("--skip"), 0)
        self.assertStatus("skipped")
        self.assertExit(self.oncerun("-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 0)

    def test_a_date_that_never_ran_can_be_skipped(self):
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        self.assertExit(self.resolve("--skip"), 0)
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_job_that_the_ledger_does_not_know(self):
        self.assertExit(self.oncerun(), DONE)
        before = self.query("SELECT * FROM job_run")
        result = self.resolve("--skip", job="unheard of")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("unheard of", result.stderr)
        self.assertEqual(self.query("SELECT * FROM job_run"), before)

    def test_what_a_state_file_says_of_such_a_job_is_not_forgotten(self):
        """The file's date was done before the ledger knew the job: it must not run once more."""
        every_day = ("--every", "day", "--tz", "UTC")
        for count, (verdict, date) in enumerate((verdict, date)
                                                for verdict in ("--skip", "--done", "--ready")
                                                for date in (EARLIER, NEXT)):
            for options in ((), every_day):
                with self.subTest(verdict=verdict, date=date, options=options):
                    self.led = self.path(f"led{count}{len(options)}.db")
                    self.st = self.path(f"st{count}{len(options)}.json")
                    self.assertExit(self.oncerun(*every_day, job="another", state=None,
                                                 command=["true"]), DONE)
                    self.write(self.st, json.dumps({"lastPublishedDate": DATE}))
                    self.write(self.path("runs"), "")
                    result = self.resolve("--state", self.st, verdict, *options, date=date)
                    self.assertNotIn("internal", result.stderr)
                    started = self.oncerun(*every_day)
                    self.assertIn(started.returncode, (DONE, HELD), started.stderr)
                    self.assertEqual(self.runs(), 0)
                    self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def test_no_ledger_there(self):
        self.assertNotEqual(self.resolve("--done").returncode, 0)
        self.assertFalse(os.path.exists(self.led), "looking for a run makes no ledger")

    def test_each_can_be_undone_by_another(self):
        self.unknown()
        for option, status in (("--done", "done"), ("--ready", "ready"), ("--skip", "skipped"),
                               ("--done", "done"), ("--skip", "skipped"), ("--ready", "ready")):
            self.assertExit(self.resolve(option), 0)
            self.assertStatus(status)
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_it_is_audited(self):
        self.unknown()
        self.assertExit(self.resolve("--done", reason="the bank has it: ü 42"), 0)
        for subcommand in ("history", "show"):
            result = self.sub(subcommand, "--job", self.job, "--date", self.date)
            self.assertExit(result, 0)
            self.assertIn("the bank has it: ü 42", result.stdout)

    def test_a_reason_is_required(self):
        self.unknown()
        self.unchanged("--done", reason=None, code=USAGE, text="reason")
        self.unchanged("--done", reason="", code=USAGE, text="reason")
        self.unchanged("--done", reason="two\nlines", code=USAGE, text="reason")

    def test_exactly_one_verdict(self):
        self.unknown()
        self.unchanged(code=USAGE)
        self.unchanged("--done", "--ready", code=USAGE)
        self.unchanged("--done", "--skip", code=USAGE)
        self.unchanged("--ready", "--skip", code=USAGE)

    def test_job_and_date_are_required(self):
        self.unknown()
        before = self.row()
        self.assertExit(self.sub("resolve", "--date", self.date, "--done", "--reason", "x"), USAGE)
        self.assertExit(self.sub("resolve", "--job", self.job, "--done", "--reason", "x"), USAGE)
        self.assertEqual(self.row(), before)

    def test_refuses_while_an_owner_lives(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        for option in ("--done", "--ready", "--skip"):
            for force in ((), ("--force",)):
                self.unchanged(option, *force, code=BUSY, text=str(owner.pid))
                self.assertIsNone(owner.poll())
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertStatus("done")

    def test_refuses_between_retries(self):
        owner = self.start("--retries", "1", "--retry-delay", "60s", command="exit 3")
        self.wait_for(lambda: (self.row() or {}).get("status") == "failed",
                      what="the first attempt")
        self.unchanged("--done", code=BUSY)
        owner.terminate()
        owner.end(timeout=5)
        self.assertExit(self.resolve("--done"), 0)

    def orphan(self):
        gate = self.gate()
        owner = self.start(
            command=f"trap 'exit 0' TERM; {gate.announce}; sleep 100 & wait $!; wait")
        pid = gate.wait_started()
        owner.kill_now()
        return pid

    def test_an_orphaned_tree_needs_force(self):
        pid = self.orphan()
        for option in ("--done", "--ready", "--skip"):
            self.unchanged(option, text=str(pid))
        self.assertIn(pid, self.processes())

    def test_force_ends_an_orphaned_tree_first(self):
        pid = self.orphan()
        self.assertExit(self.resolve("--ready", "--force", timeout=20), 0)
        self.assertNotIn(pid, self.processes())
        self.assertEqual(self.processes(), [], "the whole tree ends")
        self.assertStatus("ready")
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_dead_owners_pending_needs_no_force(self):
        self.assertExit(self.oncerun(command="kill -9 $PPID; exit 0"), -signal.SIGKILL)
        self.wait_quiet()
        self.assertStatus("pending")
        self.assertExit(self.resolve("--done"), 0)
        self.assertStatus("done")

    def test_what_it_did_is_said(self):
        self.unknown()
        result = self.resolve("--done")
        said = result.stdout + result.stderr
        for word in (self.job, self.date, "unknown", "done"):
            self.assertIn(word, said)

    def test_the_next_run_brings_the_state_file_up_to_date(self):
        self.unknown()
        self.assertEqual(self.state()["pendingDate"], DATE)
        self.assertExit(self.resolve("--done"), 0)
        self.assertExit(self.oncerun(date=NEXT), DONE)
        state = self.state()
        self.assertEqual((state["lastPublishedDate"], state["status"]), (NEXT, "done"))
        self.assertFalse(state.get("pendingDate"))

    def test_a_start_of_the_date_itself_brings_the_state_file_up_to_date(self):
        for option, last in (("--skip", EARLIER), ("--done", DATE)):
            with self.subTest(option=option):
                self.led = self.path(f"led{option}.db")
                self.st = self.path(f"st{option}.json")
                self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)
                self.unknown()
                self.assertEqual(self.state()["pendingDate"], DATE)
                self.assertExit(self.resolve(option), 0)
                self.assertExit(self.oncerun(), DONE)
                self.assertEqual(self.runs(), 0)
                state = self.state()
                self.assertEqual((state["lastPublishedDate"], state["status"]), (last, "done"))
                self.assertFalse(state.get("pendingDate"))


if __name__ == "__main__":
    main()
