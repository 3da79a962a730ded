"""The bash completion, asked in a real bash."""

import os
import select

from bash_completion import COMPLETION, complete
from oncerun_test import DATE, EARLIER, Case, main

BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"


class Completion(Case):
    def ask(self, line, **kw):
        return complete(line, self.binary, env={"D": self.dir, "HOME": self.dir}, cwd=self.dir, **kw)

    def test_choices(self):
        self.assertEqual(self.ask("oncerun --guarantee at-"), ["at-least-once", "at-most-once"])
        self.assertEqual(self.ask("oncerun -g c"), ["cautious"])
        self.assertEqual(self.ask("oncerun --every h"), ["hour"])
        self.assertEqual(self.ask("oncerun --date y"), ["yesterday"])
        self.assertEqual(self.ask("oncerun --log-format j"), ["json", "journal"])
        self.assertEqual(self.ask("oncerun --guar"), ["--guarantee"])
        self.assertEqual(self.ask("oncerun hi"), ["history"])
        self.assertEqual(self.ask("oncerun job "), ["set"])
        self.assertEqual(self.ask("oncerun ledger "), ["accept"])
        self.assertEqual(self.ask("oncerun --lock-scope "), ["job", "date"])
        self.assertEqual(self.ask("oncerun --lock-renew "), ["on", "off"])
        self.assertEqual(self.ask("oncerun --lock-unavailable r"), ["run"])
        self.assertEqual(self.ask("oncerun --lock-replicas a"), ["all"])

    def test_a_value_behind_an_equals_sign_or_a_colon(self):
        # Readline replaces only what stands behind its last word break.
        self.assertEqual(self.ask("oncerun --guarantee=at-l"), ["at-least-once"])
        self.assertEqual(self.ask("oncerun --lock=f"), ["flock", "flock:"])
        self.assertEqual(self.ask("oncerun --exit bus"), ["busy="])
        self.assertEqual(self.ask("oncerun --lock redis+"), ["redis+unix://", "redis+sentinel://"])
        self.assertEqual(self.ask("oncerun --lock=redis:"), ["//"])
        self.assertEqual(self.ask("oncerun --guarantee=at-l", breaks=":", before="COMP_WORDBREAKS=:"),
                         ["--guarantee=at-least-once"])

    def test_an_option_without_a_choice_offers_nothing(self):
        self.assertEqual(self.ask("oncerun --timeout "), [])
        self.assertEqual(self.ask("oncerun --retries 1"), [])

    def test_files(self):
        self.write(self.path("other.db"), "")
        self.assertEqual(self.ask("oncerun --ledger oth"), ["other.db"])
        self.assertEqual(self.ask("oncerun --lock-password-file oth"), ["other.db"])

    def test_zones(self):
        if not os.path.exists("/usr/share/zoneinfo/zone.tab"):
            self.skip("tzdata is not installed")
        self.assertIn("Europe/Berlin", self.ask("oncerun --tz Europe/B"))

    def test_jobs_and_dates_of_the_ledger(self):
        for job, date in (("settle", DATE), ("settle", EARLIER), ("süd", DATE), ("two words", DATE)):
            self.assertExit(self.oncerun(job=job, date=date, state=None), 0)
        line = f"oncerun --ledger {self.led} --job "
        self.assertEqual(self.ask(line + "se"), ["settle"])
        self.assertEqual(self.ask(line + "sü"), ["süd"])
        self.assertEqual(self.ask(line + "tw"), ["two\\ words"])
        self.assertEqual(self.ask(f"oncerun show -L {self.led} -j settle -d 2024-"), [EARLIER, DATE])
        self.assertEqual(self.ask(f"oncerun show -L {self.led} -j süd -d 2024-"), [DATE])

    def test_a_date_with_colons(self):
        self.assertExit(self.oncerun("--every", "hour", date="2024-10-26T18:00Z", state=None), 0)
        line = f"oncerun show --ledger {self.led} --job settle --date 2024-10-26T"
        self.assertEqual(self.ask(line), ["2024-10-26T18:00Z"])
        self.assertEqual(self.ask(line + "18:"), ["00Z"])

    def test_asking_makes_no_ledger(self):
        before = self.snapshot()
        self.ask(f"oncerun --ledger {self.path('none.db')} --job s")
        self.ask("oncerun --job s")
        self.assertEqual(self.snapshot(), before)

    def test_the_command_itself(self):
        self.write(self.path("data.csv"), "")
        self.assertIn("sleep", self.ask("oncerun --job x -- slee"))
        self.assertEqual(self.ask("oncerun --job x -- cat dat"), ["data.csv"])
        self.assertEqual(self.ask("oncerun --job=x -- cat --guarantee dat"), ["data.csv"])

    def test_the_command_itself_with_bash_completion(self):
        if not os.path.exists(BASH_COMPLETION):
            self.skip("bash-completion is not installed")
        before = f"""source {BASH_COMPLETION}
            _mine() {{ [[ ${{COMP_WORDS[0]}} == mine ]] && COMPREPLY=("word $COMP_CWORD"); }}
            complete -F _mine mine"""
        self.assertEqual(self.ask("oncerun --job=x -- mine a b", before=before), ["word 2"])

    def test_under_readline(self):
        """What the other tests put into COMP_WORDS is what a typed line and a TAB put there."""
        answer = r'''oncerun() {
            if [[ $2 == --json ]]; then echo '"biz_date": "2024-10-26T18:00Z"'; return; fi
            printf '<%s>' "$@" >>typed; echo >>typed
        }'''
        self.write(self.path("rc"), f"source {COMPLETION}\n{answer}\n")
        terminal, other = os.openpty()
        self.addCleanup(os.close, terminal)
        bash = self.spawn(["bash", "--rcfile", self.path("rc"), "--noprofile", "-i"], stdin=other,
                          stdout=other, stderr=other, env={"TERM": "dumb", "PS1": "$ ", "HISTFILE": None})
        os.close(other)
        for line in ("oncerun --guarantee=at-l\t\n", "oncerun show --date 2024-10-26T18:\t\n",
                     "oncerun --lock flock:/etc/pass\twd\n", "oncerun hist\t-n 1\n", "exit\n"):
            os.write(terminal, line.encode())
        seen = b""
        while bash.poll() is None or select.select([terminal], [], [], 0)[0]:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    seen += os.read(terminal, 4096)
                except OSError:  # EIO: the other side is closed
                    break
        bash.wait(30)
        self.assertEqual(self.lines("typed"), [
            "<--guarantee=at-least-once>",
            "<show><--date><2024-10-26T18:00Z>",
            "<--lock><flock:/etc/passwd>",
            "<history><-n><1>",
        ], seen.decode(errors="replace"))


if __name__ == "__main__":
    main()
