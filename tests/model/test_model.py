"""The protocol as two models, searched by spin through all their interleavings and crashes: one host
and its ledger (oncerun.pml), and hosts that share a lock that is a lease (lease.pml).

A search counts only if it was complete and found nothing. Each mutation of a model has to break
the promise that is named beside it, and every promise is broken by one: an assertion that nothing
can break would prove nothing.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
FULL = bool(os.environ.get("ONCERUN_TEST_FULL"))
DEPTH = 100_000
MEMORY_MIB = 4000

ALO, AMO, CHECK = "-DGUARANTEE=at_least_once", "-DGUARANTEE=at_most_once", "-DCHECK=1"
BARE, FAULT, TWICE, THREE = "-DLOCK=0", "-DFAULTS=1", "-DCRASHES=2", "-DCONTENDERS=3"

# Under a check the guarantee has no say (decide.cpp), so there are four columns, each with the
# flock and without any lock.
COLUMNS = [f"{column} {lock}" for column in ("-DGUARANTEE=cautious", ALO, AMO, CHECK)
           for lock in ("-DLOCK=1", BARE)]
# What can be otherwise in each of them: a request that outlives its command, a command that hides,
# one that finishes its own run, a clock that steps, an operator who is wrong, guarantees mixed.
CORNERS = [f"{CHECK} -DLATE=1 {BARE}", f"{AMO} -DLATE=1 {BARE}", f"{ALO} -DHIDES=1 {BARE}",
           f"{ALO} -DHIDES=2 {BARE}", f"{ALO} -DMARKS=1 {BARE}", f"-DMARKS=1 {FAULT}",
           f"{ALO} -DCLOCK=3", f"{ALO} -DOPERATOR=1 {BARE}", "-DGUARANTEE=mixed"]

SAMPLE = [f"{column} {FAULT}" for column in COLUMNS] + CORNERS + [f"{AMO} {THREE}"]
ALL = [f"{column} -DFAULTS=2 {TWICE}" for column in COLUMNS]
ALL += [f"{corner} {TWICE}" for corner in CORNERS]
ALL += [f"{column} {THREE}" for column in COLUMNS]
ALL += [f"{column} {BARE} {THREE} {TWICE}" for column in (ALO, CHECK)]

# Each with the promise that it breaks; None where several are broken and any may be met first.
MUTANTS = {
    f"-DCLAIM_AFTER_START {AMO}": "claim_before_start",
    f"-DCLAIM_AFTER_START -DCLAIM_UNWATCHED {AMO}": "at_most_one_effect",
    f"-DRELEASE_BEFORE_COMMIT {ALO}": "no_success_is_run_over",
    # Who lives.
    f"-DNO_TREE_BYTE -DNO_LOOK_AT_PROC {ALO} {BARE}": "one_live_command",
    f"-DNO_TREE_BYTE -DHIDES=2 {ALO} {BARE}": "one_live_command",
    f"-DNO_LOOK_AT_PROC -DHIDES=1 {ALO} {BARE}": "one_live_command",
    f"-DBYTES_AFTER_COMMIT {ALO} {BARE}": None,
    f"-DLIFE_IN_A_FILE {AMO}": "later_start_settles_it",
    # Deciding.
    f"-DNO_EXCLUSION {BARE}": None,
    f"-DDECIDE_OUTSIDE {ALO} {BARE}": None,
    f"-DDOUBT_STARTS=1 {AMO}": "at_most_one_effect",
    f"-DABSENT_ONCE {CHECK} -DLATE=1": "exactly_one_effect",
    f"-DANSWER_FOR_ANY_ATTEMPT {CHECK} {BARE} {THREE}": "exactly_one_effect",
    f"-DNOTHING_GIVEN_BACK -DGUARANTEE=mixed {FAULT}": "at_most_one_effect",
    # Results.
    f"-DDONE_BEFORE_THE_END {ALO}": "done_means_effect",
    f"-DANY_PENDING_ROW -DOPERATOR=1 {ALO} {BARE}": "live_claim_is_left_alone",
    f"-DLATE_SUCCESS_FORGOTTEN -DOPERATOR=1 {ALO} {BARE}": "no_success_is_run_over",
    f"-DLATE_TOUCHES_DONE -DOPERATOR=1 {ALO} {BARE}": "done_stays_done",
    f"-DSPOOL_NOT_POSTED {ALO} {FAULT}": "no_success_is_run_over",
    f"-DSPOOL_READ_ONCE {ALO} {BARE} {FAULT}": "no_run_is_lost",
    f"-DTOKEN_IS_THE_CLOCK {ALO} -DCLOCK=3": "tokens_grow",
}


# ---- the lease: hosts that share only a server -------------------------------------------------

HELD, KEPT, FLUSHED = "-DCRASHES=0", "-DLOSSES=0", "-DFLUSHES=1"
LEASES = ["-DGUARANTEE=cautious", ALO, AMO, CHECK]
LEASE_SAMPLE = [f"{AMO} {KEPT}", f"{ALO} {HELD} {KEPT}", f"{AMO} {HELD}", f"{AMO} {FLUSHED} {HELD} {KEPT}",
                 f"{CHECK} {HELD} {KEPT}", f"{CHECK} -DLATE=1 {HELD} {KEPT}",
                 f"{AMO} -DTTL=3 {HELD} {KEPT}", f"{AMO} {THREE} {HELD} {KEPT}"]
LEASE_ALL = [f"{column} {HELD}" for column in LEASES]
LEASE_ALL += [f"{column} {KEPT}" for column in LEASES]
LEASE_ALL += [f"{CHECK} -DLATE=1 {KEPT}", f"{AMO} {FLUSHED} {KEPT}", f"{AMO} {KEPT} -DRELEASED_FIRST=1",
              f"-DCHECK=2 -DLATE=1 {FLUSHED} {HELD} {KEPT}",
              f"{AMO} {THREE} {HELD} {KEPT}", f"{AMO} {THREE} -DHOSTS=3 {HELD} {KEPT}"]

LEASE_MUTANTS = {
    # Who ends the command, and when.
    f"-DNO_GUARDIAN {ALO} {KEPT}": "one_live_command",
    f"-DKILL_AFTER_THE_END {ALO} {HELD} {KEPT}": "one_live_command",
    f"-DCOUNTED_FROM_THE_REPLY -DTTL=3 {ALO} {HELD} {KEPT}": "no_start_under_another_lease",
    f"-DLEASE_UNREAD_AT_THE_START {ALO} {HELD} {KEPT}": "one_live_command",
    f"-DRENEWALS_OF_THE_DEAD {KEPT}": "lease_of_the_dead_ends",
    # Redis counts by the wall clock.
    f"-DSERVER_CLOCK_STEPS {ALO} {HELD} {KEPT}": "later_start_settles_it",
    # The key.
    f"-DRELEASE_WITHOUT_COMPARE {ALO} {HELD}": "done_stays_done",
    f"-DDELETE_AND_ASK_AGAIN {ALO} {HELD}": "no_start_under_another_lease",
    f"-DANOTHER_VALUE_ON_RETRY -DSTEPS=1 {HELD}": "hold_has_a_cause",
    f"-DNO_UPTIME_RULE {ALO} {FLUSHED} {HELD} {KEPT}": "no_start_under_another_lease",
    f"-DUPTIME_OF_A_SHORTER_LEASE {ALO} {FLUSHED} {HELD} {KEPT}": "no_start_under_another_lease",
    f"-DRENEW_WITHOUT_COMPARE {ALO} {HELD} {KEPT}": "no_start_under_another_lease",
    # The mark.
    f"-DNO_PENDING_MARK {AMO} {KEPT}": "at_most_one_effect",
    f"-DMARK_WITHOUT_KEY {AMO} {HELD}": "at_most_one_effect",
    f"-DSTEPS=1 {AMO} {HELD}": "at_most_one_effect",
    f"-DSTEPS=1 -DFORMER_MARK_FORGOTTEN {HELD}": "hold_has_a_cause",
    f"-DSTEPS=1 -DNO_ROW_IS_NO_START {AMO} {KEPT}": "at_most_one_effect",
    f"-DSTEPS=1 -DGIVEN_UP_AT_ONCE {HELD}": "hold_has_a_cause",
    f"-DOWN_LEDGER_UNREAD {AMO} {FLUSHED} {KEPT}": "one_effect_a_host",
    # Deciding, and results.
    f"-DABSENT_ONCE {CHECK} -DLATE=1 {KEPT}": "exactly_one_effect",
    f"-DDOUBT_ALWAYS_HOLDS {ALO} {KEPT}": "no_run_is_lost",
    f"-DDONE_BEFORE_THE_END {ALO} {HELD} {KEPT}": "done_means_effect",
    f"-DSTRUCK_IS_NOT_ASKED {HELD} {KEPT}": "lost_is_not_done",
    f"-DNEVER_TOLD_AGAIN {HELD}": "result_reaches_the_mark",
    f"-DDONE_ONLY_OVER_ITS_OWN {ALO} {HELD} {KEPT}": "result_reaches_the_mark",
}


class Model:
    """One of them; the test cases below say which."""

    def setUp(self):
        for program in ("spin", "gcc"):
            if shutil.which(program) is None:
                print(f"skipped: {self.id()}: needs {program}, which is not installed",
                      file=sys.stderr)
                self.skipTest(f"needs {program}")
        self.folder = tempfile.mkdtemp(prefix="oncerun-test-model-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_here(self, *argv):
        return subprocess.run(argv, cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def report_of(self, options):
        """What spin's verifier says of the model with these options."""
        made = self.run_here("spin", *options.split(), "-a", str(FOLDER / self.files[0]))
        self.assertEqual(made.returncode, 0, made.stdout)
        # gcc takes seconds for what tcc does in no time; that pays off only in a long search.
        long_search = options in self.all + self.sample and (
            THREE in options or self.long) or "AGAIN" in options
        compiler = ["gcc", "-O2"] if long_search or not shutil.which("tcc") else ["tcc"]
        pack = ["-DCOLLAPSE"] if long_search and TWICE in options else []
        made = self.run_here(*compiler, "-w", "-DSAFETY", f"-DMEMLIM={MEMORY_MIB}", *pack,
                             "-o", "pan", "pan.c")
        self.assertEqual(made.returncode, 0, made.stdout)
        report = self.run_here("./pan", f"-m{DEPTH}", "-w20").stdout
        self.assertRegex(report, r"errors: \d+", options)
        return report

    def broken_promise(self, report):
        """The name of the promise that was broken, or what else spin objects to; None if nothing."""
        if "errors: 0\n" in report:
            return None
        name = re.search(r"assertion violated \(*(\w+)\|\|", report)
        return name.group(1) if name else report

    def states(self, report):
        return int(float(re.search(r"([\d.e+]+) states, stored", report).group(1)))

    def test_the_protocol_keeps_every_promise(self):
        searches, states = (self.all if FULL else self.sample), 0
        for options in searches:
            with self.subTest(options):
                report = self.report_of(options)
                self.assertIsNone(self.broken_promise(report), options)
                self.assertIn("Full statespace search", report)
                for cut_off in ("max search depth too small", "out of memory", "memory limit",
                                "Search not completed", "aborted"):
                    self.assertNotIn(cut_off, report)
                states += self.states(report)
                print(f"model: {self.states(report)} states: {options}", file=sys.stderr)
        print(f"points: {len(searches)} of {len(self.all) if FULL else len(set(self.sample + self.all))} "
              f"searches ({'all' if FULL else 'sample'}), {states} states", file=sys.stderr)

    def test_every_mutation_breaks_its_promise(self):
        for options, promise in self.mutants.items():
            with self.subTest(options):
                broken = self.broken_promise(self.report_of(options))
                if promise is None:
                    self.assertIn(broken, self.promises())
                else:
                    self.assertEqual(broken, promise)
        print(f"points: {len(self.mutants)} of {len(self.mutants)} mutations", file=sys.stderr)

    def text(self):
        return "".join((FOLDER / name).read_text() for name in self.files)

    def promises(self):
        text = self.text()
        return set(re.findall(r"promise\((\w+),", text)) - {"name"}

    def test_no_promise_is_one_that_nothing_can_break(self):
        self.assertEqual(self.promises(), set(self.mutants.values()) - {None})

    def test_each_mutation_of_the_model_is_tried(self):
        text = self.text()
        rules = set(re.findall(r"#if(?:n?def| !defined\()\s*([A-Z_]+)", text))
        values = set(re.findall(r"#define ([A-Z_]+) ", text))
        tried = set(re.findall(r"-D([A-Z_]+)", " ".join(self.mutants)))
        self.assertEqual(rules - values - tried, set())


class OneHost(Model, unittest.TestCase):
    files = ("oncerun.pml", "ledger.pml", "world.pml")
    sample, all, mutants, long = SAMPLE, ALL, MUTANTS, False


class Lease(Model, unittest.TestCase):
    files = ("lease.pml", "server.pml")
    sample, all, mutants, long = LEASE_SAMPLE, LEASE_ALL, LEASE_MUTANTS, True


if __name__ == "__main__":
    unittest.main(verbosity=2)
