"""--explain: what was found, what would be done and why; it starts, asks, locks and changes nothing."""

import json
import os

from oncerun_test import DATE, DONE, Case, main


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

    def test_a_first_run(self):
        text = self.explained()
        self.assertIn("settle", text)
        self.assertIn(DATE, text)
        self.assertIn("start", text)

    def test_a_done_date(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertIn("done", self.explained())

    def test_a_busy_date_and_another(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        self.assertIn(str(owner.pid), self.explained())
        self.assertIn("lock", self.explained(date="2024-10-27"))
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_a_failed_and_an_unknown_run(self):
        self.assertExit(self.oncerun(command="exit 3"), 3)
        self.assertIn("failed", self.explained())
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        text = self.explained()
        self.assertIn("unknown", text)
        self.assertIn("check", text)

    def test_a_dead_owner(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        owner.kill_now()
        self.assertIn("orphaned", self.explained())
        gate.go()
        self.wait_quiet()
        self.explained()
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


if __name__ == "__main__":
    main()
