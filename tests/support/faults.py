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

from crash import FULL, KEY_CALLS, CrashCase, Strike, part
from oncerun_test import DATE, DONE, EARLIER, HELD, UNAVAILABLE, UNRECORDED, UNWRITABLE
from plausible import errors_of
from system_calls import calls, failed_at

KEY_STEP, OTHER_STEP = 6, 60

SYNCS = ("fsync", "fdatasync")

# What a fault may come to: the run's own end, or one of these, never a crash nor an internal error.
MAY_END = (DONE, UNAVAILABLE, UNWRITABLE, HELD, UNRECORDED)


class Fault(Strike):
    """One error at one point."""

    def __init__(self, case, column, point, error, usual):
        super().__init__(case, column, point, usual)
        self.error = error

    def must(self, truth, name, detail):
        if not truth:
            self.case.fail(f"{name}: column {self.column.named()}, {self.point.name}#"
                           f"{self.point.number} = {self.error}: {detail}\n{self.run.err}")

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
        self.log = self.case.path("log")
        self.run = self.case.call(self.column, prefix=failed_at(self.point, self.error, self.log, *SYNCS))
        self.code = self.run.wait(60)
        self.hit = "(INJECTED)" in "\n".join(self.case.lines("log"))

    def judge(self, usual_code):
        self.must(self.code in MAY_END or self.code == usual_code, "exit codes are those of the manual",
                  f"exit {self.code}")
        if self.error == "EINTR":
            words = without_pids(self.run.err) == without_pids(self.case.usual_words)
            self.must(self.code == usual_code and words, "EINTR changes nothing",
                      f"exit {self.code}")
        if self.code == DONE:
            done = self.now.mark and self.now.mark.status == "done"
            self.must(done and self.now.effects, "success is never reported without a durable done",
                      self.now)
            self.synced_after_all()
        elif self.code != usual_code:
            self.names_file_and_error()
        self.state_whole()

    def names_file_and_error(self):
        name = "every message names the file and the error"
        words = os.strerror(getattr(errno, self.error))
        no_memory = self.point.name in ("brk", "mmap") and "memory" in self.run.err
        self.must(words in self.run.err or no_memory, name, f"not: {words}")
        # What has no file is named for what it is.
        self.must(no_memory or re.search(r" /\w|a signalfd|could not be started", self.run.err), name,
                  "no file")

    def synced_after_all(self):
        """A failed sync is followed by "ok" only if the same file was synced later, or if it is the
        projection, whose failure is said. Of a folder, one sync is enough: no name comes later."""
        lines = self.case.lines("log")
        failed = next((i for i, line in enumerate(lines) if "(INJECTED)" in line), None)
        if self.point.name not in SYNCS or failed is None:
            return
        target = re.search(r"<([^>]*)>", lines[failed]).group(1)
        counted = lines if os.path.isdir(target) else lines[failed:]
        # A temporary file has no name yet; a second try writes another one.
        pattern = re.escape(target) if "/#" not in target else r"[^>]*/#\d+"
        synced = any(re.search(f"<{pattern}>.* = 0$", line) for line in counted)
        self.must(synced or self.error == "EINTR" or "state file" in self.run.err,
                  "a failed sync is never followed by ok", lines[failed])

    def state_whole(self):
        """Readable by any JSON reader, and with no other dates than those of the runs."""
        text = self.case.read(self.case.st)
        if text is not None:
            document = json.loads(text)
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
    def fault_all(self, column, act):
        """`act(fault)` for every chosen fault of the column, each in a subTest of its own."""
        number = self._number_of_column()
        self.prepare(column)
        usual = self._undisturbed(column)
        passed = part(after_main(calls(self.path("trace"))), column.first, column.last)
        found = [(point, error) for point, line in passed for error in errors_of(point, line)]
        chosen = found if FULL else sample(found, number)
        missed = 0
        for point, error in chosen:
            with self.subTest(column=column.named(), point=tuple(point), error=error):
                fault = Fault(self, column, point, error, usual)
                act(fault)
                missed += not fault.hit
            if self._alive:
                self._clear_away()
        self.counts[column.named()] = (len(chosen), len(found), missed)
        self.assertLessEqual(missed, 2 + len(chosen) // 10, "these faults missed: they prove little")


def without_pids(text):
    return re.sub(r"\S+ \(pid \d+\)", "(pid)", text)


def after_main(found):
    """Without the loader's calls: main begins with a look at the standard descriptors."""
    start = next(i for i, (point, _) in enumerate(found) if point.name == "fcntl")
    return found[start:]


def sample(found, offset):
    """A fixed part: every KEY_STEPth fault of a key call, every OTHER_STEPth of the others."""
    keys = [fault for fault in found if fault[0].name in KEY_CALLS]
    others = [fault for fault in found if fault[0].name not in KEY_CALLS]
    return keys[offset % KEY_STEP::KEY_STEP] + others[offset * 13 % OTHER_STEP::OTHER_STEP]
