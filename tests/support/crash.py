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

import ast
import collections
import dataclasses
import fcntl
import os
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

from invariants import Invariants, Ledger
import oncerun_test
from oncerun_test import DATE, DONE, EARLIER, HELD, Case
from system_calls import killed_at, points, traced

LEDGER, STATE, BOTH = "ledger", "state file", "ledger and state file"
FULL = bool(os.environ.get("ONCERUN_TEST_FULL"))
GUARANTEES = ("cautious", "at-least-once", "at-most-once")
OTHER_JOB = "reconcile"

# Where a mark, a start or an end becomes visible to others: struck more often than the rest.
KEY_CALLS = {"fdatasync", "fsync", "rename", "renameat", "renameat2", "link", "linkat", "clone",
             "clone3", "vfork", "wait4", "waitid", "exit_group", "ftruncate", "socketpair", "sendto",
             "recvfrom"}
KEY_STEP, OTHER_STEP = 12, 180

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
    known: bool = True       # whether the world knows the job: its first run ever takes another way
    guarantee: str = "cautious"
    checked: bool = False    # by an honest check
    check: str = None        # another one, in the struck run
    args: tuple = ()         # further options, of the struck run and of the next one
    once: tuple = ()         # options of the struck run alone
    job: str = "job"
    next_job: str = None     # the job of the next invocation, where it is another one
    subcommand: tuple = ()   # struck instead of a run
    ends: tuple = (DONE,)    # how the struck run ends where nobody disturbs it
    prepare: object = None   # () -> None: what else happened in the world
    arrange: object = None   # () -> None: what goes on beside each strike
    undisturbed: object = None  # () -> None: what only the undisturbed run needs
    seen: tuple = ()         # state documents that others write meanwhile
    first: str = None        # only the points from the first call of that name on
    last: str = None         # and up to the first call of that name after it

    def named(self):
        check = "honest check" if self.checked else "no check"
        return f"{self.name}, {self.guarantee}, {check}, {self.marks}"


class World:
    """The files of one folder as they are at one moment, and the way back to them."""

    def __init__(self, folder):
        self._folder = folder
        self._files = {}
        self._folders = []
        for path, folders, _ in os.walk(folder):
            self._folders += [os.path.join(path, name) for name in folders]
        for path in files_below(folder):
            with open(path, "rb") as file:
                self._files[path] = (os.fstat(file.fileno()).st_mode, file.read())

    def put_back(self):
        for path in files_below(self._folder):
            if path not in self._files:
                os.unlink(path)
        for path, folders, _ in os.walk(self._folder, topdown=False):
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


def files_below(folder):
    return [os.path.join(path, name) for path, _, files in os.walk(folder) for name in files]


class Strike:
    """One point of one column."""

    def __init__(self, case, column, point, usual):
        self.case, self.column, self.point = case, column, point
        self.invariants = Invariants(case, column, point, usual)
        self.hit = False
        self.before = self.run = None

    def kill(self, together=False):
        """Oncerun dies there; `together`: and at once all that it started. Returns when none lives."""
        self.start()
        if together:
            self.end_the_rest()
        self.case.nobody_left()

    def start(self):
        """Oncerun dies there; what it started may live on."""
        self.case.world.put_back()
        if self.column.arrange:
            self.column.arrange()
        self.before = self.invariants.look()
        self.run = self.case.call(self.column, prefix=killed_at(self.point))
        self.run.wait(60)
        self.hit = self.run.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
        if not self.hit:
            self.case.assertIn(self.run.returncode, self.column.ends,
                               f"{self.column.named()} {self.point}: {self.run.err}")

    def end_the_rest(self):
        """SIGKILL to the command and all of its tree: they share the session of the struck run."""
        kill_session(self.run)

    def settle(self):
        """Nothing of the run lives: one plain invocation, and then nothing changes any more."""
        judge, column = self.invariants, self.column
        killed = judge.at_the_kill(self.before)
        again = self.case.plain(column)
        settled = judge.after(self.before, again, killed)
        if again.returncode == HELD:
            judge.a_hold_can_be_ended(self.case.plain(column, guarantee="at-least-once"))
        else:
            judge.done_never_changes(settled, self.case.plain(column))


