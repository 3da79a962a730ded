"""What is said when something goes wrong: form, loudness, secrets."""

import json
import os

from oncerun_test import (BLOCKED, BUSY, DONE, HELD, NOT_EXECUTABLE, NOT_FOUND, TIMEOUT, USAGE,
                          Case, main)


class Words(Case):
    def lines_of(self, result):
        """stderr's lines, each of which has the form of a message or of its hint."""
        lines = result.stderr.splitlines()
        self.assertTrue(lines, "nothing was said")
        for line in lines:
            self.assertRegex(line, r"^(oncerun: [^A-Z]|(oncerun: )?hint: )")
            self.assertNotIn("terminate called", line)
        return lines

    def test_every_refusal_says_what_and_why_in_a_line_and_a_hint(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        for code, options in ((HELD, {}), (HELD, {"check": "exit 2"}),
                              (NOT_FOUND, {"job": "b", "state": None, "command": ["/no/such"]}),
                              (NOT_EXECUTABLE, {"job": "c", "state": None, "command": ["/etc"]})):
            with self.subTest(options):
                result = self.oncerun(**options)
                self.assertExit(result, code)
                lines = self.lines_of(result)
                self.assertLessEqual(len(lines), 2)
                self.assertIn(options.get("job", "settle"), lines[0])

    def test_a_cut_short_run_says_how_it_ended(self):
        for code, text, options, command in (
                (137, "KILL", [], "kill -9 $$"), (139, "SEGV", [], "kill -SEGV $$"),
                (TIMEOUT, "timed out", ["--timeout", "0.1"], "sleep 60"), (3, "exit 3", [], "exit 3")):
            with self.subTest(command):
                result = self.oncerun(*options, job=f"job {text.lower()}", state=None,
                                      command=command)
                self.assertExit(result, code, text)
                self.lines_of(result)

    def test_a_blocked_date_says_by_whom(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        blocked = self.oncerun(date="2024-10-27")
        gate.go()
        self.assertExit(blocked, BLOCKED, str(owner.pid))
        self.assertIn("2024-10-26", blocked.stderr)
        self.lines_of(blocked)
        self.assertExit(owner.end(), DONE)

    def test_a_blocked_date_says_when_it_is_a_foreign_lock(self):
        lock = self.path("foreign.lock")
        gate = self.gate()
        holder = self.spawn(["flock", lock, "sh", "-c", gate.shell])
        gate.wait_started()
        blocked = self.oncerun("--lock", f"flock:{lock}")
        gate.go()
        holder.end()
        self.assertExit(blocked, BLOCKED, lock)

    def test_quiet_says_only_what_went_wrong(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        settled = self.oncerun("-q", check="exit 0")
        self.assertExit(settled, DONE)
        self.assertEqual(settled.stderr, "")
        failed = self.oncerun("-q", date="2024-10-27", command="kill -9 $$")
        self.assertExit(failed, 137)
        self.assertExit(self.oncerun("-q", date="2024-10-27"), HELD, "2024-10-27")

    def test_verbose_says_what_cron_should_not_mail(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        busy = self.oncerun("--verbose")
        gate.go()
        self.assertExit(busy, BUSY, str(owner.pid))
        self.assertExit(owner.end(), DONE)

    def test_json_is_one_object_a_line(self):
        self.assertExit(self.oncerun("--log-format", "json", command="kill -9 $$"), 137)
        held = self.oncerun("--log-format=json")
        self.assertExit(held, HELD)
        skipped = self.oncerun("-v", "--log-format", "json", check="exit 0")
        self.assertExit(skipped, DONE)
        usage = self.oncerun("--log-format", "json", date="2024-13-01")
        self.assertExit(usage, USAGE)
        for result in (held, skipped, usage):
            for line in result.stderr.splitlines():
                self.assertIsInstance(json.loads(line)["message"], str)
            self.assertTrue(result.stderr)

    def test_the_journals_lines_carry_a_priority(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        held = self.oncerun("--log-format", "journal")
        self.assertExit(held, HELD)
        for line in held.stderr.splitlines():
            self.assertRegex(line, r"^<[0-7]>")

    def test_older_unsettled_dates_are_said_once_a_day(self):
        self.assertExit(self.oncerun(date="2024-10-25", command="kill -9 $$", state=None), 137)
        first = self.oncerun(state=None)
        self.assertExit(first, DONE, "2024-10-25")
        self.assertEqual(len([l for l in first.stderr.splitlines() if "hint" not in l]), 1)
        second = self.oncerun(date="2024-10-27", state=None)
        self.assertExit(second, DONE)
        self.assertEqual(second.stderr, "")

    def test_a_name_from_outside_never_writes_its_own_line(self):
        result = self.oncerun(ledger=self.path("a\nb\x1b[31m/led.db"), state=None,
                              command=["/no\nsuch"])
        self.assertNotEqual(result.returncode, DONE)
        self.assertNotIn("\x1b", result.stderr)
        self.lines_of(result)


class Secrets(Case):
    SECRET = "sesame-0451"

    def assertMasked(self, result):
        self.assertNotEqual(result.returncode, DONE)
        self.assertNotIn(self.SECRET, result.stdout + result.stderr)
        self.assertTrue(result.stderr)
        for name in os.listdir(self.dir):
            self.assertNotIn(self.SECRET.encode(), self.read(self.path(name)) or b"", name)

    def test_a_password_in_a_url_is_masked_wherever_it_stands(self):
        urls = [f"postgresql://user:{self.SECRET}@localhost/db", f"redis://:{self.SECRET}@localhost",
                f"mysql://user:{self.SECRET}@localhost:1/db?ssl=x",
                f"postgresql://localhost/db?user=u&password={self.SECRET}"]
        for url in urls:
            with self.subTest(url):
                report = self.path("report.json")
                self.assertMasked(self.oncerun("-v", "--report", report, ledger=url, state=None))
                self.assertMasked(self.oncerun("-v", "--lock", url, "--report", report, state=None))
                self.assertMasked(self.oncerun("-v", ledger=None, state=None,
                                               env={"ONCERUN_LEDGER": url}))
                self.assertMasked(self.oncerun("-v", state=None, env={"ONCERUN_LOCK": url}))
                self.assertMasked(self.sub("status", ledger=url))


if __name__ == "__main__":
    main()
