"""What the case tests share: the binary as a user calls it, in a folder of the test's own.

    from oncerun_test import Case, BUSY, main

    class Example(Case):
        def test_once(self):
            first = self.oncerun()                      # -j settle -d 2024-10-26 … -- $D/hit
            self.assertExit(first, DONE)
            self.assertEqual(self.runs(), 1)
            self.assertEqual(self.row()["status"], "done")

        def test_a_second_start_is_busy(self):
            gate = self.gate()
            owner = self.start(command=f"{gate.shell}; exit 3")
            gate.wait_started()                         # the job runs
            self.assertExit(self.oncerun(), BUSY)
            gate.go()                                   # let it go on
            self.assertExit(owner.end(), 3)

    if __name__ == "__main__":
        main()

A test sees what a user sees: exit codes, the two streams, the ledger's open tables, the state file,
/proc. It waits on FIFOs and polls (`gate`, `wait_for`, `wait_quiet`), never on a bare sleep. Every
process of a test carries D=<its folder> in its environment; whatever still lives at the end is
ended by pid. Commands given as one text are run by `sh -c`, and see that $D.

ctest sets ONCERUN_BINARY; by hand: ONCERUN_BINARY=… PYTHONPATH=tests/support python3 tests/cli/test_x.py
"""

import ctypes
import functools
import json
import os
import select
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = os.environ.get("ONCERUN_BINARY", "")

# Exit codes by name (oncerun(1), EXIT STATUS).
DONE = 0
USAGE = 64
UNAVAILABLE = 69
INTERNAL = 70
UNWRITABLE = 73
BUSY = 75
BLOCKED = 76
CONFIG = 78
HELD = 80
UNRECORDED = 81
LOST = 82
UNMET = 83
UNCONFIRMED = 84
TIMEOUT = 124
NOT_EXECUTABLE = 126
NOT_FOUND = 127

# A date that has begun on every clock, and its neighbours; the cases' 25th to 28th.
EARLIER, DATE, NEXT, LATER = "2024-10-25", "2024-10-26", "2024-10-27", "2024-10-28"
JOB = "settle"

INSTRUMENTS = ("ASAN_OPTIONS", "UBSAN_OPTIONS")

# Downstream checks.
PRESENT, ABSENT, UNCLEAR = "exit 0", "exit 10", "exit 2"

# Prefixes: the run as another user; the run as the first process of a container.
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]


class Started(subprocess.Popen):
    """A running oncerun; its streams go to files, so that nothing it leaves behind can block us."""

    out_path = err_path = None

    @property
    def out(self):
        with open(self.out_path, errors="replace") as file:
            return file.read()

    @property
    def err(self):
        with open(self.err_path, errors="replace") as file:
            return file.read()

    def end(self, timeout=60):
        """Waits for the end and returns a CompletedProcess."""
        self.wait(timeout)
        return subprocess.CompletedProcess(self.args, self.returncode, self.out, self.err)

    def kill_now(self):
        """SIGKILL to oncerun alone, and its end awaited: what a dead owner is."""
        self.kill()
        return self.end()


