"""One system call of a run fails once: how that is done, and what must hold then.

    class Example(FaultCase):
        def test_column(self):
            self.fault_all(Column("later run", BOTH), self.one)

        def one(self, fault):             # a subTest of its own for every point and error
            fault.strike()
            fault.judge(DONE)             # as an undisturbed run ends
            fault.settle_once()
"""

import errno
import json
import os
import re

from crash import FULL, KEY_CALLS, CrashCase, Strike, most_misses, part
from oncerun_test import DATE, DONE, EARLIER, HELD, UNAVAILABLE, UNRECORDED, UNWRITABLE
from plausible import errors_of
from system_calls import LOOKUPS, call_of, calls, failed_at, paths_of

KEY_STEP, OTHER_STEP = 6, 60

SYNCS = ("fsync", "fdatasync")

NAMING = ("openat", "rename", "renameat", "renameat2", "link", "linkat", "mkdir", "mkdirat")
STARTING = ("clone", "clone3", "vfork")

# What may come of a fault besides the run's own end: never a crash nor an internal error.
BEFORE_THE_START = {UNAVAILABLE, UNWRITABLE, HELD}
AFTER_THE_START = {UNRECORDED}

# What has no file is told by what it is.
NO_FILE = {
    "brk": ("memory",), "mmap": ("memory",), "madvise": ("memory",),
    "clone": ("could not be started", "cannot run /bin/sh"),
    "signalfd4": ("a signalfd",),
}


class Fault(Strike):
    """One error at one point."""

    def __init__(self, case, column, point, error, usual, after_start=False):
        super().__init__(case, column, point, usual)
        self.error = error
        self.words, self.log, self.struck = "", [], None
        self.after_start = after_start  # the point comes after the clone of the command

    def must(self, truth, name, detail):
        if not truth:
            self.case.fail(f"{name}: column {self.column.named()}, {self.point.name}#"
                           f"{self.point.number} = {self.error}: {detail}\n{self.words}")

    def strike(self):
        """The run with its fault, and the end of all that it started."""
        self.strike_only()
        self.nothing_lives()

    def nothing_lives(self):
        self.case.nobody_left()
        self.now = self.invariants.always(self.before)

    def strike_only(self):
        """The run with its fault; what it started may live on."""
        self.case.world.put_back()
        if self.column.arrange:
            self.column.arrange()
        self.before = self.invariants.look()
        self.there = names_below(self.case.w)
        told = failed_at(self.point, self.error, self.case.path("log"), *SYNCS, *NAMING)
        self.run = self.case.call(self.column, prefix=told)
        self.code = self.run.wait(60)
        self.words = self.run.err
        self.log = self.case.lines("log")
        self.struck = next((at for at, line in enumerate(self.log) if "(INJECTED)" in line), None)
        self.hit = self.struck is not None

    def judge(self, usual_code):
        self.may_end(usual_code)
        usual_words = without_pids(self.words) == without_pids(self.case.usual_words)
        if self.error == "EINTR":
            self.must(self.code == usual_code and usual_words, "EINTR changes nothing",
                      f"exit {self.code}")
        if self.code == DONE:
            done = self.now.mark and self.now.mark.status == "done"
            self.must(done and self.now.effects, "success is never reported without a durable done",
                      self.now)
            self.synced_after_all()
        if self.code != usual_code or not usual_words:
            self.names_file_and_error()
        self.state_whole()

    def may_end(self, usual_code):
        """The codes that say "nothing was started" and "the result could not be recorded" are told
        apart by what the command itself noted, and by where the fault was."""
        started = len(self.now.starts) > len(self.before.starts)
        others = set() if started else BEFORE_THE_START
        if self.after_start:
            others = others | AFTER_THE_START
        self.must(self.code == usual_code or self.code in others, "exit codes are those of the manual",
                  f"exit {self.code}; {'started' if started else 'nothing started'}, and the fault came "
                  f"{'after' if self.after_start else 'before'} the clone")

    def names_file_and_error(self):
        """One line on stderr has the words of the error and what the call was asked for."""
        # What cannot be written on stderr cannot be told there.
        if not self.hit or self.log[self.struck].startswith("write(2<"):
            return
        error = os.strerror(getattr(errno, self.error))
        if call_of(self.log[self.struck]) == "openat" and f'{self.case.led}-shm"' in self.log[self.struck]:
            # SQLite then opens it for reading, with success, and the cause is lost with it.
            error = f"({error}|attempt to write a readonly database)"
        else:
            error = re.escape(error)
        names = names_for(self.log[self.struck], self.case.led, self.case.st)
        self.must(any(re.search(error, line) and any(has_name(line, name) for name in names)
                      for line in self.words.splitlines()),
                  "every message names the file and the error", f"not: {error}, and one of {names}")

    def synced_after_all(self):
        """A failed sync is followed by "ok" only if the same file was synced later, or if it is the
        projection, whose failure is said. Of a folder the sync counts that follows the last new name
        in it, also where that came before the one that failed."""
        if self.point.name not in SYNCS or not self.hit:
            return
        target = paths_of(self.log[self.struck])[0]
        counted = self.log[self.struck:]
        if os.path.isdir(target):
            named = [at for at, line in enumerate(self.log) if self.names_anew(line, target)]
            counted = self.log[named[-1] + 1 if named else 0:]
        # A temporary file has no name yet; a second try writes another one.
        pattern = re.escape(target) if "/#" not in target else r"[^>]*/#\d+"
        synced = any(re.match(rf"(fsync|fdatasync)\(\d+<{pattern}>.* = 0$", line) for line in counted)
        self.must(synced or self.error == "EINTR" or "state file was not" in self.words,
                  "a failed sync is never followed by ok", self.log[self.struck])

    def names_anew(self, line, folder):
        """Whether the call made a name in that folder that was not there before the run."""
        if call_of(line) not in NAMING or " = -1 " in line or "= ?" in line:
            return False
        if call_of(line) == "openat" and "O_CREAT" not in line:
            return False
        name = paths_of(line)[-1]
        there = name in self.there and "rename" not in call_of(line)
        return os.path.dirname(name) == folder and not there

    def state_whole(self):
        """Readable by any JSON reader, and with no other dates than those of the runs."""
        text = self.case.read(self.case.st)
        if text is not None:
            try:
                document = json.loads(text)
            except ValueError:
                document = {}
            self.must(document.get("status") in ("pending", "done", "failed", "unknown")
                      and {document.get("pendingDate"), document.get("lastPublishedDate")}
                      <= {None, EARLIER, DATE},
                      "the state file is wholly old or wholly new", text)

    def settle_once(self):
        """One later plain invocation: the effect exactly once, whatever failed."""
        again = self.case.plain(self.column)
        now = self.invariants.always(self.before)
        self.must(again.returncode == DONE and now.effects == ["e1"],
                  "one fault is mended by the next start",
                  f"exit {self.code}, then {again.returncode}, effects {now.effects}: {again.stderr}")
        self.invariants.no_temporary_files()


