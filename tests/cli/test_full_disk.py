"""S04: a full disk ends before the start, or the result is kept; never half a file."""

import json
import os

from oncerun_test import DATE, DONE, EARLIER, UNRECORDED, UNWRITABLE, Case, main


class FullDisk(Case):
    def setUp(self):
        super().setUp()
        self.private_mounts()
        os.mkdir(self.path("t"))
        self.mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", self.path("t"))
        self.led = self.path("t/led.db")
        self.st = self.path("t/st.json")
        self.fill_script = self.script(
            "fill", 'cat /dev/zero >"$D/t/fill" 2>/dev/null; exit 0\n')

    def fill(self):
        self.spawn([self.fill_script]).end()
        self.assertEqual(os.statvfs(self.path("t")).f_bavail, 0)

    def free(self):
        os.unlink(self.path("t/fill"))

    def whole(self):
        """The state file is valid, and no stray temporary file is left beside it."""
        self.assertIsInstance(json.loads(self.read(self.st)), dict)
        stray = [name for name in os.listdir(self.path("t"))
                 if not name.startswith(("led.db", "st.json", "fill"))]
        stray += [name for name in os.listdir(self.path("t"))
                  if name.startswith("st.json.") and not name.startswith("st.json.lock")]
        self.assertEqual(stray, [])

    def full_before(self, ledger):
        self.assertExit(self.oncerun(date=EARLIER, ledger=ledger), DONE)
        self.fill()
        before = self.read(self.st)
        for _ in range(3):
            result = self.oncerun(ledger=ledger)
            self.assertExit(result, UNWRITABLE)
            self.assertIn("hint:", result.stderr)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.read(self.st), before)
        self.whole()
        self.free()
        self.assertExit(self.oncerun("-g", "at-most-once", ledger=ledger), DONE)
        self.assertExit(self.oncerun("-g", "at-most-once", ledger=ledger), DONE)
        self.assertEqual(self.runs(), 2)

    def test_S04_full_before_the_start(self):
        self.full_before(self.led)

    def test_S04_full_before_the_start_without_a_ledger(self):
        self.full_before("none")

    def filled_by_the_job(self, ledger, code=0):
        self.assertExit(self.oncerun(date=EARLIER, ledger=ledger), DONE)
        result = self.oncerun("--record-timeout", "2s", ledger=ledger,
                              command=f'"$D/hit"; "$D/fill"; exit {code}')
        self.assertIn(result.returncode, (code, UNRECORDED), result.stderr)
        if result.returncode == UNRECORDED:
            self.assertIn(self.date, result.stderr)
            self.assertIn("spool", result.stderr)
        self.whole()
        self.free()
        after = self.oncerun(ledger=ledger)
        self.assertExit(after, DONE)
        self.assertEqual(self.runs(), 2 if code == 0 else 3)
        self.assertEqual(self.state()["lastPublishedDate"], DATE)
        self.whole()
        return result

    def test_S04_the_job_fills_it(self):
        self.filled_by_the_job(self.led)
        self.assertStatus("done")

    def test_S04_the_job_fills_it_and_fails(self):
        self.filled_by_the_job(self.led, 3)
        self.assertStatus("done")

    def test_S04_the_job_fills_it_without_a_ledger(self):
        self.assertExit(self.filled_by_the_job("none"), DONE)

    def test_S04_the_first_run_ever_fills_it(self):
        result = self.oncerun("--record-timeout", "2s", command='"$D/hit"; "$D/fill"')
        self.assertIn(result.returncode, (DONE, UNRECORDED), result.stderr)
        self.free()
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_S04_a_skip_on_a_full_disk(self):
        self.assertExit(self.oncerun(), DONE)
        self.fill()
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)

    def test_S04_full_before_the_first_run_ever(self):
        self.fill()
        self.assertExit(self.oncerun(), UNWRITABLE)
        self.assertEqual(self.runs(), 0)
        self.free()
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)


if __name__ == "__main__":
    main()
