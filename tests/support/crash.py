"""What the crash suites share: a small world of files, one strike at it, and what may be seen then.

    class Example(CrashCase):
        def test_column(self):
            self.strike_all(Column("cautious/both", marks=BOTH, known=True), self.one)

        def one(self, strike):                # a subTest of its own for every point
            strike.kill()                     # the world is as it was, then oncerun dies there
            strike.invariants.at_the_kill(strike.before)
            ...

A world is one folder: a ledger, a state file or both, the effects of the job and what its command
saw. It is put back byte for byte before every strike, into the same files: an owner's life is tied to
the inode of its liveness file.

The job is a script that looks at the marks from outside before it has its effect, so that "a durable
pending before the start" is not oncerun's own word. All it says goes into files of one line each,
appended by one write.
"""

import collections
import dataclasses
import fcntl
import os
import select
import shutil
import signal
import sqlite3
import sys
import tempfile

from invariants import Invariants
from oncerun_test import DATE, DONE, EARLIER, JOB, Case
from system_calls import killed_at, points, traced

LEDGER, STATE, BOTH = "ledger", "state file", "ledger and state file"
FULL = bool(os.environ.get("ONCERUN_TEST_FULL"))
GUARANTEES = ("cautious", "at-least-once", "at-most-once")
OTHER_JOB = "reconcile"

# Where a mark, a start or an end becomes visible to others: struck more often than the rest.
KEY_CALLS = {"fdatasync", "fsync", "rename", "renameat", "renameat2", "link", "linkat", "clone",
             "clone3", "vfork", "wait4", "waitid", "exit_group", "ftruncate"}
KEY_STEP, OTHER_STEP = 7, 90

# flock on a descriptor that the whole tree inherits says whether another tree lives.
JOB_SCRIPT = r"""
cd "$D/w" || exit 99
exec 9>live
flock -n 9 || echo "$ONCERUN_RUN_ID" >>overlaps
row=none state=none
if [ "$W_LEDGER" != none ]; then
  row=$(sqlite3 -readonly "$W_LEDGER" "SELECT status||' '||run_id||' '||fencing_token FROM job_run
    WHERE job_name = '$ONCERUN_JOB' AND biz_date = '$ONCERUN_BIZ_DATE'")
fi
[ -z "$W_STATE" ] || state=$(tr -d '\n' <"$W_STATE")
echo "$ONCERUN_RUN_ID|$ONCERUN_TOKEN|$ONCERUN_BIZ_DATE|$row|$state" >>starts
"""
EFFECT = 'echo "e$ONCERUN_GENERATION" >>eff\n'
SUCCESS = 'echo "$ONCERUN_GENERATION" >>ends\nexit 0\n'

# Present only if the effect of this generation is there; it says aloud what it found.
CHECK_SCRIPT = r"""
cd "$D/w" || exit 99
if grep -qx "e$ONCERUN_GENERATION" eff 2>/dev/null; then echo present >>said; exit 0; fi
exit 10
"""


@dataclasses.dataclass
class Column:
    """One column of the matrix: how the struck run is called, and from what world."""

    name: str
    marks: str = BOTH
    known: bool = True
    args: tuple = ()
    job: str = "job"
    check: bool = False
    date: str = DATE
    subcommand: tuple = ()
    ends: tuple = (DONE,)
    prepare: object = None
    offset: int = 0


class World:
    """The files of one folder as they are at one moment, and the way back to them."""

    def __init__(self, folder):
        self._folder = folder
        self._files = {}
        self._folders = []
        for path, folders, files in os.walk(folder):
            self._folders += [os.path.join(path, name) for name in folders]
            for name in files:
                with open(os.path.join(path, name), "rb") as file:
                    self._files[os.path.join(path, name)] = (os.fstat(file.fileno()).st_mode, file.read())

    def put_back(self):
        for path, folders, files in os.walk(self._folder, topdown=False):
            for name in files:
                if os.path.join(path, name) not in self._files:
                    os.unlink(os.path.join(path, name))
            for name in folders:
                if os.path.join(path, name) not in self._folders:
                    os.rmdir(os.path.join(path, name))
        for folder in self._folders:
            os.makedirs(folder, exist_ok=True)
        for path, (mode, content) in self._files.items():
            # Not truncated on opening: the inode stays, and so does the id that it is part of.
            with open(os.open(path, os.O_RDWR | os.O_CREAT, mode & 0o7777), "r+b") as file:
                file.truncate(len(content))
                file.write(content)


