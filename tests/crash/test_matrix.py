"""SIGKILL at every system call of a run: guarantee x marks x check, in a first run and a later one.

Oncerun dies alone; the command ends as it will. When nothing of it lives any more, one plain
invocation must end as the guarantee says, and a second one must change nothing.
"""

from crash import BOTH, GUARANTEES, LEDGER, STATE, Column, CrashCase, main


class Matrix(CrashCase):
    def columns(self, marks, known):
        for guarantee in GUARANTEES:
            for checked in (False, True):
                name = "a later run" if known else "the first run"
                self.strike_all(Column(name, marks, known, guarantee, checked), self.one)

    def one(self, strike):
        strike.kill()
        strike.settle()

    def test_ledger_first_run(self):
        self.columns(LEDGER, False)

    def test_ledger_later_run(self):
        self.columns(LEDGER, True)

    def test_state_file_first_run(self):
        self.columns(STATE, False)

    def test_state_file_later_run(self):
        self.columns(STATE, True)

    def test_both_first_run(self):
        self.columns(BOTH, False)

    def test_both_later_run(self):
        self.columns(BOTH, True)


if __name__ == "__main__":
    main()
