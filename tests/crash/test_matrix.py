"""SIGKILL at every system call of a run: guarantee x marks x check, in a first run and a later one.

Oncerun dies alone; the command ends as it will. When nothing of it lives any more, one plain
invocation must end as the guarantee says, and a second one must change nothing.
"""

from crash import BOTH, GUARANTEES, LEDGER, STATE, Column, CrashCase
from oncerun_test import HELD, main


class Matrix(CrashCase):
    def columns(self, marks, known):
        """The six columns of these marks; each samples other points."""
        for number, (guarantee, checked) in enumerate((g, c) for g in GUARANTEES for c in (False, True)):
            name = f"{guarantee}, {'honest' if checked else 'no'} check, {marks}, " \
                   f"{'a later' if known else 'the first'} run"
            column = Column(name, marks, known, args=("-g", guarantee), check=checked, offset=number)
            self.strike_all(column, self.one, guarantee, checked)

    def one(self, strike, guarantee, checked):
        strike.kill()
        judge = strike.invariants
        killed = judge.at_the_kill(strike.before)
        again = self.plain(strike.column, "-g", guarantee, check=checked)
        settled = judge.after(strike.before, again, guarantee, checked, killed)
        if again.returncode == HELD:
            judge.a_hold_can_be_ended(self.plain(strike.column, "-g", "at-least-once"))
        else:
            judge.done_never_changes(settled, self.plain(strike.column, "-g", guarantee, check=checked))

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
