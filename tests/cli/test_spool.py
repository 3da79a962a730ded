"""A result that the ledger cannot take is kept, said, and posted by the next start."""

import fcntl
import os
import sqlite3
import time

from oncerun_test import DATE, DONE, EARLIER, HELD, NEXT, UNRECORDED, Case, main


class Spool(Case):
    def unrecorded(self, code, *args, command=None, **kw):
        """A run whose ledger is held by somebody else from before its end until after it."""
        gate = self.gate(f"gate{len(os.listdir(self.dir))}")
        owner = self.start("--record-timeout", "0.5s", *args,
                           command=f'echo run >>"$D/runs"; {gate.shell}; '
                                   f'{command or f"exit {code}"}', **kw)
        gate.wait_started()
        connection = sqlite3.connect(self.led, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        gate.go()
        result = owner.end(timeout=20)
        connection.execute("ROLLBACK")
        connection.close()
        self.assertExit(result, UNRECORDED)
        self.assertStatus("pending")
        return result

    def test_a_success_is_posted_by_the_next_start(self):
        result = self.unrecorded(0)
        self.assertIn("spool", result.stderr)
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")
        self.assertEqual(self.row()["attempts"], 1)
        self.assertEqual(self.row()["exit_code"], 0)

    def test_a_success_is_posted_by_a_start_of_another_date(self):
        self.unrecorded(0)
        self.assertExit(self.oncerun(date=NEXT), DONE)
        self.assertStatus("done")
        self.assertEqual(self.state()["lastPublishedDate"], NEXT)
        self.assertNotIn(self.state()["status"], ("pending", "unknown"))

    def test_a_success_is_posted_by_another_jobs_start(self):
        self.unrecorded(0)
        self.assertExit(self.oncerun(job="another", state=None), DONE)
        self.assertStatus("done")

    def test_a_failure_is_posted_and_decided_on(self):
        self.unrecorded(3)
        self.assertExit(self.oncerun("-g", "at-most-once"), HELD)
        self.assertStatus("failed")
        self.assertEqual(self.row()["exit_code"], 3)
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertEqual(self.row()["attempts"], 2)

    def test_a_run_that_was_cut_short_is_posted_as_such(self):
        self.unrecorded(137, command="kill -9 $$")
        self.assertExit(self.oncerun(), HELD)
        self.assertEqual(self.runs(), 1)
        self.assertIn(self.row()["status"], ("unknown", "pending"))

    def test_a_result_that_comes_while_a_start_decides_is_not_run_over(self):
        # The start has read the spool and holds the ledger, so that the owner cannot record: it
        # spools its success and is gone when the start looks whether it lives.
        self.need("strace")
        gate = self.gate()
        owner = self.start("--lock", "none", "--record-timeout", "0.3s", state=None,
                           command=f'echo run >>"$D/runs"; {gate.shell}')
        gate.wait_started()
        pause = ["strace", "-o", os.devnull, "-P", self.led + "-spool", "-e", "trace=close",
                 "-e", "inject=close:delay_enter=2000000:when=1"]
        start = self.start("--lock", "none", "--wait", "20s", "-g", "at-least-once", state=None,
                           prefix=pause)
        self.wait_for(lambda: self._holds_ledger(start), what="the start to hold the ledger")
        gate.go()
        self.assertExit(owner.end(), UNRECORDED)
        self.assertIsNone(start.poll(), "the pause was over before the result was spooled")
        self.assertExit(start.end(), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")
        self.assertEqual(self.row()["late_success"], 0)

    def _holds_ledger(self, start):
        """Whether the guard is held for longer than a write takes."""
        self.assertIsNone(start.poll(), "the start ended")
        with open(self.led + "-guard", "rb") as guard:
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                try:
                    fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.01)
                    continue
                fcntl.flock(guard, fcntl.LOCK_UN)
                return False
        return True

    def test_each_result_is_posted_once(self):
        self.unrecorded(0)
        self.assertExit(self.oncerun(date=NEXT), DONE)
        self.assertExit(self.resolve("--ready"), 0)
        self.assertExit(self.oncerun(command='echo again >>"$D/runs"; exit 3'), 3)
        self.assertExit(self.oncerun(date=EARLIER), DONE)
        self.assertStatus("failed")

    def test_two_results_of_two_jobs(self):
        self.unrecorded(0)
        first, self.job, self.st = self.job, "second", self.path("st2.json")
        # The first is posted at this claim.
        self.unrecorded(3)
        self.assertStatus("done", job=first)
        self.assertExit(self.oncerun(job="third", state=None), DONE)
        self.assertStatus("failed", job="second")

    def test_a_spool_of_the_users_own(self):
        os.mkdir(self.path("spool"))
        result = self.unrecorded(0, "--spool", self.path("spool"))
        self.assertIn(self.path("spool"), result.stderr)
        self.assertTrue(os.listdir(self.path("spool")))
        self.assertExit(self.oncerun("--spool", self.path("spool")), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")

    def test_without_a_spool_it_is_said_and_held(self):
        result = self.unrecorded(0, "--spool", "none")
        self.assertIn(self.job, result.stderr)
        self.assertIn(self.date, result.stderr)
        self.assertExit(self.oncerun("--spool", "none"), HELD)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("pending")

    def test_the_state_file_does_not_say_done_before_the_ledger_does(self):
        self.unrecorded(0)
        state = self.state()
        self.assertNotEqual(state.get("lastPublishedDate"), DATE)
        self.assertEqual(state["pendingDate"], DATE)

    def test_a_spool_with_foreign_bytes_is_not_believed(self):
        self.unrecorded(3)
        names = [name for name in os.listdir(self.dir) if "spool" in name]
        self.assertEqual(len(names), 1)
        path = self.path(names[0])
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.write(b"\xa5" * size)
        result = self.oncerun()
        self.assertExit(result, HELD, path)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("pending")

    def test_a_slot_that_cannot_be_read_is_said_and_stops_nobody(self):
        self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)
        spool = self.led + "-spool"
        with open(spool, "r+b") as file:
            file.seek(512)
            file.write(b"\xa5" * 512)
        result = self.oncerun()
        self.assertExit(result, DONE)
        self.assertEqual(len([line for line in result.stderr.splitlines() if spool in line]), 1,
                         result.stderr)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.read(spool)[512:1024], b"\xa5" * 512, "evidence is not wiped")

    def deleted_in_mid_run(self, folder, *args):
        """It must not be said to be kept where it is not."""
        gate = self.gate()
        owner = self.start("--record-timeout", "0.5s", *args, command=gate.shell)
        gate.wait_started()
        names = [name for name in os.listdir(folder) if "spool" in name]
        self.assertEqual(len(names), 1)
        spool = os.path.join(folder, names[0])
        os.unlink(spool)
        connection = sqlite3.connect(self.led, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        gate.go()
        result = owner.end(timeout=20)
        connection.execute("ROLLBACK")
        connection.close()
        self.assertExit(result, UNRECORDED)
        kept = spool in result.stderr and "nowhere" not in result.stderr
        self.assertExit(self.oncerun(*args), DONE if kept else HELD)
        self.assertEqual(self.runs(), 0)

    def test_a_spool_that_was_deleted_in_mid_run(self):
        self.deleted_in_mid_run(self.dir)

    def test_a_spool_of_the_users_own_that_was_deleted_in_mid_run(self):
        os.mkdir(self.path("mine"))
        self.deleted_in_mid_run(self.path("mine"), "--spool", self.path("mine"))

    def test_the_signal_that_ends_the_recording(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        connection = sqlite3.connect(self.led, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        pid = owner.pid
        gate.go()
        self.wait_for(lambda: self.processes() == [pid], what="the command's end")
        owner.terminate()
        result = owner.end(timeout=3)
        connection.execute("ROLLBACK")
        connection.close()
        # The stop came while the run may still have been one; what is known is kept all the same.
        self.assertExit(result, UNRECORDED)
        self.oncerun(date=NEXT)
        self.assertIn(self.row()["status"], ("done", "unknown"))


if __name__ == "__main__":
    main()
