"""The downstream check after a crash (S01, S02, S12), before a first start and after an exit 0."""

import os
import signal
import time

from oncerun_test import (ABSENT, BUSY, DATE, DONE, EARLIER, HELD, NEXT, PRESENT, UNCLEAR,
                          UNCONFIRMED, USAGE, Case, main, process_state)

CRASH_AFTER_EFFECT = 'echo e >>"$D/eff"; kill -9 $PPID; sleep 0.2'
HONEST = 'grep -q e "$D/eff" && exit 0; exit 10'


def asking(answer):
    return f'echo asked >>"$D/asked"; {answer}'


class Crash(Case):
    """S01: the job was done, and oncerun died before it could say so."""

    def setUp(self):
        super().setUp()
        self.assertExit(self.oncerun(date=EARLIER, command=["true"]), DONE)
        self.assertExit(self.oncerun(command=CRASH_AFTER_EFFECT), -signal.SIGKILL)
        self.wait_quiet()
        self.assertStatus("pending")
        state = self.state()
        self.assertEqual((state["lastPublishedDate"], state["status"], state["pendingDate"]),
                         (EARLIER, "pending", DATE))

    def held(self, check):
        before, file = self.row(), self.snapshot("st.json")
        result = self.oncerun(check=check)
        self.assertExit(result, HELD)
        self.assertIn("hint:", result.stderr)
        self.assertEqual(self.row(), before)
        self.assertEqual(self.snapshot("st.json"), file)
        self.assertEqual(self.runs(), 0)

    def test_S01_no_check(self):
        self.held(None)

    def test_S01_present(self):
        self.assertExit(self.oncerun(check=PRESENT), DONE)
        self.assertEqual(self.runs(), 0)
        self.assertStatus("done")
        self.assertEqual(self.state()["lastPublishedDate"], DATE)
        self.assertNotIn(self.state().get("status"), ("pending", "unknown", "failed"))

    def test_S01_absent(self):
        self.assertExit(self.oncerun(check=ABSENT), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")
        self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def test_S01_a_check_that_says_2(self):
        self.held("exit 2")

    def test_S01_a_check_that_says_77(self):
        self.held("exit 77")

    def test_S01_a_check_that_says_1(self):
        self.held("exit 1")

    def test_S01_a_check_that_cannot_be_run(self):
        self.held("/no/such/check")

    def test_S01_a_check_that_is_killed(self):
        self.held("kill -9 $$")

    def test_S01_a_check_that_takes_too_long(self):
        begun = time.monotonic()
        result = self.oncerun("--check-timeout", "0.5s", check="sleep 30 & sleep 30")
        self.assertExit(result, HELD)
        self.assertLess(time.monotonic() - begun, 10)
        self.wait_quiet(5)
        self.assertEqual(self.runs(), 0)
        self.assertStatus("pending")

    def test_S01_other_codes_for_present_and_absent(self):
        codes = ("--check-present", "3", "--check-absent", "4")
        for code in (0, 10):
            self.assertExit(self.oncerun(*codes, check=f"exit {code}"), HELD)
        self.assertExit(self.oncerun(*codes, check="exit 3"), DONE)
        self.assertEqual(self.runs(), 0)
        self.assertStatus("done")

    def test_the_check_is_told_whom_it_is_asked_about(self):
        row = self.row()
        check = ('echo "$ONCERUN_JOB $ONCERUN_BIZ_DATE $ONCERUN_PREVIOUS $ONCERUN_CHECK_RUN_ID'
                 ' $ONCERUN_CHECK_TOKEN" >>"$D/told"; exit 0')
        self.assertExit(self.oncerun(check=check), DONE)
        self.assertEqual(self.lines("told"),
                         [f"settle {DATE} unknown {row['run_id']} {row['fencing_token']}"])

    def test_what_the_check_says_goes_to_stderr(self):
        result = self.oncerun(check="echo words; echo more >&2; exit 0")
        self.assertExit(result, DONE)
        self.assertEqual(result.stdout, "")
        self.assertIn("words", result.stderr)
        self.assertIn("more", result.stderr)

    def test_the_check_reads_nothing(self):
        self.assertExit(self.oncerun(check="read line && exit 10; exit 0",
                                     stdin=open(self.hit, "rb")), DONE)
        self.assertEqual(self.runs(), 0)

    def test_the_verdict_is_kept_in_the_history(self):
        self.assertExit(self.oncerun(check=PRESENT), DONE)
        history = self.sub_json("history", "--job", self.job)
        self.assertIn("check", str(history))

    def test_the_verdict_that_allowed_an_attempt_is_shown_with_it(self):
        self.assertExit(self.oncerun(check="exit 10"), DONE)
        run = ("--job", self.job, "--date", self.date)
        attempts = self.sub_json("show", *run)["attempt_list"]
        history = [entry for entry in self.sub_json("history", *run) if entry["type"] == "attempt"]
        for entries in (attempts, history):
            self.assertEqual([entry["number"] for entry in entries], [2, 1])
            self.assertRegex(entries[0]["check_verdict"], "absent twice .*exit 10")
            self.assertIsNone(entries[1]["check_verdict"])
        for subcommand in ("show", "history"):
            self.assertIn("absent twice", self.sub(subcommand, *run).stdout)


class Honest(Case):
    """S01: with an honest check there is exactly one effect, wherever the crash falls."""

    def effect_once(self, command):
        self.assertExit(self.oncerun(command=command), -signal.SIGKILL)
        self.wait_quiet()
        self.assertExit(self.oncerun(check=HONEST, command='echo e >>"$D/eff"'), DONE)
        self.assertEqual(self.lines("eff"), ["e"])
        self.assertExit(self.oncerun(check=HONEST, command='echo e >>"$D/eff"'), DONE)
        self.assertEqual(self.lines("eff"), ["e"])
        self.assertStatus("done")

    def test_S01_killed_after_the_effect(self):
        self.effect_once(CRASH_AFTER_EFFECT)

    def test_S01_killed_before_the_effect(self):
        self.effect_once('kill -9 $PPID; kill -9 $$; echo e >>"$D/eff"')

    def test_S01_killed_between_two_attempts(self):
        self.assertExit(self.oncerun(command="kill -9 $PPID; kill -9 $$"), -signal.SIGKILL)
        self.wait_quiet()
        self.effect_once_more(CRASH_AFTER_EFFECT)

    def effect_once_more(self, command):
        self.assertExit(self.oncerun(check=HONEST, command=command), -signal.SIGKILL)
        self.wait_quiet()
        self.assertExit(self.oncerun(check=HONEST, command='echo e >>"$D/eff"'), DONE)
        self.assertEqual(self.lines("eff"), ["e"])
        self.assertEqual(self.row()["attempts"], 2)


class Alive(Case):
    """S02: nobody recovers a mark whose owner lives."""

    def second_start(self, *args, stop=False):
        gate = self.gate()
        owner = self.start(*args, command=gate.shell)
        gate.wait_started()
        if stop:
            owner.send_signal(signal.SIGSTOP)
            self.wait_for(lambda: process_state(owner.pid) == "T", what="the owner to stop")
        before, file = self.row(), self.snapshot("st.json")
        for guarantee in ("cautious", "at-least-once"):
            result = self.oncerun(*args, "-g", guarantee, check=asking(ABSENT))
            self.assertExit(result, BUSY)
        if stop:
            result = self.oncerun(*args, "--wait", "0.5s", check=asking(ABSENT))
            self.assertExit(result, BUSY)
            owner.send_signal(signal.SIGCONT)
        self.assertEqual(self.lines("asked"), [])
        self.assertEqual(self.runs(), 0)
        self.assertEqual(self.row(), before)
        self.assertEqual(self.snapshot("st.json"), file)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertStatus("done")

    def test_S02_a_long_run_with_flock(self):
        self.second_start()

    def test_S02_a_long_run_without_a_lock(self):
        self.second_start("--lock", "none")

    def test_S02_a_stopped_owner(self):
        self.second_start(stop=True)

    def test_S02_a_stopped_owner_without_a_lock(self):
        self.second_start("--lock", "none", stop=True)

    def test_S02_an_owner_that_asks_its_check(self):
        gate = self.gate()
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        owner = self.start(check=f"{gate.shell}; exit 0")
        gate.wait_started()
        before = self.row()
        second = self.oncerun(check=asking(ABSENT))
        self.assertEqual(second.returncode, BUSY, second.stderr)
        self.assertEqual((self.lines("asked"), self.row()), ([], before))
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.runs(), 0)