def kill_session(process):
    """SIGKILL to whatever lives in the session that a test's process began."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class CrashCase(Case):
    """A Case with one world in the folder w, and a count of the points it tried."""

    column_step = 1  # the sample strikes at every so manieth column
    counts = collections.OrderedDict()
    columns_seen = 0

    def setUp(self):
        super().setUp()
        self.need("strace", "sqlite3", "flock")
        self.w = self.path("w")
        os.mkdir(self.w)
        self.led, self.st = os.path.join(self.w, "led.db"), os.path.join(self.w, "st.json")
        self.job_script("job", EFFECT + SUCCESS)
        self.check = self.script("check", CHECK_SCRIPT)
        self.world = None
        self.usual_words = ""  # on stderr, of the column's undisturbed run
        self._alive = []
        self.addCleanup(lambda: [os.close(pipe) for pipe in self._alive])

    @classmethod
    def setUpClass(cls):
        cls.counts, cls.columns_seen = collections.OrderedDict(), 0
        # A kill loses nothing that the kernel has, so the sample need not wait for a disk.
        if not FULL and os.access("/dev/shm", os.W_OK) and not os.statvfs("/dev/shm").f_flag & os.ST_NOEXEC:
            tempfile.tempdir = "/dev/shm"

    @classmethod
    def tearDownClass(cls):
        tried = sum(count[0] for count in cls.counts.values())
        there = sum(count[1] for count in cls.counts.values())
        for name, (some, all_of_them, missed) in cls.counts.items():
            print(f"points: {some} of {all_of_them}, {missed} not reached: {name}", file=sys.stderr)
        if there:
            print(f"points: {tried} of {there} ({'full' if FULL else 'sample'}) in {len(cls.counts)} of "
                  f"{cls.columns_seen} columns: {cls.__name__}", file=sys.stderr)

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
            self.assertExit(self.plain(column, date=EARLIER, job="job"), DONE)
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
            return Ledger([], [], [], "ok")
        folder = tempfile.mkdtemp(prefix="look-", dir=self.dir)
        for end in ("", "-wal", "-journal"):
            if os.path.exists(self.led + end):
                shutil.copyfile(self.led + end, os.path.join(folder, "led.db" + end))
        connection = sqlite3.connect(os.path.join(folder, "led.db"), isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            runs, attempts, effects = [], [], []
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'job_run'").fetchone():
                runs = connection.execute("SELECT * FROM job_run ORDER BY job_name, biz_date").fetchall()
                attempts = connection.execute("SELECT * FROM job_attempt ORDER BY serial").fetchall()
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'effect'").fetchone():
                effects = connection.execute("SELECT 'e' || generation FROM effect").fetchall()
            integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
        finally:
            connection.close()
            shutil.rmtree(folder)
        return Ledger([dict(row) for row in runs], [dict(row) for row in attempts],
                      [row[0] for row in effects], integrity)

    def preloadable(self, name):
        """A library made of that file of this folder, to be preloaded into oncerun."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skip("needs a C compiler")
        with open(oncerun_test.BINARY, "rb") as file:
            if b"/ld-" not in file.read(4096):
                self.skip("a static binary cannot be preloaded")
        library = self.path(os.path.splitext(name)[0] + ".so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        return library

    # Calls

    def call(self, column, prefix=()):
        """Starts what the column strikes; `nobody_left` then waits for the end of all of it."""
        if column.subcommand:
            return self.watched([*prefix, self.binary, *column.subcommand])
        return self.watched(self.run_argv(column, *column.once, prefix=prefix, check=column.check))

    def plain(self, column, *args, **kw):
        """One invocation that nobody disturbs, and the end of all that it started."""
        kw.setdefault("job", column.next_job)
        result = self.watched(self.run_argv(column, *args, **kw)).end()
        self.nobody_left()
        return result

    def run_argv(self, column, *args, guarantee=None, date=DATE, job=None, prefix=(), check=None):
        marks = {"ledger": "none" if self.marks == STATE else self.led,
                 "state": None if self.marks == LEDGER else self.st}
        check = (check or self.check) if column.checked else None
        return self.argv("-g", guarantee or column.guarantee, *column.args, *args, prefix=prefix,
                         check=check, date=date, command=[self.path(job or column.job)], **marks)

    def watched(self, argv, pass_fds=(), env=None):
        """All that descends from it holds the writing end of a pipe: its end is the end of all."""
        reader, writer = os.pipe()
        self._alive.append(reader)
        # Above the descriptors that a shell script names.
        held = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, 100)
        os.close(writer)
        said = self.path(f"said{len(self._alive)}")
        with open(said, "wb") as file:
            try:
                process = self.spawn(argv, pass_fds=(held, *pass_fds), env=env,
                                     stdout=subprocess.DEVNULL, stderr=file)
            finally:
                os.close(held)
        process.alive, process.err_path = reader, said
        return process

    @staticmethod
    def lives(process, seconds=0.0):
        """Whether anything that descends from a watched process still lives after that time."""
        return not select.select([process.alive], [], [], seconds)[0]

    def nobody_left(self):
        """Waits for the end of all that was watched."""
        while self._alive:
            if not select.select([self._alive[-1]], [], [], 30)[0]:
                self.fail("processes of a struck run live on")
            os.close(self._alive.pop())
        self.wait_for(self._nothing_locked, what="the locks of ended processes to be free")
        self._started = [process for process in self._started if process.poll() is None]

    def _nothing_locked(self):
        """The kernel closes an ended process's files one by one: the pipe perhaps before a lock."""
        with open("/proc/locks", encoding="ascii") as file:
            locked = {line.split()[-3].rpartition(":")[2] for line in file}
        return not any(str(os.lstat(path).st_ino) in locked for path in files_below(self.w))

    def _clear_away(self):
        """Ends what a failed point left, so that it is the only one to fail."""
        self._end_processes()
        while self._alive:
            os.close(self._alive.pop())

    # Strikes

    def strike_all(self, column, act, *args):
        """`act(strike, …)` for every chosen point of the column, each in a subTest of its own."""
        number = self._number_of_column()
        if not FULL and number % self.column_step:
            return
        self.prepare(column)
        usual = self._undisturbed(column)
        found = part(points(self.path("trace")), column.first, column.last)
        chosen = found if FULL else sample(found, number)
        missed = 0
        for point in chosen:
            with self.subTest(column=column.named(), point=tuple(point)):
                strike = Strike(self, column, point, usual)
                act(strike, *args)
                missed += not strike.hit
            if self._alive:
                self._clear_away()
        self.counts[column.named()] = (len(chosen), len(found), missed)
        self.assertLessEqual(missed, most_misses(len(chosen)), "these strikes missed: they prove little")

    def _number_of_column(self):
        type(self).columns_seen += 1
        return self.columns_seen - 1

    def _undisturbed(self, column):
        """The state documents that a run writes which nobody disturbs; its trace names the points."""
        self.world.put_back()
        if column.arrange:
            column.arrange()
        if column.undisturbed:
            column.undisturbed()
        before = self.read(self.st)
        run = self.call(column, prefix=[*traced(self.path("trace")), "-s", "4096"])
        self.assertIn(run.wait(60), column.ends, run.err)
        self.nobody_left()
        self.usual_words = run.err
        return [before, self.read(self.st), *column.seen, *documents(self.lines("trace"))]


