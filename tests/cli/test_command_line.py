"""The command line: what is the command's stays the command's, what is printed and where, help,
version, exit codes by wish (cases C02, C03, C05)."""

import os
import re
import subprocess

from oncerun_test import (BINARY, BUSY, DATE, DONE, HELD, NOT_FOUND, TIMEOUT, USAGE, Case, main)

# Prints its arguments as they arrived, each followed by NUL.
ECHO = ["/usr/bin/python3", "-c",
        "import os, sys\nfor a in sys.argv[1:]: os.write(1, os.fsencode(a) + b'\\0')"]

# Section 3 of the design: every option of a run.
OPTIONS = {
    "--job": "-j", "--date": "-d", "--every": None, "--tz": None, "--scheduled-at": None,
    "--lock": "-l", "--wait": "-w", "--replace": None, "--ledger": "-L", "--state": "-s",
    "--guarantee": "-g", "--check": "-c", "--check-timeout": None, "--check-absent": None,
    "--check-present": None, "--check-settle": None, "--check-first": None, "--check-after": None,
    "--unknown-exit": None, "--rerun": None, "--timeout": "-t", "--kill-after": "-k",
    "--retries": None, "--retry-delay": None, "--record-timeout": None, "--spool": None,
    "--exit": None, "--report": None, "--explain": None, "--log-format": None,
}


