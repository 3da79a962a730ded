"""One failed call in other courses of a run: retries, --rerun, --replace, --check-first, --check-after,
a result in the spool, and the subcommands that write."""

import sqlite3

from crash import BOTH, EFFECT, LEDGER, SUCCESS, Column, kill_session, main
from faults import FaultCase
from oncerun_test import DATE, DONE, UNAVAILABLE, UNCONFIRMED, UNRECORDED, UNWRITABLE

FAILED = 3
FAILS_FIRST = '[ -e first ] || { : >first; exit 3; }\n'


class Courses(FaultCase):
    def setUp(self):
        super().setUp()
        self.door = self.gate()
        self.owner = None

    def one(self, fault):
        fault.strike()
        fault.judge(DONE)
        fault.settle_once()

    def test_retries(self):
        """A fault may cost the second attempt: then the first one's failure is what is told, and the
        next start begins again unasked, also where the second's end is only in the spool."""
        def one(fault):
            fault.strike()
            if fault.code == FAILED:
                fault.must(fault.now.mark.status in ("failed", "pending") and not fault.now.effects,
                           "a failure is reported as it is recorded", fault.now)
                fault.names_file_and_error()
                fault.state_whole()
            else:
                fault.judge(DONE)
            fault.settle_once()

        self.job_script("fails-first", FAILS_FIRST + EFFECT + SUCCESS)
        retry = ("--retries", "1", "--retry-delay", "0s")
        self.fault_all(Column("retries", BOTH, args=retry, job="fails-first"), one)

    def test_rerun(self):
        def done_before():
            self.assertExit(self.plain(Column("done before")), DONE)

        def one(fault):
            fault.strike()
            fault.may_end(DONE)
            if fault.code != DONE:
                fault.names_file_and_error()
            fault.state_whole()
            # The first generation stays done, or the second is in doubt or done.
            judge = fault.invariants
            again = self.plain(fault.column, guarantee="at-least-once")
            self.assertExit(again, DONE)
            judge.done_never_changes(judge.always(fault.before), self.plain(fault.column))

        self.fault_all(Column("rerun", BOTH, once=("--rerun",), prepare=done_before), one)

    def test_checks_around_the_run(self):
        def unconfirmed(fault):
            """The check that is asked last could not be run."""
            fault.strike()
            fault.judge(UNCONFIRMED if fault.code == UNCONFIRMED and fault.point.name == "clone" else DONE)
            fault.settle_once()

        for option, one in (("--check-first", self.one), ("--check-after", unconfirmed)):
            self.fault_all(Column(option, BOTH, checked=True, args=(option,)), one)

    def test_a_spooled_result(self):
        self.job_script("waits-last", EFFECT + self.door.shell + "\n" + SUCCESS)
        self.fault_all(Column("spooled result", BOTH, prepare=self.spooled), self.one)

    def spooled(self):
        """The ledger is held when the result is recorded."""
        owner = self.watched(self.run_argv(Column("spooled"), "--record-timeout", "0.2s",
                                           job="waits-last"))
        self.door.wait_started()
        connection = sqlite3.connect(self.led, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        self.door.go()
        self.assertExit(owner.end(), UNRECORDED)
        connection.close()
        self.nobody_left()

    def owner_waits(self):
        """The run that is in the way has started, and had no effect yet."""
        self.owner = self.watched(self.run_argv(Column("owner"), job="waits-first"))
        self.door.wait_started()

    def test_replace(self):
        """Who replaces fails: its victim may live on, be stopping, or be gone."""
        def one(fault):
            fault.strike_only()
            if self.lives(fault.run, 30):
                self.fail("what replaces lives on")
            kill_session(self.owner)
            fault.nothing_lives()
            fault.judge(DONE)
            fault.settle_once()

        self.job_script("waits-first", self.door.shell + "\n" + EFFECT + SUCCESS)
        self.fault_all(Column("replace", BOTH, guarantee="at-least-once", once=("--replace",),
                              arrange=self.owner_waits), one)


class Subcommands(FaultCase):
    """Done wholly or not at all; said again, it is done."""

    def where(self, marks):
        words = ["--ledger", self.led, "--job", self.job]
        return words if marks == LEDGER else [*words, "--state", self.st]

    def failed_start(self):
        self.job_script("fails", "exit 3\n")
        self.assertExit(self.plain(Column("failed start"), job="fails"), 3)

    def struck(self, fault):
        fault.strike()
        fault.must(fault.code in (DONE, UNAVAILABLE, UNWRITABLE), "exit codes are those of the manual",
                   f"exit {fault.code}")
        if fault.code != DONE:
            fault.names_file_and_error()
        else:
            fault.synced_after_all()
        fault.state_whole()
        return fault.invariants

    def again(self, fault):
        fault.invariants.done_by_hand(self.watched([self.binary, *fault.column.subcommand]).end())

    def test_resolve(self):
        for verdict, status, starts in (("--done", "done", 0), ("--ready", "ready", 1)):
            def one(fault):
                judge = self.struck(fault)
                before = None if fault.code == DONE else fault.before
                judge.resolved_or_not(before, judge.always(fault.before), status)
                self.again(fault)
                judge.resolved_or_not(None, judge.look(), status)
                self.assertExit(self.plain(fault.column), DONE)
                judge.started(starts, fault.before, judge.always(fault.before))
                judge.no_temporary_files()

            words = ("resolve", *self.where(BOTH), "--date", DATE, verdict, "--reason", "seen to")
            self.fault_all(Column(f"resolve {verdict}", BOTH, prepare=self.failed_start,
                                  subcommand=words), one)

    def test_job_set(self):
        def one(fault):
            judge = self.struck(fault)
            judge.untouched_runs(fault.before)
            self.again(fault)
            self.assertExit(self.plain(fault.column), DONE)
            judge.started(1, fault.before, judge.always(fault.before))

        # From its lock on: the zone has been found then.
        self.fault_all(Column("job set", LEDGER, first="flock", args=("--tz", "Europe/Berlin"),
                              subcommand=("job", "set", *self.where(LEDGER), "--tz", "Europe/Berlin")),
                       one)


if __name__ == "__main__":
    main()