class Gate:
    """Two FIFOs: the job says that it has started, and waits until it may go on.

    `shell` is the fragment for the job; it reports the shell's pid. A gate can be passed any number
    of times: one wait_started() and one go() each. Jobs end when the test's gate is gone.
    """

    def __init__(self, folder, name):
        self._started = os.path.join(folder, name + ".started")
        self._go = os.path.join(folder, name + ".go")
        for path in (self._started, self._go):
            os.mkfifo(path)
            os.chmod(path, 0o666)
        # Read-write, so that no open() on either side ever blocks.
        self._started_fd = os.open(self._started, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._go_fd = os.open(self._go, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._text = b""
        self.announce = f"echo $$ >'{self._started}'"
        self.wait = f"read go <'{self._go}' || exit 99"
        # For a shell with traps, whose read a signal interrupts.
        self.patient = f"until read go <'{self._go}'; do :; done"
        self.shell = f"{self.announce}; {self.wait}"

    def wait_started(self, seconds=30):
        """Waits for one start; returns the pid that the job's shell has in its own namespace."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._text:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._started_fd], [], [], left)[0]:
                raise AssertionError(f"the job did not start within {seconds} s")
            self._text += os.read(self._started_fd, 4096)
        line, self._text = self._text.split(b"\n", 1)
        return int(line)

    def has_started(self):
        """Whether a start that was not waited for has been announced."""
        if b"\n" not in self._text and select.select([self._started_fd], [], [], 0)[0]:
            self._text += os.read(self._started_fd, 4096)
        return b"\n" in self._text

    def fileno(self):
        """For select: readable when a start is announced."""
        return self._started_fd

    def go(self):
        os.write(self._go_fd, b"go\n")

    def close(self):
        os.close(self._started_fd)
        os.close(self._go_fd)


class Case(unittest.TestCase):
    maxDiff = None
    job = JOB
    date = DATE

    def setUp(self):
        if not BINARY:
            self.fail("ONCERUN_BINARY does not name the program under test")
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="oncerun-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup(self._end_processes)
        os.chmod(self.dir, 0o755)
        self.led = self.path("led.db")
        self.st = self.path("st.json")
        self._started = []
        self.binary = BINARY
        self.env = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": self.dir,
            "D": self.dir,
        }
        # Where the sanitizers report to (tests/sanitize.sh).
        self.env.update({name: os.environ[name] for name in INSTRUMENTS if name in os.environ})
        self.hit = self.script("hit", 'echo "${1:-run}" >>"$D/runs"\n')

    # Files

    def path(self, name):
        return os.path.join(self.dir, name)

    def script(self, name, text, mode=0o755):
        """Writes an executable shell script into the folder; returns its path."""
        path = self.path(name)
        self.write(path, "#!/bin/sh\n" + text)
        os.chmod(path, mode)
        return path

    def write(self, path, content):
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    def read(self, path):
        """The file's bytes; None if there is no such file."""
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def lines(self, name):
        """The lines of a file in the folder; [] if there is none."""
        return (self.read(self.path(name)) or b"").decode(errors="replace").splitlines()

    def runs(self):
        """How often `hit` ran."""
        return len(self.lines("runs"))

    def state(self, path=None):
        """The state file's document; None if there is no file."""
        text = self.read(path or self.st)
        return None if text is None else json.loads(text)

    def snapshot(self, *names, folder=None):
        """Content, mode, owner, inode and mtime of every file of the folder, or of those named."""
        folder = folder or self.dir
        found = {}
        for name in names or sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            content = self.read(path) if stat.S_ISREG(info.st_mode) else None
            found[name] = (info.st_ino, info.st_mode, info.st_uid, info.st_mtime_ns, content)
        return found

    # The ledger's open format

    def row(self, job=None, date=None, ledger=None):
        """The row of job_run as a dict; None if there is none (or no ledger yet)."""
        rows = self.query("SELECT * FROM job_run WHERE job_name = ? AND biz_date = ?",
                          job or self.job, date or self.date, ledger=ledger)
        return rows[0] if rows else None

    def query(self, sql, *values, ledger=None):
        """Rows as dicts, read through a read-only connection."""
        ledger = ledger or self.led
        if not os.path.exists(ledger):
            return []
        connection = sqlite3.connect(f"file:{ledger}?mode=ro", uri=True, timeout=10)
        try:
            connection.row_factory = sqlite3.Row
            if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                return []  # a first start that came to nothing leaves an empty database
            return [dict(row) for row in connection.execute(sql, values)]
        finally:
            connection.close()

    def execute(self, sql, *values, ledger=None):
        """One statement in its own transaction, as a foreign program would; returns rows changed."""
        connection = sqlite3.connect(ledger or self.led, timeout=10)
        try:
            with connection:
                return connection.execute(sql, values).rowcount
        finally:
            connection.close()

    # The binary

    def argv(self, *args, command=None, check=None, settle="0", job=..., date=..., ledger=...,
             state=..., prefix=()):
        """The whole command line. Ellipsis means the test's default, None leaves an option out."""
        argv = [*prefix, self.binary]
        for option, value, default in (("--job", job, self.job), ("--date", date, self.date),
                                       ("--ledger", ledger, self.led), ("--state", state, self.st)):
            value = default if value is ... else value
            if value is not None:
                argv += [option, value]
        if check is not None:
            argv += ["--check", check]
            if settle is not None:
                argv += ["--check-settle", settle]
        argv += args
        if command is None:
            command = [self.hit]
        elif isinstance(command, str):
            command = ["sh", "-c", command]
        return argv + ["--", *command]

    def start(self, *args, command=None, check=None, settle="0", job=..., date=..., ledger=...,
              state=..., prefix=(), env=None, **kw):
        """Starts a run in a session of its own and returns a Started. `env` is added to the
        environment (a value of None removes); other keywords go to Popen."""
        return self.spawn(self.argv(*args, command=command, check=check, settle=settle, job=job,
                                    date=date, ledger=ledger, state=state, prefix=prefix),
                          env=env, **kw)

    def oncerun(self, *args, timeout=60, **kw):
        """start() and its end, as a CompletedProcess with text stdout and stderr."""
        return self.start(*args, **kw).end(timeout)

    def sub(self, subcommand, *args, ledger=..., env=None, timeout=60, prefix=(), **kw):
        """A subcommand ("status", "ledger accept", …) on the test's ledger."""
        argv = [*prefix, self.binary, *subcommand.split()]
        ledger = self.led if ledger is ... else ledger
        if ledger is not None:
            argv += ["--ledger", ledger]
        return self.spawn(argv + list(args), env=env, **kw).end(timeout)

    def sub_json(self, subcommand, *args, **kw):
        """A subcommand's --json, parsed."""
        result = self.sub(subcommand, *args, "--json", **kw)
        self.assertExit(result, 0)
        return json.loads(result.stdout)

    def resolve(self, *args, job=..., date=..., reason="seen to by hand", **kw):
        return self.sub("resolve", "--job", self.job if job is ... else job,
                        "--date", self.date if date is ... else date, *args,
                        *(["--reason", reason] if reason is not None else []), **kw)

    def spawn(self, argv, env=None, **kw):
        """Any process of the test, with the scrubbed environment and its streams in files."""
        environment = dict(self.env)
        environment.update(env or {})
        environment = {name: value for name, value in environment.items() if value is not None}
        if "strace" in map(str, argv) and is_instrumented(self.binary):
            # The search for leaks traces the process itself, and a process has one tracer only.
            options = environment.get("ASAN_OPTIONS")
            environment["ASAN_OPTIONS"] = f"{options}:detect_leaks=0" if options else "detect_leaks=0"
        # Outside the folder: tests look at what stands in it.
        streams = []
        for name, number in (("stdout", 1), ("stderr", 2)):
            if name not in kw:
                file, path = tempfile.mkstemp(prefix="oncerun-test-out-")
                self.addCleanup(os.unlink, path)
                kw[name] = file
                streams.append((file, number, path))
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("cwd", self.dir)
        kw.setdefault("start_new_session", True)
        try:
            process = Started(argv, env=environment, **kw)
        finally:
            for file, _, _ in streams:
                os.close(file)
        self._started.append(process)
        for _, number, path in streams:
            setattr(process, "out_path" if number == 1 else "err_path", path)
        process.out_path = process.out_path or os.devnull
        process.err_path = process.err_path or os.devnull
        return process

    def share_binary(self):
        """Makes the test run a copy that every user can reach, wherever the build stands."""
        self.binary = os.path.join(tempfile.mkdtemp(prefix="oncerun-test-bin-"), "oncerun")
        self.addCleanup(shutil.rmtree, os.path.dirname(self.binary), ignore_errors=True)
        shutil.copy(BINARY, self.binary)
        os.chmod(os.path.dirname(self.binary), 0o755)

    def gate(self, name="gate"):
        gate = Gate(self.dir, name)
        self.addCleanup(gate.close)
        return gate

    # Waiting

    def at_rest(self, look, seconds=20):
        """Waits until `look()` says the same three times in a row, a tenth of a second apart: an
        owner still tidies up after its command has begun."""
        seen = [look()]

        def same():
            time.sleep(0.1)
            seen.append(look())
            return len(seen) >= 3 and seen[-1] == seen[-2] == seen[-3]

        self.wait_for(same, seconds, "the files to be at rest")

    def wait_for(self, predicate, seconds=30, what="what was expected"):
        """Polls until the predicate is true, and returns its value; fails after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            value = predicate()
            if value:
                return value
            if time.monotonic() > deadline:
                self.fail(f"{what}: not within {seconds} s")
            time.sleep(0.01)

    def wait_quiet(self, seconds=30):
        """Waits until no process of this test is left (a crashed job's last breath)."""
        self.wait_for(lambda: not self.processes(), seconds, "every process of the test to end")

    def processes(self):
        """The pids of this test's processes: those whose environment carries its D."""
        return processes_with(f"D={self.dir}")

    def _end_processes(self):
        deadline = time.monotonic() + 10
        while (pids := self.processes()) and time.monotonic() < deadline:
            for pid in pids:
                kill_if_still(pid, f"D={self.dir}")
            time.sleep(0.01)
        for process in self._started:
            process.wait(10)

    # Surroundings

    def skip(self, reason):
        """Skips, and says why where a reader of the log sees it."""
        print(f"skipped: {self.id()}: {reason}", file=sys.stderr)
        self.skipTest(reason)

    def need_root(self):
        if os.geteuid() != 0:
            self.skip("needs root")

    def need(self, *programs):
        for program in programs:
            if shutil.which(program) is None:
                self.skip(f"needs {program}, which is not installed")

    def need_machine_id(self):
        """Without machine-id(5) no boot can be told to be one of this machine."""
        if not self.read("/etc/machine-id"):
            self.skip("/etc/machine-id is empty or missing")

    def private_mounts(self):
        """From here on this process's mounts are its own and end with it (mount_namespaces(7))."""
        self.need_root()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x00020000) != 0:  # CLONE_NEWNS
            self.skip(f"no private mounts: {os.strerror(ctypes.get_errno())}")
        self.mount("--make-rprivate", "/")

    def need_containers(self):
        """Skips where CONTAINER with a mount namespace cannot be made."""
        self.need_root()
        self.need("unshare")
        probe = self.spawn([*CONTAINER, "--mount", "true"]).end()
        if probe.returncode != 0:
            self.skip(f"no namespaces here: {probe.stderr.strip()}")

    def mount(self, *args):
        """mount(8) with these arguments; what was mounted in the test's folder goes at its end."""
        done = subprocess.run(["mount", *args], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skip(f"cannot mount {' '.join(args)}: {done.stderr.strip()}")
        if args[-1].startswith(self.dir) and "remount" not in " ".join(args):
            self.addCleanup(subprocess.run, ["umount", "-l", args[-1]], check=False,
                            capture_output=True)

    # Assertions

    def assertExit(self, result, code, text=None):
        """The exit code, with the program's words when it differs; `text` must be on stderr."""
        self.assertEqual(result.returncode, code,
                         f"\n{' '.join(map(str, result.args))}\nstdout: {result.stdout}\nstderr: {result.stderr}")
        if text is not None:
            self.assertIn(text, result.stderr)

    def assertStatus(self, status, job=None, date=None):
        row = self.row(job, date)
        self.assertIsNotNone(row, f"no row for {job or self.job} {date or self.date}")
        self.assertEqual(row["status"], status, row)


@functools.cache
def is_instrumented(path):
    """Whether the program has a sanitizer or counters in it: it is larger and slower by far then."""
    with open(path, "rb") as file:
        content = file.read()
    return b"__asan_init" in content or b".gcda" in content


def processes_with(entry):
    """The pids of living processes whose environment has this whole entry; not this process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _carries(int(name), entry):
            found.append(int(name))
    return found


def _carries(pid, entry):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return entry.encode() in file.read().split(b"\0")
    except OSError:
        return False


def kill_if_still(pid, entry, number=signal.SIGKILL):
    """Signals a process only while it is known to be the one meant (no reused pid)."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _carries(pid, entry):
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        os.close(handle)


def child_of(pid):
    """A child of a process (unshare --fork has one); 0 if there is none."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == pid:
                        return int(name)
            except OSError:
                pass
    return 0


def process_state(pid):
    """The letter of proc_pid_stat(5): R, S, T, Z, …; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return None


def default_signals():
    """For preexec_fn: the signals a login shell gives, whatever this test was started from."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def main():
    unittest.main(verbosity=2)