class Settling(Case):
    """S12: a request of the dead owner may still be on its way when the check is asked first."""

    def setUp(self):
        super().setUp()
        self.assertExit(self.oncerun(command="kill -9 $PPID; kill -9 $$"), -signal.SIGKILL)
        self.wait_quiet()

    def test_S12_booked_after_the_first_answer(self):
        begun = time.monotonic()
        asking_twice = self.start(check=asking('test -e "$D/booked" || exit 10'), settle="1s")
        self.wait_for(lambda: self.lines("asked"), what="the first question")
        self.write(self.path("booked"), "")
        self.assertExit(asking_twice.end(), DONE)
        self.assertGreaterEqual(time.monotonic() - begun, 1)
        self.assertEqual((len(self.lines("asked")), self.runs()), (2, 0))
        self.assertStatus("done")

    def test_S12_absent_counts_when_said_twice(self):
        self.assertExit(self.oncerun(check=asking(ABSENT), settle="0.2s"), DONE)
        self.assertEqual((len(self.lines("asked")), self.runs()), (2, 1))

    def test_S12_absent_once_and_then_unclear_is_a_hold(self):
        before = self.row()
        check = 'echo asked >>"$D/asked"; test $(wc -l <"$D/asked") = 1 && exit 10; exit 2'
        self.assertExit(self.oncerun(check=check), HELD)
        self.assertEqual((len(self.lines("asked")), self.runs()), (2, 0))
        self.assertEqual(self.row(), before)

    def test_S12_settling_ends_with_TERM(self):
        before = self.row()
        waiting = self.start(check=asking(ABSENT), settle="60s")
        self.wait_for(lambda: self.lines("asked"), what="the first question")
        waiting.terminate()
        self.assertExit(waiting.end(timeout=2), 143)
        self.assertEqual((len(self.lines("asked")), self.runs()), (1, 0))
        self.assertEqual(self.row(), before)

    def test_S12_a_check_under_way_ends_with_TERM(self):
        gate = self.gate()
        waiting = self.start(check=f'{gate.announce}; sleep 60')
        gate.wait_started()
        waiting.terminate()
        self.assertExit(waiting.end(timeout=2), 143)
        self.wait_quiet(5)
        self.assertEqual(self.runs(), 0)