class TheCommandsOwn(Case):
    def passed(self, *arguments, env=None, **kw):
        """The arguments as the command gets them, in bytes."""
        output = self.path("arguments")
        with open(output, "wb") as file:
            done = self.oncerun(command=[*ECHO, *arguments], stdout=file, env=env, state=None, **kw)
        self.assertEqual(done.returncode, DONE, done.stderr)
        return self.read(output).split(b"\0")[:-1]

    def test_C02_standard_input_is_the_commands(self):
        reader, writer = os.pipe()
        os.write(writer, b"a\nb\n")
        os.close(writer)
        with os.fdopen(reader) as pipe:
            done = self.oncerun(command=["cat"], stdin=pipe)
        self.assertExit(done, DONE)
        self.assertEqual(done.stdout, "a\nb\n")

    def test_C02_percent_backslash_and_newlines_arrive_byte_for_byte(self):
        given = ["+%Y-%m-%d", r"\%Y", "%", "two\nlines\n", "\t", "\\n", "a\\", "{}", "%s%n"]
        self.assertEqual(self.passed(*given), [each.encode() for each in given])

    def test_C05_arguments_arrive_exactly(self):
        given = ["a b", "", "*", "$HOME", '"', "ü", "[a,b]", "--", "--date", "x"]
        for env in ({}, {"LC_ALL": "C"}, {"LC_ALL": "no_SUCH"}):
            with self.subTest(env):
                self.assertEqual(self.passed(*given, env=env, job=f"job {env}"),
                                 [each.encode() for each in given])

    def test_C05_bytes_that_are_no_text_arrive_exactly(self):
        given = [b"\xff\xfe", b"\x01", b"a\x80b"]
        self.assertEqual(self.passed(*map(os.fsdecode, given)), given)

    def test_options_of_ours_after_the_first_separator_are_the_commands(self):
        given = ["--job", "other", "-h", "--help", "--version", "-j", "--job=[a,b]", "--explain"]
        self.assertEqual(self.passed(*given), [each.encode() for each in given])
        self.assertIsNone(self.row(job="other"))

    def test_a_command_may_be_called_like_a_subcommand_or_an_option(self):
        for name in ("status", "resolve", "--help", "[", "-x"):
            with self.subTest(name):
                folder = self.path("bin")
                os.makedirs(folder, exist_ok=True)
                self.script("bin/" + name, 'echo "$0" >>"$D/runs"\n')
                done = self.oncerun(job="job " + name, state=None, command=[name],
                                    env={"PATH": folder + ":/usr/bin:/bin"})
                self.assertExit(done, DONE)
        self.assertEqual(self.runs(), 5)

    def test_C05_a_whole_command_in_one_string_is_not_found(self):
        done = self.oncerun(command=[f"{self.hit} now"])
        self.assertExit(done, NOT_FOUND)
        self.assertEqual(self.runs(), 0)

    def test_C05_a_job_of_many_letters_makes_the_round_trip(self):
        for name in ("süd", "a/b", "..", "-x", "[a,b]", "a b", "'q'\"", "日本", "%s", "x" * 200,
                     "a=b", "--", "*"):
            with self.subTest(name):
                argv = [BINARY, f"--job={name}", f"--date={DATE}", f"--ledger={self.led}", "--",
                        "sh", "-c", 'printf "%s\\n" "$ONCERUN_JOB"; echo >>"$D/runs"']
                first = self.spawn(argv, env={"LC_ALL": "C"}).end()
                self.assertExit(first, DONE)
                self.assertEqual(first.stdout, name + "\n")
                again = self.spawn(argv).end()
                self.assertExit(again, DONE)
                self.assertEqual(again.stdout, "")
                self.assertStatus("done", job=name)
        self.assertEqual(self.runs(), 13)

    def test_every_form_of_an_option_is_heard(self):
        for form in (["-jx1"], ["-j", "x1"], ["--job", "x1"], ["--job=x1"]):
            with self.subTest(form):
                done = self.spawn([BINARY, *form, "-l", f"flock:{self.path('lock')}", "-L", "none",
                                   "-d", DATE, "--", "printenv", "ONCERUN_JOB"]).end()
                self.assertExit(done, DONE)
                self.assertEqual(done.stdout, "x1\n")

    def test_an_options_value_may_look_like_an_option(self):
        done = self.spawn([BINARY, "-j-x", f"-L{self.led}", "-d", DATE, "--", "printenv",
                           "ONCERUN_JOB"]).end()
        self.assertExit(done, DONE)
        self.assertEqual(done.stdout, "-x\n")

    def test_a_value_attached_to_its_letter(self):
        """Also one that ends in that letter, or is nothing else."""
        self.st = self.path("states")
        for given, job, state in ((["-jj"], "j", None), (["-j", "jj"], "jj", None),
                                  (["-jobj"], "obj", None), (["-vjobj"], "obj", None),
                                  (["-jv", "-v"], "v", None), (["-jx", "-s" + self.st], "x", "x"),
                                  (["--job=j"], "j", None), (["-j-j"], "-j", None)):
            with self.subTest(given):
                ledger = self.path(f"L{'-'.join(given).replace('/', '_')}L")
                done = self.spawn([BINARY, "-L" + ledger, "-d" + DATE, *given, "--", self.hit]).end()
                self.assertExit(done, DONE)
                self.assertIsNotNone(self.row(job=job, ledger=ledger))
                self.assertEqual((self.state() or {}).get("job"), state)
                if state is not None:
                    os.unlink(self.st)

    def test_a_check_attached_to_its_letter(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        self.assertExit(self.oncerun("-cexec", check=None), DONE)  # by itself it is exit 0
        self.assertEqual(self.runs(), 0)
        self.assertStatus("done")


class Printed(Case):
    def test_C03_a_hundred_calls_of_a_done_date_print_nothing(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertEqual(self.runs(), 1)
        read, write = os.pipe()
        for _ in range(100):
            subprocess.run(self.argv(), env=self.env, stdin=subprocess.DEVNULL, stdout=write,
                           stderr=write, check=True)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            self.assertEqual(pipe.read(), b"")
        self.assertEqual(self.runs(), 1)

    def test_C03_a_busy_date_prints_nothing(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        busy = self.oncerun()
        gate.go()
        self.assertExit(busy, BUSY)
        self.assertEqual((busy.stdout, busy.stderr), ("", ""))
        self.assertExit(owner.end(), DONE)

    def test_a_skip_says_why_when_it_is_asked_to(self):
        self.assertExit(self.oncerun(), DONE)
        said = self.oncerun("-v")
        self.assertExit(said, DONE)
        self.assertEqual(said.stdout, "")
        self.assertIn("done", said.stderr)
        self.assertIn(DATE, said.stderr)

    def test_C03_stdout_is_the_commands_alone(self):
        job = "echo out; echo err >&2; exit %d"
        for code in (0, 3):
            with self.subTest(code):
                done = self.oncerun("-v", job=f"job {code}", command=job % code, state=None)
                self.assertExit(done, code)
                self.assertEqual(done.stdout, "out\n")
                self.assertIn("err\n", done.stderr)
        for result in (self.oncerun(command=["/no/such"]),
                       self.oncerun("--timeout", "0.2", job="slow", command="sleep 60", state=None),
                       self.oncerun("--check-first", command=["true"], job="doubtful", state=None,
                                    check="echo question; exit 2"),
                       self.oncerun("--frobnicate")):
            self.assertEqual(result.stdout, "", result)

    def test_C03_a_success_prints_nothing(self):
        self.assertExit(self.oncerun(job="made known", state=None), DONE)
        done = self.oncerun()
        self.assertExit(done, DONE)
        self.assertEqual((done.stdout, done.stderr), ("", ""))

    def test_C03_a_failing_job_adds_a_line_or_two(self):
        failed = self.oncerun(command="echo mine >&2; exit 3")
        self.assertExit(failed, 3)
        lines = failed.stderr.splitlines()
        self.assertEqual(lines[0], "mine")
        self.assertIn(len(lines) - 1, (1, 2), failed.stderr)
        self.assertIn("settle", lines[1])
        self.assertIn("3", lines[1])

    def test_the_first_run_in_the_default_ledger_says_which_that_is(self):
        home = self.path("state home")
        nobody = () if os.geteuid() != 0 else ("setpriv", "--reuid=65534", "--regid=65534",
                                               "--clear-groups")
        os.mkdir(home)
        os.chmod(home, 0o777)
        env = {"XDG_STATE_HOME": home}
        first = self.oncerun(ledger=None, state=None, command=["true"], env=env, prefix=nobody)
        self.assertExit(first, DONE)
        self.assertEqual(len(first.stderr.splitlines()), 1, first.stderr)
        self.assertIn(f"{home}/oncerun/ledger.db", first.stderr)
        second = self.oncerun(ledger=None, state=None, command=["true"], env=env, prefix=nobody,
                              date="2024-10-27")
        self.assertExit(second, DONE)
        self.assertEqual(second.stderr, "")


class ExitCodesByWish(Case):
    def test_a_skip_of_a_done_date(self):
        self.assertExit(self.oncerun(), DONE)
        self.assertExit(self.oncerun("--exit", "done=9"), 9)
        self.assertExit(self.oncerun("--exit", "busy=9"), DONE)

    def test_a_busy_date(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        self.assertExit(self.oncerun("--exit", "busy=0"), 0)
        self.assertExit(self.oncerun("--exit", "blocked=0", "--exit", "busy=99"), 99)
        self.assertExit(self.oncerun("--exit", "blocked=17", date="2024-10-27"), 17)
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_a_held_run(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        self.assertExit(self.oncerun("--exit=held=0"), 0)
        self.assertExit(self.oncerun(), HELD)
        self.assertEqual(self.runs(), 0)

    def test_a_timeout_and_a_missing_command(self):
        self.assertExit(self.oncerun("--timeout", "0.1", "--exit", "timeout=75", job="slow",
                                     state=None, command="sleep 60"), 75)
        self.assertExit(self.oncerun("--exit", "not-found=3", command=["/no/such"]), 3)

    def test_the_commands_own_codes_are_passed_on(self):
        self.assertExit(self.oncerun("--exit", "busy=1", "--exit", "timeout=2", command="exit 75"),
                        75)
        self.assertExit(self.oncerun("--exit", "timeout=2", date="2024-10-27",
                                     command="exit 124"), TIMEOUT)

    def test_a_wrong_wish_is_refused(self):
        for wish in ("", "busy", "busy=", "=3", "busy=256", "busy=-1", "busy=x", "nonsense=3",
                     "busy=3x", "busy=3=4", "command=3"):
            with self.subTest(wish):
                self.assertExit(self.oncerun("--exit", wish), USAGE)
        self.assertEqual(self.runs(), 0)


class HelpAndVersion(Case):
    def test_help_is_grouped_and_fits_a_terminal(self):
        for option in ("--help", "-h"):
            shown = self.spawn([BINARY, option]).end()
            self.assertExit(shown, DONE)
            self.assertEqual(shown.stderr, "")
        lines = shown.stdout.splitlines()
        self.assertEqual([line for line in lines if len(line) > 80], [])
        self.assertEqual([line for line in lines if line != line.rstrip()], [])
        self.assertNotRegex(shown.stdout, "\x1b", "no colour in a pipe")
        for long, short in OPTIONS.items():
            self.assertRegex(shown.stdout, rf"(?m)^\s+({short}, )?{long}\b" if short
                             else rf"(?m)^\s+{long}\b")
        headings = [line for line in lines if re.fullmatch(r"[A-Z][^.]*:", line)]
        self.assertGreaterEqual(len(headings), 4, lines)
        for subcommand in ("status", "history", "show", "resolve", "check", "still-mine"):
            self.assertRegex(shown.stdout, rf"\b{subcommand}\b")

    def test_version_names_the_libraries(self):
        shown = self.spawn([BINARY, "--version"]).end()
        self.assertExit(shown, DONE)
        self.assertRegex(shown.stdout.splitlines()[0], r"^oncerun \d+\.\d+\.\d+")
        for library in ("SQLite", "CLI11", "spdlog", "fmt", "nlohmann"):
            self.assertRegex(shown.stdout, rf"(?i){library}\S* v?\d+\.\d+")

    def test_an_unknown_option_names_the_nearest(self):
        for wrong, right in (("--gaurantee", "--guarantee"), ("--chekc-first", "--check-first"),
                             ("--jobs=x", "--job"), ("--time-out", "--timeout"),
                             ("--retrys", "--retries")):
            with self.subTest(wrong):
                done = self.oncerun(wrong)
                self.assertExit(done, USAGE, right)
                self.assertIn(wrong.split("=")[0], done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
        self.assertFalse(os.path.exists(self.led))

    def test_an_unknown_subcommand_names_the_nearest(self):
        for wrong, right in (("staus", "status"), ("resovle", "resolve"), ("hist", None)):
            with self.subTest(wrong):
                done = self.spawn([BINARY, wrong]).end()
                self.assertExit(done, USAGE, right)
                self.assertIn(wrong, done.stderr)

    def test_an_abbreviation_is_no_option(self):
        self.assertExit(self.oncerun("--guar", "cautious"), USAGE)


if __name__ == "__main__":
    main()
