"""A command that marks its own run done inside its own transaction; and one whose run is taken away.

Effect and mark are one commit in the same database, so that the effect is exactly one without any
check: it never happens twice, and whoever holds a run holds one that had no effect.
"""

from crash import BOTH, GUARANTEES, LEDGER, Column, CrashCase, main
from oncerun_test import HELD, LOST

# The check on `mine` fails when no row changed; then the shell ends, and nothing is committed.
OWN = r"""
sqlite3 -bail "$W_LEDGER" >>own 2>&1 <<SQL || exit 9
.timeout 10000
BEGIN IMMEDIATE;
INSERT INTO effect VALUES ('$ONCERUN_RUN_ID', $ONCERUN_GENERATION);
UPDATE job_run SET status = 'done', updated_at = strftime('%Y-%m-%dT%H:%M:%fZ')
  WHERE run_id = '$ONCERUN_RUN_ID' AND fencing_token = $ONCERUN_TOKEN AND status = 'pending';
INSERT INTO mine SELECT changes();
COMMIT;
SQL
"""
ENDS = {"and ends well": "exit 0", "and fails": "exit 3", "and is killed": "kill -9 $$"}

# What another program writes into the row, how the command then ends, and what stands in the row at
# the end. A success that has lost its run is noted, where that touches neither a done run nor a claim.
ROB = r"""
sqlite3 -bail "$W_LEDGER" <<SQL || exit 9
.timeout 10000
UPDATE job_run SET run_id = 'another', fencing_token = fencing_token + 1, status = '{status}'
  WHERE run_id = '$ONCERUN_RUN_ID';
SQL
{end}
"""
ROBBERIES = (("done", "exit 0", "done"), ("done", "exit 3", "done"), ("pending", "exit 3", "pending"),
             ("pending", "exit 0", "unknown"))


class FinishesItself(CrashCase):
    column_step = 3

    def setUp(self):
        super().setUp()
        for name, end in ENDS.items():
            self.job_script(name, OWN + end + "\n")

    def tables(self):
        self.execute("CREATE TABLE effect (run_id TEXT, generation INTEGER)")
        self.execute("CREATE TABLE mine (changed INTEGER CHECK (changed = 1))")

    def columns(self, together):
        for marks in (LEDGER, BOTH):
            for job in ENDS:
                for guarantee in GUARANTEES:
                    name = f"marks its run{', all die' if together else ''}, {job}"
                    self.strike_all(Column(name, marks, True, guarantee, job=job, prepare=self.tables,
                                           first="clone" if together else None), self.one, together)

    def one(self, strike, together):
        strike.kill(together)
        judge = strike.invariants
        killed = judge.at_the_kill(strike.before)
        again = self.plain(strike.column)
        settled = judge.after(strike.before, again, killed)
        if again.returncode == HELD:
            judge.no_effect_is_held(settled)
            again = self.plain(strike.column, guarantee="at-least-once")
            judge.a_hold_can_be_ended(again)
        judge.exactly_once(judge.look(), again)

    def test_oncerun_dies(self):
        self.columns(False)

    def test_both_die(self):
        self.columns(True)


class Robbed(CrashCase):
    """Another program has changed the row: what the owner then writes must not touch it."""

    column_step = 2

    def test_a_lost_compare_and_set_changes_nothing(self):
        for marks in (LEDGER, BOTH):
            for status, end, kept in ROBBERIES:
                job = f"robbed: {status}, {end}"
                self.job_script(job, ROB.format(status=status, end=end))
                self.strike_all(Column(job, marks, job=job, first="clone", ends=(LOST,)), self.one,
                                {status, kept})

    def one(self, strike, statuses):
        strike.kill()
        strike.invariants.lost_compare_and_set(strike.invariants.look(), statuses)


if __name__ == "__main__":
    main()