class First(Case):
    """--check-first: ask also before the first attempt."""

    def test_check_first_present(self):
        self.assertExit(self.oncerun("--check-first", check=asking(PRESENT)), DONE)
        self.assertEqual((len(self.lines("asked")), self.runs()), (1, 0))
        self.assertStatus("done")
        self.assertEqual(self.state()["lastPublishedDate"], DATE)

    def test_check_first_absent(self):
        self.assertExit(self.oncerun("--check-first", check=asking(ABSENT)), DONE)
        self.assertEqual((len(self.lines("asked")), self.runs()), (1, 1))
        self.assertStatus("done")

    def test_check_first_unclear(self):
        self.assertExit(self.oncerun("--check-first", check=asking(UNCLEAR)), HELD)
        self.assertEqual((len(self.lines("asked")), self.runs()), (1, 0))
        self.assertIsNone(self.row())
        self.assertIsNone(self.state())

    def test_check_first_without_a_check_is_usage(self):
        self.assertExit(self.oncerun("--check-first"), USAGE)
        self.assertEqual(self.runs(), 0)


class After(Case):
    """--check-after: exit 0 alone is not success."""

    def after(self, answer, code, status, command="exit 0", asked=1):
        result = self.oncerun("--check-after", check=asking(answer), command=command)
        self.assertExit(result, code)
        self.assertStatus(status)
        self.assertEqual(len(self.lines("asked")), asked)
        state = self.state()
        if status == "done":
            self.assertEqual(state["lastPublishedDate"], DATE)
        else:
            self.assertNotIn("lastPublishedDate", {key for key in state if state[key]})
            self.assertEqual((state["pendingDate"], state["status"]), (DATE, status))

    def test_check_after_present(self):
        self.after(PRESENT, DONE, "done")

    def test_check_after_absent(self):
        self.after(ABSENT, UNCONFIRMED, "failed")

    def test_check_after_unclear(self):
        self.after(UNCLEAR, UNCONFIRMED, "unknown")

    def test_check_after_killed(self):
        self.after("kill -9 $$", UNCONFIRMED, "unknown")

    def test_check_after_is_not_asked_about_a_failure(self):
        self.after(PRESENT, 3, "failed", command="exit 3", asked=0)

    def test_check_after_is_not_asked_about_a_run_that_was_cut_short(self):
        self.after(PRESENT, 137, "unknown", command="kill -9 $$", asked=0)

    def test_check_after_leaves_a_daemon_alone(self):
        command = 'setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $! >"$D/pid"'
        result = self.oncerun("--check-after", "--check-timeout", "0.3s", check="sleep 60",
                              command=command)
        self.assertExit(result, UNCONFIRMED)
        self.assertStatus("unknown")
        self.assertEqual(self.processes(), [int(self.lines("pid")[0])])

    def test_check_after_without_a_check_is_usage(self):
        self.assertExit(self.oncerun("--check-after"), USAGE)
        self.assertEqual(self.runs(), 0)


