"""The bash completion, asked in a real bash."""

import os
import unittest

from bash_completion import complete
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

    def test_a_value_behind_an_equals_sign_or_a_colon(self):
        # Readline replaces only what stands behind its last word break.
        self.assertEqual(self.ask("oncerun --guarantee=at-l"), ["at-least-once"])
        self.assertEqual(self.ask("oncerun --lock=f"), ["flock", "flock:"])
        self.assertEqual(self.ask("oncerun --exit bus"), ["busy="])
        self.assertEqual(self.ask("oncerun --guarantee=at-l", breaks=":", before="COMP_WORDBREAKS=:"),
                         ["--guarantee=at-least-once"])

    def test_an_option_without_a_choice_offers_nothing(self):
        self.assertEqual(self.ask("oncerun --timeout "), [])
        self.assertEqual(self.ask("oncerun --retries 1"), [])

    def test_files(self):
        self.write(self.path("other.db"), "")
        self.assertEqual(self.ask("oncerun --ledger oth"), ["other.db"])

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
        self.ask(f"oncerun --ledger {self.path('none.db')} --job s")
        self.ask("oncerun --job s")
        self.assertEqual(os.listdir(self.dir), [])

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


if __name__ == "__main__":
    main()