class FaultCase(CrashCase):
    def job_script(self, name, text):
        return super().job_script(name, 'echo $$ >>"$D/pids"\n' + text)

    def after_start_of_command(self, passed):
        """The points after the clone that returned the pid of a command: not that of a check."""
        pids = set(self.lines("pids"))
        for at, (point, line) in enumerate(passed):
            if point.name in STARTING and line.rpartition(" = ")[2] in pids:
                return {later for later, _ in passed[at + 1:]}
        return set()

    def fault_all(self, column, act):
        """`act(fault)` for every chosen fault of the column, each in a subTest of its own."""
        number = self._number_of_column()
        self.prepare(column)
        usual = self._undisturbed(column)
        passed = after_main(calls(self.path("trace")))
        later = self.after_start_of_command(passed)
        passed = part(passed, column.first, column.last)
        found = [(point, error) for point, line in passed for error in errors_of(point, line)]
        chosen = found if FULL else sample(found, number)
        missed = 0
        for point, error in chosen:
            with self.subTest(column=column.named(), point=tuple(point), error=error):
                fault = Fault(self, column, point, error, usual, point in later)
                act(fault)
                missed += not fault.hit
            if self._alive:
                self._clear_away()
        self.counts[column.named()] = (len(chosen), len(found), missed)
        self.assertLessEqual(missed, most_misses(len(chosen)), "these faults missed: they prove little")


def names_below(folder):
    return {os.path.join(path, name) for path, folders, files in os.walk(folder)
            for name in [*folders, *files]}


def names_for(line, ledger, state):
    """By what a message may name what the call of this line was asked for. Where oncerun says another
    name than the kernel's, it is one of these:

    - the ledger, for SQLite's files beside it, and for the folders above it that SQLite looks at;
    - the file whose path was resolved, for the folders above it;
    - "the folder of FILE", for a folder that is synced for the sake of a file in it;
    - the state file, for a temporary one that is to replace it;
    - "/proc: PID/FILE", or "a folder of processes", in a search for what lives.
    """
    name = call_of(line)
    targets = [path for path in paths_of(line) if path.startswith("/")]
    if not targets:
        return NO_FILE.get(name, ())
    found = []
    for target in targets:
        folder, base = os.path.split(target)
        found.append(target)
        if target in [ledger + end for end in ("-wal", "-shm", "-journal")]:
            found.append(ledger)
        if name in LOOKUPS:
            found += [path for path in (ledger, state, os.path.dirname(ledger))
                      if path.startswith(target.rstrip("/") + "/")]
        if folder == os.path.dirname(state) and re.match(r"#\d+$|\." + re.escape(
                os.path.basename(state)) + r"\.oncerun-", base):
            found.append(state)
        if name in (*SYNCS, "openat"):
            found += [f"the folder of {path}" for path in (ledger + "-spool", state)
                      if os.path.dirname(path) == target]
        if re.match(r"/proc(/\d+(/|$)|$)", target):
            found += ["/proc: " + target[6:], "/proc: a folder of processes"]
    return found


def has_name(text, name):
    """Whether the name stands there as a whole: led.db is not named by led.db-life."""
    return re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-]|\.\w)", text) is not None


def without_pids(text):
    return re.sub(r"\S+ \(pid \d+\)", "(pid)", text)


def after_main(found):
    """Without the loader's calls: main begins with a look at the standard descriptors."""
    start = next(i for i, (point, _) in enumerate(found) if point.name == "fcntl")
    return found[start:]


def sample(found, offset):
    """A fixed part: every KEY_STEPth fault of a key call, every OTHER_STEPth of the others; at least
    one."""
    keys = [fault for fault in found if fault[0].name in KEY_CALLS]
    others = [fault for fault in found if fault[0].name not in KEY_CALLS]
    chosen = keys[offset % KEY_STEP::KEY_STEP] + others[offset * 13 % OTHER_STEP::OTHER_STEP]
    return chosen or found[offset % len(found):][:1]