class ByHand(Case):
    """oncerun check: tries a check and changes nothing."""

    def test_check_by_hand(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        before = self.row()
        for check in (PRESENT, ABSENT, UNCLEAR):
            result = self.sub("check", "--job", self.job, "--date", self.date, "--check",
                              asking(check))
            self.assertNotEqual(result.stdout, "", result.stderr)
            self.assertEqual(result.returncode == 0, check == PRESENT, result.stdout)
        self.assertEqual(len(self.lines("asked")), 3)
        self.assertEqual(self.row(), before)
        self.assertEqual(self.state()["status"], "unknown")

    def test_a_check_that_could_not_say_one_or_the_other(self):
        self.assertExit(self.oncerun(command="kill -9 $$"), 137)
        for codes in (("--check-absent", "0"), ("--check-present", "10"),
                      ("--check-absent", "3", "--check-present", "3")):
            with self.subTest(codes=codes):
                result = self.sub("check", "--job", self.job, "--date", self.date, "--check",
                                  asking(PRESENT), *codes)
                self.assertExit(result, USAGE, "--check-absent")
        self.assertEqual(self.lines("asked"), [])


class Misuse(Case):
    """S15: a command that is oncerun for the same run; a shell that goes on after a skip."""

    def test_S15_nested_for_the_same_run(self):
        inner = self.argv(job=self.job, date=self.date)
        result = self.oncerun(command=inner)
        self.assertExit(result, USAGE)
        self.assertEqual(self.runs(), 0)
        self.assertStatus("failed")
        self.assertFalse((self.state() or {}).get("lastPublishedDate"))

    def test_S15_nested_for_another_date_is_fine_without_a_lock(self):
        inner = self.argv("--lock", "none", date=NEXT)
        self.assertExit(self.oncerun("--lock", "none", command=inner), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatus("done")
        self.assertStatus("done", date=NEXT)

    def test_S15_and_next_does_not_follow_a_busy_skip(self):
        gate = self.gate()
        owner = self.start(command=gate.shell)
        gate.wait_started()
        shell = self.spawn(["sh", "-c", '"$@" && touch "$D/next"', "sh", *self.argv()]).end()
        self.assertEqual(shell.returncode, BUSY)
        self.assertFalse(os.path.exists(self.path("next")))
        gate.go()
        self.assertExit(owner.end(), DONE)
        shell = self.spawn(["sh", "-c", '"$@" && touch "$D/next"', "sh", *self.argv()]).end()
        self.assertEqual(shell.returncode, DONE)
        self.assertTrue(os.path.exists(self.path("next")))


if __name__ == "__main__":
    main()
