"""The predicates of the fault suites can fail: each is shown a doctored run, and must name itself."""

from crash import BOTH, Column, main
from faults import Fault, FaultCase
from oncerun_test import BUSY, DONE, HELD, INTERNAL, UNAVAILABLE, UNRECORDED, UNWRITABLE, USAGE
from system_calls import Point, calls, paths_of

CODES = "exit codes are those of the manual"
WORDS = "every message names the file and the error"
SYNC = "a failed sync is never followed by ok"


class Doctored(FaultCase):
    """A world in which one plain run has gone well."""

    def setUp(self):
        super().setUp()
        self.column = Column("doctored", BOTH)
        self.prepare(self.column)
        self.fault = Fault(self, self.column, Point("fsync", 2), "EIO", ())
        self.fault.before = self.fault.invariants.look()
        self.assertExit(self.plain(self.column), DONE)
        self.fault.now = self.fault.invariants.look()
        self.fault.there = {self.led, self.led + "-wal", self.w}
        self.ran = self.fault.now

    def doctor(self, *log, code=DONE, words="", name="fsync", error="EIO", after_start=False, ran=True):
        """What the run is said to have left: `W` in it stands for the folder."""
        fault = self.fault
        fault.point, fault.error, fault.after_start = Point(name, 2), error, after_start
        fault.log = [line.replace("W", self.w) for line in log]
        fault.struck = next((at for at, line in enumerate(log) if "(INJECTED)" in line), None)
        fault.hit = fault.struck is not None
        fault.code, fault.words = code, words.replace("W", self.w)
        fault.now = self.ran if ran else fault.before
        return fault

    def refuses(self, name, act, *args):
        with self.assertRaises(AssertionError) as raised:
            act(*args)
        self.assertTrue(str(raised.exception).startswith(f"{name}: column doctored, "), raised.exception)

    # A failed sync

    FOLDER = "fsync(8<W>) = 0"
    FOLDER_FAILED = "fsync(8<W>) = -1 EIO (Input/output error) (INJECTED)"
    NEW_NAMES = ('renameat(8<W>, ".st.json.oncerun-a1b2c3", 8<W>, "st.json") = 0',
                 'rename("W/new", "W/st.json") = 0',
                 'linkat(AT_FDCWD</>, "/proc/self/fd/9", 8<W>, "st.json", AT_SYMLINK_FOLLOW) = 0',
                 'openat(AT_FDCWD</>, "W/new", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 9<W/new>',
                 'mkdir("W/new", 0700) = 0')

    def test_an_earlier_sync_of_the_folder_excuses_nothing(self):
        for named in self.NEW_NAMES:
            with self.subTest(named=named):
                log = (self.FOLDER, named, self.FOLDER_FAILED)
                self.refuses(SYNC, self.doctor(*log).synced_after_all)
                # Nor when the failed one comes first, and the name after all of them.
                log = (self.FOLDER_FAILED, self.FOLDER, named)
                self.refuses(SYNC, self.doctor(*log).synced_after_all)
                self.doctor(*log, self.FOLDER).synced_after_all()

    def test_a_sync_between_the_last_name_and_the_failed_one_is_enough(self):
        self.doctor(self.NEW_NAMES[0], self.FOLDER, self.FOLDER_FAILED).synced_after_all()

    def test_what_makes_no_name_needs_no_sync(self):
        for other in ('openat(AT_FDCWD</>, "W/led.db", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 9<W/led.db>',
                      'openat(8<W>, ".", O_RDWR|O_CLOEXEC|O_TMPFILE, 0600) = 9<W/#123>(deleted)',
                      'openat(AT_FDCWD</>, "W/new", O_RDWR|O_CREAT, 0600) = -1 EIO (Input/output error)',
                      'openat(AT_FDCWD</>, "/elsewhere/new", O_RDWR|O_CREAT, 0600) = 9</elsewhere/new>'):
            with self.subTest(other=other):
                self.doctor(self.FOLDER, self.FOLDER_FAILED, other).synced_after_all()

    def test_a_file_must_be_synced_later(self):
        failed = "fdatasync(6<W/led.db-wal>) = -1 EIO (Input/output error) (INJECTED)"
        synced = "fdatasync(6<W/led.db-wal>) = 0"
        self.refuses(SYNC, self.doctor(failed).synced_after_all)
        self.refuses(SYNC, self.doctor(synced, failed).synced_after_all)
        self.refuses(SYNC, self.doctor(failed, "fdatasync(6<W/led.db>) = 0").synced_after_all)
        self.refuses(SYNC, self.doctor(failed, 'openat(8<W>, "x", O_RDONLY) = 6<W/led.db-wal>')
                     .synced_after_all)
        self.doctor(failed, synced).synced_after_all()

    def test_only_the_projection_may_stay_behind(self):
        log = (self.NEW_NAMES[0], self.FOLDER_FAILED)
        self.doctor(*log, words="oncerun: the state file was not brought up to date").synced_after_all()
        self.refuses(SYNC, self.doctor(*log, words="oncerun: a state file").synced_after_all)

    # The message

    def names(self, line, good, *bad, error="EIO"):
        for words in bad:
            with self.subTest(words=words):
                self.refuses(WORDS, self.doctor(line, words=words, error=error).names_file_and_error)
        self.doctor(line, words=good, error=error).names_file_and_error()

    def test_the_file_is_the_one_that_failed(self):
        line = "pread64(10<W/led.db-life>, 0x7ff, 73, 0) = -1 EIO (Input/output error) (INJECTED)"
        self.names(line, "oncerun: cannot read W/led.db-life: Input/output error\n",
                   "oncerun: cannot read W/led.db: Input/output error\n",
                   "oncerun: cannot read /etc/machine-id: Input/output error\n",
                   "oncerun: cannot read W/led.db-life2: Input/output error\n",
                   "oncerun: cannot read: Input/output error\n",
                   "oncerun: cannot read W/led.db-life: No space left on device\n",
                   "oncerun: W/led.db-life is well\noncerun: W/led.db: Input/output error\n")

    def test_the_ledger_stands_for_its_own_files_alone(self):
        for file in ("led.db", "led.db-wal", "led.db-shm", "led.db-journal"):
            self.names(f'pwrite64(6<W/{file}>, "7<x>\\0", 24, 32) = -1 EIO (…) (INJECTED)',
                       "oncerun: cannot write the ledger W/led.db (…): Input/output error\n",
                       "oncerun: cannot write W/st.json: Input/output error\n")
        self.names("fdatasync(6<W/led.db-spool>) = -1 EIO (…) (INJECTED)",
                   "oncerun: cannot sync W/led.db-spool (…): Input/output error\n",
                   "oncerun: cannot write the ledger W/led.db (…): Input/output error\n")

    def test_only_the_index_of_the_log_may_lose_its_cause(self):
        lost = "oncerun: cannot write the ledger W/led.db (…): attempt to write a readonly database\n"
        failed = "O_RDWR|O_NOFOLLOW|O_CLOEXEC) = -1 EIO (…) (INJECTED)"
        self.names(f'openat(AT_FDCWD</>, "W/led.db-shm", {failed}', lost,
                   "oncerun: cannot write the ledger W/led.db (…): No space left on device\n")
        self.names(f'openat(AT_FDCWD</>, "W/led.db-wal", {failed}',
                   "oncerun: cannot write the ledger W/led.db (…): Input/output error\n", lost)

    def test_a_temporary_file_is_the_state_file(self):
        good = "oncerun: cannot write W/st.json (…): Input/output error\n"
        bad = "oncerun: cannot write W/led.db (…): Input/output error\n"
        self.names("ftruncate(9<W/#123>(deleted), 97) = -1 EIO (…) (INJECTED)", good, bad)
        self.names('renameat(8<W>, ".st.json.oncerun-a1b2c3", 8<W>, "st.json") = -1 EIO (…) (INJECTED)',
                   good, bad)

    def test_a_folder_on_the_way(self):
        line = 'readlink("W", 0x7ff, 1023) = -1 EIO (…) (INJECTED)'
        self.names(line, "oncerun: cannot resolve W/led.db: Input/output error\n",
                   "oncerun: cannot resolve W/other: Input/output error\n")
        self.names(self.FOLDER_FAILED,
                   "oncerun: cannot sync the folder of W/st.json (…): Input/output error\n",
                   "oncerun: cannot sync W/st.json (…): Input/output error\n")

    def test_a_process(self):
        self.names('openat(5</proc>, "48/task", O_RDONLY) = -1 EIO (…) (INJECTED)',
                   "oncerun: cannot look at the processes in /proc: 48/task: Input/output error\n",
                   "oncerun: cannot look at the processes in /proc: 49/task: Input/output error\n",
                   "oncerun: cannot look at W/led.db: Input/output error\n")

    def test_what_has_no_file(self):
        self.names("signalfd4(-1, [HUP INT], 8, SFD_CLOEXEC) = -1 EMFILE (…) (INJECTED)",
                   "oncerun: cannot open a signalfd: Too many open files\n",
                   "oncerun: cannot open W/led.db: Too many open files\n", error="EMFILE")
        self.refuses(WORDS, self.doctor("timerfd_create(CLOCK_MONOTONIC, 0) = -1 EIO (…) (INJECTED)",
                                        words="oncerun: Input/output error\n").names_file_and_error)

    def test_a_warning_is_judged_like_an_error(self):
        line = "pread64(10<W/led.db-life>, 0x7ff, 73, 0) = -1 EIO (…) (INJECTED)"
        self.refuses(WORDS, self.doctor(line, words="oncerun: something\n", name="pread64").judge, DONE)

    def test_only_stderr_itself_may_be_silent(self):
        words = "oncerun: settle 2024-10-26: exit 3; recorded as failed\n"
        failed = 'W/said>, "x", 1) = -1 EIO (…) (INJECTED)'
        self.doctor("write(2<" + failed, words=words, name="write").judge(DONE)
        self.refuses(WORDS, self.doctor("write(22<" + failed, words=words, name="write").judge, DONE)

    # The exit code

    def test_codes_before_the_start(self):
        for code in (UNAVAILABLE, UNWRITABLE, HELD):
            self.doctor(code=code, ran=False).may_end(DONE)
            self.refuses(CODES, self.doctor(code=code).may_end, DONE)
        for ran in (False, True):
            self.refuses(CODES, self.doctor(code=UNRECORDED, ran=ran).may_end, DONE)

    def test_codes_after_the_start(self):
        self.doctor(code=UNRECORDED, after_start=True).may_end(DONE)
        for code in (UNAVAILABLE, UNWRITABLE, HELD):
            self.refuses(CODES, self.doctor(code=code, after_start=True).may_end, DONE)

    def test_codes_that_nothing_excuses(self):
        for code in (USAGE, INTERNAL, BUSY, 1, 128 + 6, -6):
            for ran in (False, True):
                for after_start in (False, True):
                    self.refuses(CODES, self.doctor(code=code, ran=ran, after_start=after_start).may_end,
                                 DONE)
        self.refuses(CODES, self.doctor(code=DONE).may_end, BUSY)

    # The rest

    def test_success_without_done(self):
        name = "success is never reported without a durable done"
        self.refuses(name, self.doctor(ran=False).judge, DONE)
        fault = self.doctor()
        fault.now = fault.now._replace(effects=[])
        self.refuses(name, fault.judge, DONE)
        fault.now = self.ran._replace(mark=self.ran.mark._replace(status="pending"))
        self.refuses(name, fault.judge, DONE)

    def test_an_interrupted_call_that_changes_something(self):
        line = "flock(8<W/led.db-guard>, LOCK_EX) = -1 EINTR (…) (INJECTED)"
        name = "EINTR changes nothing"
        told = "oncerun: cannot lock W/led.db-guard: Interrupted system call\n"
        self.refuses(name, self.doctor(line, words=told, error="EINTR").judge, DONE)
        self.refuses(name, self.doctor(line, code=UNAVAILABLE, ran=False, error="EINTR").judge, DONE)

    def test_a_torn_state_file(self):
        name = "the state file is wholly old or wholly new"
        for text in ("", "{}", '{"status": "done", ', '{"status": "done", "lastPublishedDate": "2020-01-01"}'):
            with self.subTest(text=text):
                self.write(self.st, text)
                self.refuses(name, self.doctor().judge, DONE)

    def test_two_effects(self):
        self.write(f"{self.w}/eff", "e1\ne1\n")
        self.refuses("one fault is mended by the next start", self.doctor().settle_once)

    # What the suites read out of a trace

    def test_paths(self):
        for line, found in (
                ('newfstatat(10</w/led.db>, "", 0x7ff, AT_EMPTY_PATH) = -1 EIO (…)', ["/w/led.db"]),
                ('openat(8</w>, ".", O_RDWR|O_TMPFILE, 0600) = 9</w/#1>(deleted)', ["/w"]),
                ('openat(AT_FDCWD</w>, "led.db", O_RDONLY) = 4</w/led.db>', ["/w/led.db"]),
                ('linkat(AT_FDCWD</d>, "/proc/self/fd/9", 8</w>, "st.json", AT_SYMLINK_FOLLOW) = 0',
                 ["/proc/self/fd/9", "/w/st.json"]),
                ('pwrite64(9</w/led.db-wal>, "8</etc/x>, \\"", 24, 0) = 24', ["/w/led.db-wal"]),
                ("mmap(NULL, 32768, PROT_READ, MAP_SHARED, 13</w/led.db-shm>, 0) = 0x7f",
                 ["/w/led.db-shm"]),
                ("clone(child_stack=0x7ff, flags=CLONE_VM|CLONE_VFORK|SIGCHLD) = 12", [])):
            with self.subTest(line=line):
                self.assertEqual(paths_of(line), found)

    def test_the_start_of_the_command_is_not_that_of_the_check(self):
        self.write(self.path("pids"), "12\n")
        self.write(self.path("trace"), "execve() = 0\nclone(x) = 9\nread(1) = 0\nclone(x) = 12\nread(1) = 1\n")
        self.assertEqual(self.after_start_of_command(calls(self.path("trace"))), {Point("read", 2)})


if __name__ == "__main__":
    main()
