"""What the command inherits: environment, signals, descriptors, folder (case P08)."""

import os
import re
import resource
import signal
import subprocess
import time

from oncerun_test import DATE, DONE, Case, default_signals, is_instrumented, main

DOCUMENTED = {
    "ONCERUN_JOB", "ONCERUN_BIZ_DATE", "ONCERUN_PERIOD_START", "ONCERUN_PERIOD_END",
    "ONCERUN_RUN_ID", "ONCERUN_ATTEMPT", "ONCERUN_KEY", "ONCERUN_GENERATION", "ONCERUN_TOKEN",
    "ONCERUN_PREVIOUS", "ONCERUN_RUN_LEDGER", "ONCERUN_ANCESTORS",
}


class InheritedCase(Case):
    def start(self, *args, **kw):
        kw.setdefault("preexec_fn", default_signals)
        return super().start(*args, **kw)


class Inherited(InheritedCase):
    PROBE = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]

    def assertSameSignals(self, prefix=(), preexec_fn=default_signals):
        plain = subprocess.run([*prefix, *self.PROBE], capture_output=True, text=True, check=True,
                               preexec_fn=preexec_fn, restore_signals=False).stdout
        under = self.oncerun(job=f"job {len(self._started)}", state=None, prefix=prefix,
                             command=self.PROBE, preexec_fn=preexec_fn, restore_signals=False)
        self.assertExit(under, DONE)
        self.assertEqual(under.stdout, plain)
        return plain

    def test_P08_mask_and_dispositions_are_those_without_oncerun(self):
        plain = self.assertSameSignals()
        self.assertEqual(set(re.findall(r"[0-9a-f]{16}", plain)), {"0" * 16})

    def test_P08_ignored_and_blocked_signals_stay_so(self):
        plain = self.assertSameSignals(
            prefix=["env", "--ignore-signal=HUP,PIPE", "--block-signal=USR2"])
        # HUP is 1, PIPE 13, USR2 12: bit number - 1 (proc_pid_status(5)).
        self.assertIn("0000000000001001", plain)
        self.assertIn("0000000000000800", plain)

    def test_P08_every_signal_that_can_be_ignored_or_blocked(self):
        if is_instrumented(self.binary):
            self.skip("a sanitizer handles the signals of a fault itself")

        def everything():
            for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(each, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())

        self.assertSameSignals(preexec_fn=everything)

    def test_P08_nohup_survives_HUP(self):
        gate = self.gate()
        owner = self.start(prefix=["nohup"], command=f"{gate.shell}; exit 0")
        gate.wait_started()
        os.kill(owner.pid, signal.SIGHUP)
        gate.go()
        self.assertExit(owner.end(20), DONE)
        self.assertStatus("done")

    def test_the_command_gets_the_documented_environment_and_no_more(self):
        given = {"LANG": "C.UTF-8", "ODD": "a b\n=c", "EMPTY": ""}
        plain = subprocess.run(["env", "-0"], env={**self.env, **given}, stdout=subprocess.PIPE,
                               cwd=self.dir, check=True).stdout
        before = time.time()
        done = self.oncerun("--tz", "Europe/Berlin", command=["env", "-0"], env=given)
        self.assertExit(done, DONE)
        as_given = [entry for entry in done.stdout.split("\0") if not entry.startswith("ONCERUN_")]
        self.assertEqual(as_given, plain.decode().split("\0"), "the rest as given, in its order")
        added = dict(entry.split("=", 1) for entry in done.stdout.split("\0")
                     if entry.startswith("ONCERUN_"))
        self.assertEqual(set(added), DOCUMENTED)

        self.assertEqual(added["ONCERUN_JOB"], "settle")
        self.assertEqual(added["ONCERUN_BIZ_DATE"], DATE)
        # 2024-10-26 in Berlin is summer time, two hours ahead; the next day begins in it as well.
        instants = {"ONCERUN_PERIOD_START": {"2024-10-26T00:00:00+02:00", "2024-10-25T22:00:00Z"},
                    "ONCERUN_PERIOD_END": {"2024-10-27T00:00:00+02:00", "2024-10-26T22:00:00Z"}}
        for name, forms in instants.items():
            self.assertIn(added[name], forms)
        uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-%s[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
        self.assertRegex(added["ONCERUN_RUN_ID"], f"^{uuid % '[47]'}$")
        self.assertRegex(added["ONCERUN_KEY"], f"^{uuid % '5'}$")
        self.assertEqual(added["ONCERUN_ATTEMPT"], "1")
        self.assertEqual(added["ONCERUN_GENERATION"], "1")
        self.assertEqual(added["ONCERUN_PREVIOUS"], "none")
        self.assertLess(abs(int(added["ONCERUN_TOKEN"]) / 1000 - before), 60)
        self.assertIn(os.path.realpath(self.led), added["ONCERUN_RUN_LEDGER"])
        self.assertNotIn("settle", added["ONCERUN_ANCESTORS"], "a hash, not a name")
        row = self.row()
        self.assertEqual(row["run_id"], added["ONCERUN_RUN_ID"])
        self.assertEqual(row["fencing_token"], int(added["ONCERUN_TOKEN"]))

    def test_a_second_attempt_has_the_key_of_the_first_and_a_greater_token(self):
        show = ('echo "$ONCERUN_KEY $ONCERUN_RUN_ID $ONCERUN_TOKEN $ONCERUN_ATTEMPT '
                '$ONCERUN_PREVIOUS" >>"$D/seen"; exit ')
        self.assertExit(self.oncerun(command=show + "3"), 3)
        self.assertExit(self.oncerun(command=show + "0"), DONE)
        first, second = (line.split() for line in self.lines("seen"))
        self.assertEqual(first[0], second[0])
        self.assertNotEqual(first[1], second[1])
        self.assertLess(int(first[2]), int(second[2]))
        self.assertEqual((first[3:], second[3:]), (["1", "none"], ["2", "failed"]))

    def test_the_check_sees_the_doubtful_attempt_and_is_no_part_of_a_run(self):
        self.assertExit(self.oncerun(
            command='echo "$ONCERUN_RUN_ID $ONCERUN_TOKEN $ONCERUN_KEY" >"$D/first"; kill -9 $$'), 137)
        done = self.oncerun(check='env -0 | tr "\\0" "\\n" | grep ^ONCERUN_ >"$D/asked"; '
                                  'readlink /proc/$$/fd/0 >"$D/stdin"; echo out; exit 0')
        self.assertExit(done, DONE)
        self.assertEqual(done.stdout, "", "what a check prints goes to stderr")
        self.assertIn("out", done.stderr)
        self.assertEqual(self.runs(), 0)
        self.assertEqual(self.lines("stdin"), ["/dev/null"])
        asked = dict(line.split("=", 1) for line in self.lines("asked"))
        run_id, token, key = self.lines("first")[0].split()
        self.assertEqual(asked["ONCERUN_CHECK_RUN_ID"], run_id)
        self.assertEqual(asked["ONCERUN_CHECK_TOKEN"], token)
        self.assertEqual(asked["ONCERUN_KEY"], key)
        self.assertEqual(asked["ONCERUN_PREVIOUS"], "unknown")
        self.assertEqual(asked["ONCERUN_JOB"], "settle")
        self.assertEqual(asked["ONCERUN_BIZ_DATE"], DATE)
        self.assertEqual(asked["ONCERUN_GENERATION"], "1")
        for name in ("ONCERUN_PERIOD_START", "ONCERUN_PERIOD_END"):
            self.assertIn(name, asked)
        for name in ("ONCERUN_RUN_ID", "ONCERUN_TOKEN", "ONCERUN_ATTEMPT"):
            self.assertNotIn(name, asked)

    DESCRIPTORS = ("import os\n"
                   "for fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n"
                   "    try: print(fd, os.readlink(f'/proc/self/fd/{fd}'))\n"
                   "    except OSError: pass\n")  # the listing's own

    def descriptors(self, *args, limit, **kw):
        def limited():
            default_signals()
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, 4096))

        done = self.oncerun(*args, preexec_fn=limited,
                            command=["/usr/bin/python3", "-c", self.DESCRIPTORS], **kw)
        self.assertExit(done, DONE)
        found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        return {int(fd): target for fd, target in found.items()}

    def test_the_command_inherits_liveness_and_lock_at_the_highest_numbers(self):
        for limit, top in ((1024, 1024), (256, 256), (4096, 1024)):
            with self.subTest(limit):
                found = self.descriptors(limit=limit, job=f"job {limit}", state=None)
                self.assertEqual(set(found), {0, 1, 2, top - 2, top - 1}, found)
                for fd in (top - 2, top - 1):
                    self.assertTrue(found[fd].startswith(self.led + "-"), found)
                    self.assertFalse(found[fd].endswith(("-wal", "-shm", "-guard")), found)

    def test_without_a_lock_the_command_inherits_the_liveness_descriptor_alone(self):
        found = self.descriptors("--lock", "none", limit=1024)
        self.assertEqual(set(found), {0, 1, 2, 1023}, found)

    def test_descriptors_given_by_the_parent_reach_the_command(self):
        reader, writer = os.pipe()
        done = self.oncerun(command=f"echo through >&{writer}", pass_fds=[writer])
        os.close(writer)
        self.assertExit(done, DONE)
        with os.fdopen(reader, "rb") as pipe:
            self.assertEqual(pipe.read(), b"through\n")

    def test_working_directory_and_umask_are_those_without_oncerun(self):
        elsewhere = self.path("elsewhere")
        os.mkdir(elsewhere)
        done = self.oncerun(command="pwd; umask", cwd=elsewhere, umask=0o027)
        self.assertExit(done, DONE)
        self.assertEqual(done.stdout.splitlines(), [elsewhere, "0027"])

    def test_a_command_without_an_interpreter_line_runs_as_execvp_would_run_it(self):
        plain = self.path("plain")
        self.write(plain, 'echo "$1" >>"$D/runs"\n')
        os.chmod(plain, 0o755)
        self.assertExit(self.oncerun(command=[plain, "by sh"]), DONE)
        self.assertEqual(self.lines("runs"), ["by sh"])


if __name__ == "__main__":
    main()
