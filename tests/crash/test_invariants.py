"""The invariants can fail: each is shown a world in which its promise is broken, and must name itself."""

import json
import os
import sqlite3
import subprocess

from crash import BOTH, LEDGER, STATE, Column, CrashCase, main
from invariants import Invariants, Mark
from oncerun_test import BUSY, DONE, HELD, UNWRITABLE
from system_calls import Point


class Broken(CrashCase):
    def setUp(self):
        super().setUp()
        self.build(Column("broken", BOTH))

    def build(self, column):
        """A world in which one plain run has gone well."""
        self.column = column
        self.prepare(column)
        self.before = self.judge().look()
        self.assertExit(self.plain(column), DONE)
        self.now = self.judge().look()

    def judge(self, usual=()):
        return Invariants(self, self.column, Point("write", 7), usual)

    def fails(self, name, act, *args):
        with self.assertRaises(AssertionError) as raised:
            act(*args)
        message = str(raised.exception)
        self.assertTrue(message.startswith(f"{name}: column broken, "), message)
        self.assertIn("point write#7", message)

    def note(self, name, *lines):
        self.write(os.path.join(self.w, name), "".join(line + "\n" for line in lines))

    def spoil(self, change):
        """Changes the row of the run."""
        self.assertEqual(1, self.execute(f"UPDATE job_run SET {change} WHERE job_name = ? AND "
                                         "biz_date = ?", self.job, self.date))

    @staticmethod
    def ended(code):
        return subprocess.CompletedProcess([], code, "", "")

    def after(self, code):
        self.judge().after(self.before, self.ended(code), self.now)

    def test_a_sound_world_passes(self):
        self.judge([self.read(self.st)]).at_the_kill(self.before)
        self.after(DONE)
        self.judge().done_never_changes(self.now, self.ended(DONE))

    def test_two_trees(self):
        self.note("overlaps", "a-run")
        self.fails("one live command tree per run", self.judge().always, self.before)

    def test_a_start_beside_a_living_command(self):
        self.fails("one live command tree per run", self.judge().busy, self.ended(DONE), BUSY, self.now)
        self.fails("one live command tree per run", self.judge().busy, self.ended(BUSY), BUSY, self.before)

    def test_a_start_without_its_mark(self):
        name = "every start has a durable pending with its token before it"
        run_id, token, date, row, state = self.now.starts[0].split("|", 4)
        for broken in ((run_id, token, date, "", state),
                       (run_id, token, date, f"done {run_id} {token}", state),
                       (run_id, str(int(token) + 1), date, row, state),
                       (run_id, token, date, row, ""), (run_id, token, "2024-10-01", row, state)):
            self.note("starts", "|".join(broken))
            self.fails(name, self.judge().always, self.before)

    def test_a_start_whose_state_file_names_another_token(self):
        self.build(Column("broken", STATE))
        run_id, token, date, row, state = self.now.starts[0].split("|", 4)
        self.note("starts", "|".join((run_id, str(int(token) + 1), date, row, state)))
        self.fails("every start has a durable pending with its token before it", self.judge().always,
                   self.before)

    def test_tokens_that_stand_still(self):
        self.note("starts", self.now.starts[0], self.now.starts[0])
        self.fails("tokens grow strictly", self.judge().always, self.before)
        self.note("starts", self.now.starts[0])
        self.execute("UPDATE job_attempt SET fencing_token = 1 WHERE biz_date = ?", self.date)
        self.fails("tokens grow strictly", self.judge().always, self.before)

    def test_a_damaged_ledger(self):
        self.execute("CREATE TABLE extra (a TEXT)")
        self.execute("INSERT INTO extra VALUES (NULL)")
        connection = sqlite3.connect(self.led)
        with connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_schema SET sql = 'CREATE TABLE extra (a TEXT NOT NULL)' "
                               "WHERE name = 'extra'")
        connection.close()
        self.fails("integrity_check is ok", self.judge().always, self.before)

    def test_another_row(self):
        self.execute("UPDATE job_run SET attempts = 9 WHERE biz_date <> ?", self.date)
        self.fails("other rows are untouched", self.judge().always, self.before)

    def test_a_start_without_a_claim(self):
        self.execute("DELETE FROM job_run WHERE biz_date = ? AND job_name = ?", self.date, self.job)
        self.fails("no claim, no start", self.judge().at_the_kill, self.before)

    def test_done_out_of_nothing(self):
        self.note("ends")
        self.fails("done only after exit 0 was observed, or check, resolve or the command said so",
                   self.judge().at_the_kill, self.before)

    def test_a_torn_state_file(self):
        whole = self.read(self.st)
        for torn in (b"", whole[:40], whole + whole, b"{}"):
            self.write(self.st, torn)
            self.fails("the state file is wholly old or wholly new", self.judge([whole]).state_whole)

    def test_a_code_that_needs_surgery(self):
        self.fails("nothing needs SQL surgery: one later invocation ends done or held", self.after,
                   UNWRITABLE)
        self.fails("nothing needs SQL surgery", self.judge().a_hold_can_be_ended, self.ended(HELD))

    def test_success_that_is_not_recorded(self):
        self.spoil("status = 'unknown'")
        self.fails("exit 0 if and only if done is recorded", self.after, DONE)

    def test_a_state_file_behind_the_ledger(self):
        document = self.state()
        document["lastPublishedDate"] = "2024-10-01"
        self.write(self.st, json.dumps(document))
        self.fails("exit 0 if and only if done is recorded", self.after, DONE)

    def test_a_hold_that_changes_something(self):
        self.spoil("status = 'unknown'")
        self.fails("a hold changes nothing", self.after, HELD)

    def test_two_effects(self):
        self.note("eff", "e1", "e1")
        self.fails("at-most-once: effect <= 1", self.after, DONE)
        self.column.checked = True
        self.fails("with an honest check: effect exactly 1 and done", self.after, DONE)

    def test_no_effect(self):
        self.note("eff")
        self.fails("done only with its effect", self.after, DONE)
        self.column.guarantee = "at-least-once"
        self.fails("at-least-once: effect >= 1, ends done", self.after, DONE)
        self.column.checked = True
        self.fails("with an honest check: effect exactly 1 and done", self.after, DONE)

    def test_a_hold_of_what_was_never_claimed(self):
        self.note("eff")
        self.fails("what was never claimed is not in doubt", self.judge().nothing_claimed_nothing_held,
                   self.now, self.ended(HELD))

    def test_done_that_changes(self):
        self.spoil("fencing_token = fencing_token + 1")
        self.fails("done never changes but by --rerun or resolve", self.judge().done_never_changes,
                   self.now, self.ended(DONE))

    def test_a_temporary_file(self):
        self.note(".st.json.oncerun-abc123")
        self.fails("no temporary file remains after the next run", self.judge().no_temporary_files)

    def test_a_lost_compare_and_set(self):
        self.build(Column("broken", LEDGER))
        run_id, token = self.now.starts[0].split("|")[:2]
        seen = self.now._replace(mark=Mark("pending", run_id, int(token), 1))
        self.judge().lost_compare_and_set(seen, {"done"})
        for mark in (Mark("done", run_id, int(token), 1), Mark("failed", "another", int(token) + 1, 1),
                     Mark("done", "another", int(token) + 2, 1)):
            self.fails("a lost compare-and-set changes nothing", self.judge().lost_compare_and_set,
                       seen._replace(mark=mark), {"done"})

    def test_a_held_run_that_had_its_effect(self):
        self.fails("a command that finishes its own run: effect exactly 1", self.judge().no_effect_is_held,
                   self.now)

    def test_half_a_subcommand(self):
        self.fails("a subcommand does its work wholly or not at all", self.judge().resolved_or_not,
                   None, self.now, "skipped")
        self.fails("what was decided by hand is what happens", self.judge().started, 0, self.before,
                   self.now)


if __name__ == "__main__":
    main()