class Strike:
    """One point of one column."""

    def __init__(self, case, column, point, usual):
        self.case, self.column, self.point = case, column, point
        self.invariants = Invariants(case, column, point, usual)
        self.hit = False
        self.before = None

    def kill(self, together=False):
        """Oncerun dies there; `together`: and at once all that it started. Returns when none lives."""
        self.start()
        if together:
            self.end_the_rest()
        self.case.nobody_left()

    def start(self):
        """Oncerun dies there; what it started may live on."""
        self.case.world.put_back()
        self.before = self.invariants.look()
        self.run = self.case.call(self.column, prefix=killed_at(self.point))
        self.run.wait(60)
        self.hit = self.run.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
        if not self.hit:
            self.case.assertIn(self.run.returncode, self.column.ends,
                               f"{self.column.name} {self.point}: {self.run.err}")

    def end_the_rest(self):
        """SIGKILL to the command and all of its tree: they share the session of the struck run."""
        try:
            os.killpg(self.run.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class CrashCase(Case):
    """A Case with one world in the folder w, and a count of the points it tried."""

    counts = collections.OrderedDict()

    def setUp(self):
        super().setUp()
        self.need("strace", "sqlite3", "flock")
        self.w = self.path("w")
        os.mkdir(self.w)
        self.led, self.st = os.path.join(self.w, "led.db"), os.path.join(self.w, "st.json")
        self.job_script("job", EFFECT + SUCCESS)
        self.check = self.script("check", CHECK_SCRIPT)
        self.world = self._alive = None

    def tearDown(self):
        if self._alive is not None:
            os.close(self._alive)
        super().tearDown()

    @classmethod
    def setUpClass(cls):
        cls.counts = collections.OrderedDict()

    @classmethod
    def tearDownClass(cls):
        tried = sum(count[0] for count in cls.counts.values())
        there = sum(count[1] for count in cls.counts.values())
        for name, (some, all_of_them, missed) in cls.counts.items():
            print(f"points: {some} of {all_of_them}, {missed} not reached: {name}", file=sys.stderr)
        print(f"points: {tried} of {there} ({'full' if FULL else 'sample'}) in {len(cls.counts)} "
              f"columns: {cls.__name__}", file=sys.stderr)

    # The world

    def job_script(self, name, text):
        return self.script(name, JOB_SCRIPT + text)

    def use(self, marks):
        """Which marks there are from here on."""
        self.marks = marks
        self.env["W_LEDGER"] = "none" if marks == STATE else self.led
        self.env["W_STATE"] = "" if marks == LEDGER else self.st

    def prepare(self, column):
        """The world of a column as every strike finds it."""
        shutil.rmtree(self.w)
        os.mkdir(self.w)
        self.use(column.marks)
        if column.known:
            self.plain(column, date=EARLIER)
            if column.marks != STATE:
                self.assertExit(self.oncerun(job=OTHER_JOB, state=None, command=["true"]), DONE)
            for name in ("starts", "eff", "ends", "live"):
                os.unlink(os.path.join(self.w, name))
        if column.prepare:
            column.prepare()
        self.world = World(self.w)

    def noted(self, name):
        """The lines of one of the job's files."""
        return self.lines(os.path.join("w", name))

    def ledger_as_it_stands(self):
        """Runs, attempts and integrity of the ledger; of a copy, since whoever opens a database after
        a crash repairs it, and that is left to the next start."""
        if not os.path.exists(self.led):
            return [], [], "ok"
        folder = tempfile.mkdtemp(prefix="look-", dir=self.dir)
        for end in ("", "-wal", "-journal"):
            if os.path.exists(self.led + end):
                shutil.copyfile(self.led + end, os.path.join(folder, "led.db" + end))
        connection = sqlite3.connect(os.path.join(folder, "led.db"), isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            runs, attempts = [], []
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'job_run'").fetchone():
                runs = connection.execute("SELECT * FROM job_run ORDER BY job_name, biz_date").fetchall()
                attempts = connection.execute("SELECT * FROM job_attempt ORDER BY serial").fetchall()
            integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
        finally:
            connection.close()
            shutil.rmtree(folder)
        return [dict(row) for row in runs], [dict(row) for row in attempts], integrity

    # Calls

    def call(self, column, prefix=(), **kw):
        """Starts what the column strikes; `nobody_left` then waits for the end of all of it."""
        if column.subcommand:
            return self._watched([*prefix, self.binary, *column.subcommand])
        argv = self.argv(*column.args, prefix=prefix, check=self.check if column.check else None,
                         date=column.date, command=[self.path(column.job)], **self.marked(), **kw)
        return self._watched(argv)

    def marked(self):
        return {"ledger": "none" if self.marks == STATE else self.led,
                "state": None if self.marks == LEDGER else self.st}

    def plain(self, column, *args, check=False, date=None, job="job"):
        """One invocation that nobody disturbs, and the end of all that it started."""
        argv = self.argv(*args, check=self.check if check else None, date=date or column.date,
                         command=[self.path(job)], **self.marked())
        result = self._watched(argv).end()
        self.nobody_left()
        return result

    def _watched(self, argv):
        """All that descends from it holds the writing end of a pipe: its end is the end of all."""
        if self._alive is not None:
            os.close(self._alive)
        self._alive, writer = os.pipe()
        # Above the descriptors that a shell script names.
        held = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, 100)
        os.close(writer)
        try:
            return self.spawn(argv, pass_fds=(held,))
        finally:
            os.close(held)

    def anybody_left(self, seconds=0.0):
        """Whether a process of the last call still lives after that time."""
        return not select.select([self._alive], [], [], seconds)[0]

    def nobody_left(self):
        if self.anybody_left(30):
            self.fail("processes of the struck run live on")

    # Strikes

    def strike_all(self, column, act, *args):
        """`act(strike, …)` for every chosen point of the column, each in a subTest of its own."""
        self.prepare(column)
        usual = self._undisturbed(column)
        found = points(self.path("trace"))
        chosen = found if FULL else sample(found, column.offset)
        missed = 0
        for point in chosen:
            with self.subTest(column=column.name, point=tuple(point)):
                strike = Strike(self, column, point, usual)
                act(strike, *args)
                missed += not strike.hit
        self.counts[column.name] = (len(chosen), len(found), missed)
        # A run is not the same system calls every time, but nearly.
        self.assertLessEqual(missed, 2 + len(chosen) // 10, "these strikes missed: they prove little")

    def _undisturbed(self, column):
        """The state documents of a run that nobody disturbs; its trace names the points."""
        self.world.put_back()
        before = self.read(self.st)
        run = self.call(column, prefix=traced(self.path("trace")))
        self.assertIn(run.wait(60), column.ends, run.err)
        self.nobody_left()
        seen = [line.split("|", 4)[4] for line in self.noted("starts")]
        return [before, *(text.encode() for text in seen if text != "none"), self.read(self.st)]


def sample(found, offset):
    """A fixed part of the points: none before main; every KEY_STEPth of the key calls and every
    OTHER_STEPth of the others, from another offset in each column."""
    main = next(i for i, point in enumerate(found) if point.name == "fcntl")
    keys = [point for point in found[main:] if point.name in KEY_CALLS]
    others = [point for point in found[main:] if point.name not in KEY_CALLS]
    chosen = set(keys[offset % KEY_STEP::KEY_STEP] + others[offset * 13 % OTHER_STEP::OTHER_STEP])
    return [point for point in found if point in chosen]
