"""A crash as a test input: SIGKILL at single system calls of a run, and then the same date again.

strace's fault injection kills oncerun (not its command) as it enters the Nth call of a name. Which
(name, N) there are is taken from a run that nobody disturbs. Of them a sample is tried; all with
ONCERUN_TEST_FULL=1.
"""

import collections
import os
import re
import signal

from oncerun_test import DATE, DONE, EARLIER, HELD, Case, main

CALLS = ("openat", "pwrite64", "write", "fdatasync", "fsync", "fcntl", "flock", "rename",
         "renameat", "renameat2", "linkat", "ftruncate", "close", "unlink", "wait4", "waitid",
         "poll", "ppoll", "clone", "clone3", "vfork", "signalfd4", "pidfd_open", "exit_group")
EFFECT = 'echo e >>"$D/eff"'
HONEST = 'grep -q e "$D/eff" && exit 0; exit 10'
SAMPLE = 20


class KillPoints(Case):
    def setUp(self):
        super().setUp()
        self.need("strace")

    def fresh(self, known):
        """A ledger that is not there yet, or (`known`) one that knows the job and a date of it."""
        self.number = getattr(self, "number", 0) + 1
        self.led, self.st = self.path(f"{self.number}.db"), self.path(f"{self.number}.json")
        self.write(self.path("eff"), "")
        if known:
            self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)

    def points(self, known, **kw):
        """Every (name, N) of an undisturbed run, in the order in which they are passed."""
        self.fresh(known)
        trace = self.path("trace")
        result = self.oncerun(prefix=["strace", "-o", trace, "-e", "trace=" + ",".join(CALLS)],
                              command=EFFECT, **kw)
        self.assertExit(result, DONE)
        counts, found = collections.Counter(), []
        for line in self.lines("trace"):
            match = re.match(r"([a-z0-9_]+)\(", line)
            if match and match.group(1) in CALLS:
                counts[match.group(1)] += 1
                found.append((match.group(1), counts[match.group(1)]))
        self.assertGreater(len(found), 30, "the trace is not what it was thought to be")
        if os.environ.get("ONCERUN_TEST_FULL"):
            return found
        # The loader's calls before the first sync cannot matter; the rest is sampled evenly.
        first = next(i for i, (name, _) in enumerate(found) if name in ("fdatasync", "fsync"))
        late = found[max(0, first - 10):]
        step = max(1, len(late) // SAMPLE)
        syncs = [point for point in late if "sync" in point[0] or point[0].startswith("rename")]
        return sorted(set(late[::step] + syncs), key=found.index)

    def killed_at(self, point, known, *args, **kw):
        """A fresh run that is killed there; returns the number of effects it had."""
        self.fresh(known)
        name, number = point
        result = self.oncerun(*args, command=EFFECT, **kw, prefix=[
            "strace", "-o", os.devnull, "-e", f"trace={name}", "-e",
            f"inject={name}:signal=KILL:when={number}"])
        self.assertIn(result.returncode, (-signal.SIGKILL, 128 + signal.SIGKILL, DONE),
                      result.stderr)
        self.wait_quiet()
        effects = len(self.lines("eff"))
        self.assertLessEqual(effects, 1)
        return effects

    def settled(self, last=DATE):
        self.assertEqual(self.lines("eff"), ["e"])
        self.assertEqual(self.state().get("lastPublishedDate"), last)

    def honest_check(self, known=False, **kw):
        for point in self.points(known, **kw):
            with self.subTest(point=point):
                self.killed_at(point, known, **kw)
                for _ in range(2):
                    again = self.oncerun("-g", "at-most-once", check=HONEST, command=EFFECT, **kw)
                    self.assertExit(again, DONE)
                    self.settled()

    def test_an_honest_check_gives_one_effect_in_the_first_run_ever(self):
        self.honest_check()

    def test_an_honest_check_gives_one_effect_in_a_later_run(self):
        self.honest_check(known=True)

    def test_an_honest_check_gives_one_effect_without_a_ledger(self):
        self.honest_check(ledger="none")

    def test_at_most_once_without_a_check(self):
        for point in self.points(True):
            with self.subTest(point=point):
                before = self.killed_at(point, True)
                again = self.oncerun("-g", "at-most-once", command=EFFECT)
                self.assertIn(again.returncode, (DONE, HELD), again.stderr)
                self.assertLessEqual(len(self.lines("eff")), 1)
                if again.returncode == DONE:
                    self.settled()
                else:
                    self.assertEqual(len(self.lines("eff")), before)

    def test_at_least_once_without_a_check(self):
        for point in self.points(True):
            with self.subTest(point=point):
                self.killed_at(point, True)
                again = self.oncerun("-g", "at-least-once", command=EFFECT)
                self.assertExit(again, DONE)
                self.assertGreaterEqual(len(self.lines("eff")), 1)
                self.assertStatus("done")
                effects = self.lines("eff")
                self.assertExit(self.oncerun("-g", "at-least-once", command=EFFECT), DONE)
                self.assertEqual(self.lines("eff"), effects)


if __name__ == "__main__":
    main()