def main():
    """Runs the suite in a pid namespace of its own where that can be had: who looks for a dead owner's
    processes walks through /proc, and that walk should be the same in every run, and short."""
    alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.environ.get("ONCERUN_TEST_ALONE"):
        oncerun_test.main()
    os.environ["ONCERUN_TEST_ALONE"] = "yes"
    if subprocess.run([*alone, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        print("no pid namespace here: points after a walk through /proc are not exact", file=sys.stderr)
        os.environ["ONCERUN_TEST_ALONE"] = "no"
        oncerun_test.main()
    # The shell is what inherits and reaps the orphans.
    os.execvp("unshare", [*alone, "sh", "-c", '"$@" & wait $!', "sh", sys.executable, *sys.argv])


def most_misses(tried):
    """How many points may be passed by: a run is not the same system calls every time, but nearly.
    Among other processes a walk through /proc is as long as there are many, and half may be missed."""
    alone = os.environ.get("ONCERUN_TEST_ALONE") != "no"
    return 2 + (tried // 10 if alone else tried // 2)


def documents(trace):
    """What a traced run wrote that is a state document."""
    found = (re.search(r'pwrite64\(\d+, ("\{\\n.*\\n\}\\n"), ', line) for line in trace)
    return [ast.literal_eval(match.group(1)).encode() for match in found if match]


def part(found, first, last):
    """The points, or pairs with a point, from the first call of one name to the next of another."""
    names = [getattr(entry, "name", entry[0]) for entry in found]
    names = [getattr(name, "name", name) for name in names]
    start = names.index(first) if first else 0
    return found[start:names.index(last, start) + 1] if last else found[start:]


def sample(found, offset):
    """A fixed part of the points: none of the loader's; every KEY_STEPth of the key calls and every
    OTHER_STEPth of the others, in each column from another offset; at least one."""
    main = next((i for i, point in enumerate(found) if point.number == 1 and point.name == "fcntl"), 0)
    keys = [point for point in found[main:] if point.name in KEY_CALLS]
    others = [point for point in found[main:] if point.name not in KEY_CALLS]
    chosen = set(keys[offset % KEY_STEP::KEY_STEP] + others[offset * 13 % OTHER_STEP::OTHER_STEP])
    if not chosen and found:
        chosen = {found[offset % len(found)]}
    return [point for point in found if point in chosen]
