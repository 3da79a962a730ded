"""--report: the outcome as one JSON object, written atomically, never at the cost of the job."""

import json
import os
import sqlite3

from oncerun_test import (BLOCKED, BUSY, CONFIG, DATE, DONE, HELD, NOT_FOUND, TIMEOUT, UNCONFIRMED,
                          UNRECORDED, Case, main)


class Report(Case):
    def test_a_wrong_command_line_is_reported_too(self):
        report = self.path("usage.json")
        result = self.oncerun("--report", report, "--exit", "usage=5", date="2023-02-29",
                              state=None, command=["true"])
        self.assertExit(result, 5)
        with open(report, encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual((told["outcome"], told["exit_code"], told["started"]),
                         ("usage", 5, False))
        self.assertIn("2023-02-29", told["reason"])

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("reports"))
        self.file = self.path("reports/report.json")

    def told(self, *args, exits, **kw):
        """The report of one call that ends with that code."""
        self.write(self.file, "of an earlier start")
        self.assertExit(self.oncerun("--report", self.file, *args, **kw), exits)
        self.assertEqual(os.listdir(self.path("reports")), ["report.json"], "a temporary file stays")
        report = json.loads(self.read(self.file))
        self.assertEqual(report["exit_code"], exits)
        self.assertEqual(report["job"], kw.get("job", "settle"))
        self.assertEqual(report["biz_date"], kw.get("date", DATE))
        return report

    def test_a_run(self):
        report = self.told(exits=DONE, command='echo "$ONCERUN_RUN_ID $ONCERUN_TOKEN $ONCERUN_KEY" '
                                               '>"$D/seen"')
        run_id, token, key = self.lines("seen")[0].split()
        self.assertEqual(report["outcome"], "done")
        self.assertIs(report["started"], True)
        self.assertEqual(report["status"], "done")
        self.assertEqual(report["run_id"], run_id)
        self.assertEqual(report["token"], int(token))
        self.assertEqual(report["key"], key)
        self.assertEqual(report["attempt"], 1)
        self.assertEqual(report["generation"], 1)
        self.assertEqual(report["previous"], "none")

    def test_a_skip_is_told_from_a_run(self):
        self.assertExit(self.oncerun(), DONE)
        report = self.told(exits=DONE)
        self.assertEqual((report["outcome"], report["started"], report["status"]),
                         ("done", False, "done"))

    def test_a_skipped_date_is_told_from_a_done_one(self):
        self.assertExit(self.oncerun(command="exit 3"), 3)
        self.assertExit(self.resolve("--skip"), DONE)
        report = self.told(exits=DONE)
        self.assertEqual((report["outcome"], report["started"], report["status"]),
                         ("done", False, "skipped"))

    def test_the_commands_own_code_is_told_from_oncerun_s(self):
        report = self.told(exits=75, command="exit 75")
        self.assertEqual((report["outcome"], report["started"], report["status"]),
                         ("command", True, "failed"))
        gate = self.gate()
        owner = self.start(date="2024-10-27", command=gate.shell)
        gate.wait_started()
        busy = self.told(exits=BUSY, date="2024-10-27")
        self.assertEqual((busy["outcome"], busy["started"]), ("busy", False))
        blocked = self.told(exits=BLOCKED, date="2024-10-28")
        self.assertEqual((blocked["outcome"], blocked["started"]), ("blocked", False))
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_a_signal_a_timeout_and_a_missing_command(self):
        report = self.told(exits=137, state=None, job="a", command="kill -9 $$")
        self.assertEqual((report["outcome"], report["started"], report["status"]),
                         ("signalled", True, "unknown"))
        report = self.told("--timeout", "0.1", exits=TIMEOUT, state=None, job="b",
                           command="sleep 60")
        self.assertEqual((report["outcome"], report["status"]), ("timeout", "unknown"))
        report = self.told(exits=NOT_FOUND, state=None, job="c", command=["/no/such"])
        self.assertEqual((report["outcome"], report["started"], report["status"]),
                         ("not-found", False, "failed"))

    def test_a_hold_and_what_the_check_said(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        held = self.told(exits=HELD, check="exit 2")
        self.assertEqual((held["outcome"], held["started"], held["status"]),
                         ("held", False, "unknown"))
        settled = self.told(exits=DONE, check="exit 0")
        self.assertEqual((settled["outcome"], settled["started"], settled["status"]),
                         ("done", False, "done"))
        unconfirmed = self.told("--check-after", exits=UNCONFIRMED, date="2024-10-27",
                                check="exit 10")
        self.assertEqual((unconfirmed["outcome"], unconfirmed["status"]), ("unconfirmed", "failed"))

    def test_a_result_that_was_not_recorded(self):
        """The row still says what it said while the command ran."""
        for spool in ((), ("--spool", "none")):
            with self.subTest(spool=spool):
                job = f"job {len(spool)}"
                gate = self.gate(job)
                owner = self.start("--record-timeout", "0.3s", "--report", self.file, *spool,
                                   job=job, state=None, command=f"{gate.shell}; exit 3")
                gate.wait_started()
                connection = sqlite3.connect(self.led, isolation_level=None, timeout=10)
                connection.execute("BEGIN IMMEDIATE")
                gate.go()
                result = owner.end()
                connection.execute("ROLLBACK")
                connection.close()
                self.assertExit(result, UNRECORDED)
                report = json.loads(self.read(self.file))
                self.assertEqual((report["outcome"], report["started"], report["status"],
                                  report["command_exit_code"]),
                                 ("unrecorded", True, "pending", 3))
                self.assertStatus("pending", job=job)

    def test_a_hold_of_a_date_that_no_run_stands_for(self):
        report = self.told("--check-first", exits=HELD, check="exit 2")
        self.assertEqual((report["outcome"], report["started"], report["status"]),
                         ("held", False, None))
        self.assertIn("exit 2", report["check_verdict"])
        self.assertIsNone(self.row())

    def test_an_exit_code_by_wish_is_the_one_told(self):
        self.assertExit(self.oncerun(), DONE)
        report = self.told("--exit", "done=7", exits=7)
        self.assertEqual(report["outcome"], "done")

    def test_an_error(self):
        self.assertExit(self.oncerun(state=None), DONE)
        report = self.told("--tz", "Asia/Tokyo", exits=CONFIG, state=None, date="2024-10-25")
        self.assertEqual((report["outcome"], report["started"]), ("config", False))

    def test_a_report_that_cannot_be_written_costs_a_line_and_nothing_else(self):
        done = self.oncerun("--report", self.path("no/such/report"), command="exit 3")
        self.assertExit(done, 3, self.path("no/such"))
        os.mkdir(self.path("folder"))
        done = self.oncerun("--report", self.path("folder"))
        self.assertExit(done, DONE, self.path("folder"))
        self.assertEqual(self.runs(), 1)

    def test_a_report_is_what_a_program_can_read_whatever_the_names(self):
        job = "a\"b'ü\\"
        report = self.told(exits=3, job=job, state=None, command="exit 3")
        self.assertEqual(report["job"], job)


if __name__ == "__main__":
    main()
