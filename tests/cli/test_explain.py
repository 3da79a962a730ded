"""--explain: what was found, what would be done and why; it starts, asks, locks and changes nothing."""

import json
import os
import re

from oncerun_test import CONFIG, DATE, DONE, Case, main


class Explain(Case):
    ASKED = 'echo asked >>"$D/asked"; exit 10'

    def explained(self, *args, **kw):
        """What --explain prints, after proving that nothing came of it."""
        kw.setdefault("command", 'echo run >>"$D/runs"')
        files = [name for name in os.listdir(self.dir)]
        before = self.snapshot(*files)
        runs = self.runs()
        done = self.oncerun("--explain", *args, check=self.ASKED, **kw)
        self.assertEqual(self.snapshot(), before)
        self.assertEqual(self.runs(), runs)
        self.assertEqual(self.lines("asked"), [])
        self.assertExit(done, DONE)
        return done.stdout

    def fact(self, name, *args, **kw):
        """One line of what is explained, without its label."""
        lines = [line for line in self.explained(*args, **kw).splitlines()
                 if line.startswith(name + " ")]
        self.assertEqual(len(lines), 1)
        return lines[0][len(name):].strip()

    def test_a_first_run(self):
        self.assertEqual(self.fact("job"), "settle")
        self.assertEqual(self.fact("date"), DATE)
        self.assertEqual(self.fact("run"), "no run yet")
        self.assertEqual(self.fact("a start"), "starts the command: it was never started")
        self.assertTrue(self.fact("a start", "--check-first").startswith("asks the check first: "))

    def test_a_done_date(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertTrue(self.fact("run").startswith("done since "))
        self.assertEqual(self.fact("a start"), "starts nothing (exit 0): it is done")
        self.assertTrue(self.fact("a start", "--rerun").startswith("starts the command anew: "))

    def test_a_busy_date_and_another(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        self.at_rest(self.snapshot)
        self.assertIn(str(owner.pid), self.fact("run"))
        self.assertTrue(self.fact("a start").startswith("starts nothing (exit 75): "))
        lock = self.fact("lock", date="2024-10-27")
        self.assertIn(f", held for {DATE} by ", lock)
        self.assertIn(f":{owner.pid} ", lock)
        self.assertTrue(self.fact("a start", date="2024-10-27").startswith("is locked out; "))
        self.assertTrue(self.fact("a start", "--wait", "1", date="2024-10-27").startswith(
            "waits for the lock; then starts the command: "))
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertTrue(self.fact("lock", date="2024-10-27").endswith(", free"))

    def test_a_failed_and_an_unknown_run(self):
        self.assertExit(self.oncerun(command="exit 3"), 3)
        self.assertRegex(self.fact("run"), r"^failed since .*exit 3")
        self.assertEqual(self.fact("a start"), "asks the check first: the last attempt failed")
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        self.assertRegex(self.fact("run"), r"^unknown since .*KILL")
        self.assertTrue(self.fact("a start").startswith(
            "asks the check first: the last attempt was cut short"))

    def test_without_a_check_it_holds(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        for guarantee, words in (("cautious", "holds (exit 80): "),
                                 ("at-least-once", "starts the command: "),
                                 ("at-most-once", "holds (exit 80): ")):
            with self.subTest(guarantee=guarantee):
                text = self.oncerun("--explain", "-g", guarantee).stdout
                self.assertRegex(text, r"(?m)^a start +" + re.escape(words))

    def test_a_dead_owner(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        owner.kill_now()
        self.assertRegex(self.fact("run"), "^orphaned since ")
        gate.go()
        self.wait_quiet()
        self.assertRegex(self.fact("run"), "^unknown since .*its owner is gone")
        self.assertStatus("pending")

    def test_it_takes_no_lock(self):
        gate = self.gate()
        explaining = self.start("--explain", command=gate.shell)
        self.assertExit(explaining.end(), DONE)
        self.assertFalse(gate.has_started())
        self.assertFalse(os.path.exists(self.led + "-locks"))

    def test_for_programs(self):
        self.assertExit(self.oncerun(), DONE)
        document = json.loads(self.explained("--json"))
        self.assertEqual(document["run"]["job"], "settle")
        self.assertEqual(document["run"]["biz_date"], DATE)
        self.assertEqual(document["run"]["status"], "done")
        self.assertEqual(document["action"], "leave")

    def test_no_report_is_written(self):
        """Nothing happened that could be reported, and an older report stays."""
        report = self.path("report")
        self.explained("--report", report)
        self.assertFalse(os.path.exists(report))
        self.assertExit(self.oncerun("--report", report), DONE)
        before = self.snapshot()
        self.explained("--report", report)
        self.assertEqual(self.read(report), before["report"][-1])
        folder = self.oncerun("--explain", "--report", report, ledger=self.dir, state=None)
        self.assertExit(folder, CONFIG)
        self.assertEqual(self.snapshot(), before)


if __name__ == "__main__":
    main()
