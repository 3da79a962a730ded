"""--retries: further attempts in one invocation; the run stays owned in between."""

import os
import signal
import time

from oncerun_test import (ABSENT, BLOCKED, BUSY, DATE, DONE, HELD, NEXT, PRESENT, UNCLEAR, USAGE,
                          Case, main)


class Retries(Case):
    def setUp(self):
        super().setUp()
        # Fails until it has run $1 times.
        self.flaky = self.script("flaky", """
            echo "$ONCERUN_ATTEMPT $ONCERUN_PREVIOUS $ONCERUN_KEY $ONCERUN_RUN_ID" >>"$D/runs"
            test "$(wc -l <"$D/runs")" -ge "$1" || exit "${2:-3}"
        """)

    def test_until_it_succeeds(self):
        result = self.oncerun("--retries", "5", "--retry-delay", "0.05s",
                              command=[self.flaky, "3"])
        self.assertExit(result, DONE)
        told = [line.split() for line in self.lines("runs")]
        self.assertEqual([line[0] for line in told], ["1", "2", "3"])
        self.assertEqual([line[1] for line in told], ["none", "failed", "failed"])
        self.assertEqual(len({line[2] for line in told}), 1)
        self.assertEqual(len({line[3] for line in told}), 3)
        self.assertStatus("done")
        self.assertEqual(self.row()["attempts"], 3)
        self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def test_until_they_are_used_up(self):
        result = self.oncerun("--retries", "2", "--retry-delay", "0.05s",
                              command=[self.flaky, "9", "7"])
        self.assertExit(result, 7)
        self.assertEqual(self.runs(), 3)
        self.assertStatus("failed")

    def test_none_by_default(self):
        self.assertExit(self.oncerun(command=[self.flaky, "9"]), 3)
        self.assertEqual(self.runs(), 1)

    def test_the_delay_grows(self):
        begun = time.monotonic()
        self.oncerun("--retries", "4", "--retry-delay", "0.1s", command=[self.flaky, "9"])
        # At least half of 0.1, 0.2, 0.4 and 0.8 s; were it not doubled, 0.4 s would be the most.
        self.assertGreaterEqual(time.monotonic() - begun, 0.7)
        self.assertEqual(self.runs(), 5)

    def test_not_after_a_run_that_was_cut_short(self):
        for guarantee in ("cautious", "at-most-once"):
            check = ABSENT if guarantee == "at-most-once" else None
            date = NEXT if check else DATE
            result = self.oncerun("--retries", "3", "--retry-delay", "0.05s", "-g", guarantee,
                                  check=check, date=date,
                                  command='echo run >>"$D/runs"; kill -9 $$')
            self.assertExit(result, 137)
            self.assertStatus("unknown", date=date)
        self.assertEqual(self.runs(), 2)

    def between(self, lock, *args):
        """An invocation that waits for its second attempt."""
        owner = self.start("--lock", lock, "--retries", "1", "--retry-delay", "60s", *args,
                           command=[self.flaky, "9"])
        self.wait_for(lambda: (self.row() or {}).get("status") == "failed",
                      what="the first attempt")
        self.assertIsNone(owner.poll())
        return owner

    def test_owned_in_between_with_flock(self):
        owner = self.between("flock")
        self.assertExit(self.oncerun("-g", "at-least-once"), BUSY)
        self.assertExit(self.oncerun(date=NEXT), BLOCKED)
        self.assertEqual(self.runs(), 1)
        self.assertIsNone(owner.poll())

    def test_owned_in_between_without_a_lock(self):
        owner = self.between("none")
        self.assertExit(self.oncerun("--lock", "none", "-g", "at-least-once", check=ABSENT), BUSY)
        self.assertEqual(self.runs(), 1)
        self.assertIsNone(owner.poll())

    def test_killed_in_between_is_failed_and_free(self):
        owner = self.between("flock")
        owner.kill_now()
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 2)

    def test_the_pause_ends_with_a_signal(self):
        for number, date in ((signal.SIGTERM, DATE), (signal.SIGINT, NEXT)):
            self.date = date
            owner = self.between("flock")
            owner.send_signal(number)
            self.assertExit(owner.end(timeout=1.5), 128 + number)
            self.assertStatus("failed")
        self.assertEqual(self.runs(), 2)

    def test_at_most_once_without_a_check_is_usage(self):
        result = self.oncerun("-g", "at-most-once", "--retries", "1", command=[self.flaky, "2"])
        self.assertExit(result, USAGE)
        self.assertEqual(self.runs(), 0)
        self.assertIsNone(self.row())

    def test_a_check_is_asked_before_each_retry(self):
        for guarantee, date in (("at-most-once", DATE), ("cautious", NEXT)):
            with self.subTest(guarantee=guarantee):
                for name in ("runs", "asked"):
                    self.write(self.path(name), "")
                result = self.oncerun("-g", guarantee, "--retries", "5", "--retry-delay", "0.05s",
                                      date=date, check='echo asked >>"$D/asked"; exit 10',
                                      command=[self.flaky, "3"])
                self.assertExit(result, DONE)
                self.assertEqual((self.runs(), len(self.lines("asked"))), (3, 2))

    def test_a_check_that_finds_it_done_ends_the_retries(self):
        result = self.oncerun("-g", "at-most-once", "--retries", "5", "--retry-delay", "0.05s",
                              check=PRESENT, command=[self.flaky, "9"])
        self.assertExit(result, DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")

    def test_a_check_that_does_not_know_ends_the_retries(self):
        result = self.oncerun("-g", "at-most-once", "--retries", "5", "--retry-delay", "0.05s",
                              check=UNCLEAR, command=[self.flaky, "9"])
        self.assertIn(result.returncode, (HELD, 3), result.stderr)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("failed")

    def test_a_ledger_that_is_gone_by_then_ends_the_retries(self):
        """What is known of the first attempt is the outcome: it was started, and it failed."""
        owner = self.start("--retries", "1", "--retry-delay", "3s", "--report", self.path("report"),
                           command=[self.flaky, "9"])
        self.wait_for(lambda: (self.row() or {}).get("status") == "failed",
                      what="the first attempt")
        os.rename(self.led, self.path("elsewhere"))
        result = owner.end()
        self.assertExit(result, 3, self.led)
        self.assertEqual(self.runs(), 1)
        report = self.state(self.path("report"))
        self.assertEqual((report["started"], report["exit_code"]), (True, 3))

    def test_a_command_that_is_gone_by_then_ends_the_retries(self):
        """A retry that could not be started changes nothing about what the first attempt was."""
        vanishing = self.script("vanishing", 'echo run >>"$D/runs"; rm "$0"; exit 3\n')
        result = self.oncerun("--retries", "1", "--retry-delay", "0.1s", "--report",
                              self.path("report"), command=[vanishing])
        self.assertExit(result, 3, vanishing)
        report = self.state(self.path("report"))
        self.assertEqual((report["started"], report["exit_code"], report["outcome"]),
                         (True, 3, "command"))
        self.assertStatus("failed")
        self.assertExit(self.oncerun("-g", "at-most-once"), HELD)
        self.assertEqual(self.runs(), 1)

    def test_a_signal_in_between_does_not_undo_the_start(self):
        owner = self.between("flock", "--report", self.path("report"))
        owner.terminate()
        self.assertExit(owner.end(timeout=5), 143)
        report = self.state(self.path("report"))
        self.assertEqual((report["started"], report["exit_code"], report["outcome"]),
                         (True, 143, "signalled"))
        self.assertStatus("failed")

    def test_what_check_after_calls_absent_is_retried(self):
        result = self.oncerun("--check-after", "--retries", "3", "--retry-delay", "0.05s",
                              check='test $(wc -l <"$D/runs") -ge 2 && exit 0; exit 10')
        self.assertExit(result, DONE)
        self.assertEqual(self.runs(), 2)
        self.assertStatus("done")


if __name__ == "__main__":
    main()
