#!/usr/bin/env python3
"""What a start costs, as ratios taken in one run against what a user would take instead.

    python3 tests/bench/bench.py [--rounds N] [--rows N] [--only NAME]... [--no-static]

Builds the default flavour and the static one, and the C programs beside this file; then prints a
table in Markdown. Rounds alternate between the commands of a row, and the medians are compared:
microseconds drift by a third on a shared machine, ratios hold. Nothing here passes or fails.

The floor (floor.c) is what a C programmer would write who wants no more than "once per date": two
durable SQLite transactions around posix_spawn. As SQLite comes, each of its runs ends with a
checkpoint and the deletion of the log, which oncerun does not do; the form that "keeps its log" does
as oncerun does there.
"""

import argparse
import collections
import contextlib
import datetime
import os
import pathlib
import platform
import re
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# A locale makes flock slower, a long PATH adds failing execs: neither is ours to measure.
ENV = {"PATH": "/usr/bin:/bin"}
TRUE = "/bin/true"


def run(*argv, **kw):
    return subprocess.run([str(word) for word in argv], check=True, text=True,
                          capture_output=True, **kw).stdout


class Tools:
    """Everything that is measured, built and copied to one place: where the linker put a file in
    the page cache shifts figures by a tenth."""

    def __init__(self, folder, static):
        self.folder = pathlib.Path(folder)
        self.oncerun = self.built("oncerun", "release", [])
        self.static = self.built("oncerun-static", "static", ["-DONCERUN_STATIC=ON"]) if static else None
        self.stopwatch = self.compiled("stopwatch", "stopwatch.c")
        self.stampede = self.compiled("stampede", "stampede.c")
        self.floor = self.compiled("floor", "floor.c", "-lsqlite3")
        archive = run("cc", "-print-file-name=libsqlite3.a").strip()
        as_oncerun = ("-Wl,--gc-sections,-O1,--as-needed", archive, "-lm")
        self.floor_archive = self.compiled("floor-archive", "floor.c", *as_oncerun)
        self.look = self.compiled("look", "look.c", *as_oncerun)
        self.empty = self.compiled("empty", "empty.c")
        self.empty_static = self.compiled("empty-static", "empty.c", "-static")

    def built(self, name, flavour, options):
        build = ROOT / "build" / f"bench-{flavour}"
        run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
            "-DONCERUN_TESTS=OFF",
            f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}", *options)
        run("cmake", "--build", build)
        return self.installed(name, build / "src" / "oncerun")

    def compiled(self, name, source, *libraries):
        run("cc", "-O2", "-o", self.folder / "out", HERE / source, *libraries)
        return self.installed(name, self.folder / "out")

    def installed(self, name, path):
        target = self.folder / name
        shutil.copy(path, target)
        target.chmod(0o755)
        with open(target, "rb") as file:
            os.fsync(file)  # what is not on the disk yet would count as its private memory
        return str(target)


class Bench:
    def __init__(self, tools, folder, rounds, rows):
        self.tools, self.folder, self.rounds, self.rows = tools, pathlib.Path(folder), rounds, rows
        self.day = 0
        self.lines = []
        self.flavours = [("default", tools.oncerun)]
        if tools.static:
            self.flavours.append(("static", tools.static))

    def path(self, name):
        return str(self.folder / name)

    def times(self, *commands, rounds=None):
        """The medians, in microseconds, of commands run in turns."""
        argv = [self.tools.stopwatch, str(rounds or self.rounds), "--start", str(self.day)]
        self.day += rounds or self.rounds
        for command in commands:
            argv += ["--", *("---" if word == "--" else word for word in command)]
        found = collections.defaultdict(list)
        for line in run(*argv, env=ENV).splitlines():
            which, took = line.split()
            found[int(which)].append(float(took))
        return [statistics.median(found[i]) for i in range(len(commands))]

    def row(self, work, against, ours, theirs, goal, unit="µs", rounds=None):
        self.lines.append((work, against, f"{ours:.0f} {unit}", f"{theirs:.0f} {unit}",
                           f"{ours / theirs:.2f}", goal, str(rounds or self.rounds)))
        print(f"  {work}, against {against}: {ours / theirs:.2f} (goal {goal})", file=sys.stderr)

    def flock(self):
        return ["flock", "-n", self.path("flock"), TRUE]

    def ledger_run(self, program, ledger, job="bench"):
        return [program, "-j", job, "-L", self.path(ledger), "-d", "@date", "--", TRUE]

    def a_first_run(self, program, ledger, command=(TRUE,), date="1980-01-01"):
        run(program, "-j", "bench", "-L", self.path(ledger), "-d", date, "--", *command, env=ENV)

    # The rows of the table

    def lock_only(self):
        for flavour, program in self.flavours:
            ours, theirs = self.times(
                [program, "-j", "bench", "--ledger", "none", "--lock",
                 f"flock:{self.path('lock')}", "--", TRUE], self.flock())
            self.row(f"lock only ({flavour})", "`flock -n F true`", ours, theirs,
                     {"default": "1.10", "static": "0.95"}[flavour])

    def run_with_a_ledger(self):
        for flavour, program in self.flavours:
            ledger = f"run-{flavour}.db"
            self.a_first_run(program, ledger)
            floors = {"shared": self.tools.floor, "static": self.tools.floor_archive}
            ours, *others = self.times(
                self.ledger_run(program, ledger),
                *([floor, *keep, self.path(f"{library}{''.join(keep)}-{flavour}.db"), "bench",
                   "@date", TRUE]
                  for keep in ((), ("--keep-log",)) for library, floor in floors.items()))
            goals = {"default": ("0.95", "1.10", "", ""), "static": ("0.85", "", "", "")}[flavour]
            names = [f"the C floor, {library} libsqlite3, {log}"
                     for log in ("deletes its log", "keeps its log") for library in floors]
            for name, other, goal in zip(names, others, goals):
                self.row(f"run with a ledger ({flavour})", name, ours, other, goal)

    def skip(self):
        for flavour, program in self.flavours:
            ledger = f"skip-{flavour}.db"
            # A job that takes a moment: oncerun tidies up its log meanwhile.
            for date in ("1980-01-01", "1980-01-02"):
                self.a_first_run(program, ledger, ("sleep", "0.2"), date)
            ours, theirs, look, version = self.times(
                [program, "-j", "bench", "-L", self.path(ledger), "-d", "1980-01-02", "--", TRUE],
                self.flock(), [self.tools.look, self.path(ledger), "bench", "1980-01-02"],
                [program, "--version"])
            work = f"skip of a done date ({flavour})"
            self.row(work, "`flock -n F true`", ours, theirs,
                     {"default": "0.85", "static": "0.70"}[flavour])
            self.row(work, "a C program that reads this row, static libsqlite3", ours, look, "")
            self.row(work, "`oncerun --version`", ours, version, "")

    def start_up(self):
        """The parts of a start that are not oncerun's: a process, and the dynamic linker."""
        version, dynamic, static = self.times(
            [self.tools.oncerun, "--version"], [self.tools.empty], [self.tools.empty_static])
        self.row("`oncerun --version` (default)", "an empty C program", version, dynamic, "")
        self.row("an empty C program", "the same, linked statically", dynamic, static, "")
        if self.tools.static:
            version, static_version = self.times([self.tools.oncerun, "--version"],
                                                 [self.tools.static, "--version"])
            self.row("`oncerun --version` (default)", "the static build's", version, static_version,
                     "")

    def scripts(self):
        self.a_first_run(self.tools.oncerun, "scripts.db")
        schema = ("CREATE TABLE run(job TEXT, date TEXT, status TEXT, PRIMARY KEY(job, date));"
                  "PRAGMA journal_mode=WAL")
        for name in ("shell.db", "python.db"):
            sqlite3.connect(self.path(name)).executescript(schema)
        shell = self.folder / "once.sh"
        shell.write_text(
            'n=$(sqlite3 "$1" "PRAGMA synchronous=FULL; INSERT INTO run VALUES(\'$2\', \'$3\', '
            '\'pending\') ON CONFLICT DO NOTHING; SELECT changes()") || exit\n'
            '[ "$n" = 1 ] || exit 0\n"$4" || exit\n'
            'sqlite3 "$1" "PRAGMA synchronous=FULL; UPDATE run SET status=\'done\' '
            'WHERE job=\'$2\' AND date=\'$3\'"\n')
        python = self.folder / "once.py"
        python.write_text(
            "import sqlite3, subprocess, sys\n"
            "db = sqlite3.connect(sys.argv[1])\ndb.execute('PRAGMA synchronous=FULL')\n"
            "with db:\n"
            "    mine = db.execute('INSERT INTO run VALUES(?, ?, ?) ON CONFLICT DO NOTHING',\n"
            "                      (sys.argv[2], sys.argv[3], 'pending')).rowcount\n"
            "if mine:\n    subprocess.run([sys.argv[4]], check=True)\n"
            "    with db:\n"
            "        db.execute('UPDATE run SET status=? WHERE job=? AND date=?',\n"
            "                   ('done', sys.argv[2], sys.argv[3]))\n")
        ours, shell_time, python_time = self.times(
            self.ledger_run(self.tools.oncerun, "scripts.db"),
            ["/bin/sh", str(shell), self.path("shell.db"), "bench", "@date", TRUE],
            ["/usr/bin/python3", str(python), self.path("python.db"), "bench", "@date", TRUE])
        self.row("run with a ledger", "a shell script with two `sqlite3` calls", ours, shell_time,
                 "0.40")
        self.row("run with a ledger", "the same in Python", ours, python_time, "0.11")

    def redis_lock(self):
        """Lock, run and unlock on a server of this host, against etcd's own command for that."""
        for program in ("redis-server", "redis-cli", "etcd", "etcdctl"):
            if shutil.which(program) is None:
                print(f"  redis lock: not measured, {program} is missing", file=sys.stderr)
                return
        etcd = f"http://127.0.0.1:{free_port()}"
        socket_path = self.path("redis.sock")
        servers = [
            ["redis-server", "--port", "0", "--unixsocket", socket_path, "--save", "", "--dir",
             str(self.folder)],
            ["etcd", "--data-dir", self.path("etcd"), "--listen-client-urls", etcd,
             "--advertise-client-urls", etcd, "--listen-peer-urls",
             f"http://127.0.0.1:{free_port()}"]]
        with contextlib.ExitStack() as stack:
            for argv in servers:
                process = stack.enter_context(subprocess.Popen(
                    argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                stack.callback(process.terminate)
            time.sleep(4)  # a server younger than --lock-ttl grants nothing
            trip = round_trip_us(socket_path)
            ours, flock, theirs = self.times(
                [self.tools.oncerun, "-j", "bench", "--ledger", "none", "--lock",
                 f"redis+unix://{socket_path}", "--lock-marks", "0", "--lock-ttl", "2s", "--",
                 TRUE],
                [self.tools.oncerun, "-j", "bench", "--ledger", "none", "--lock",
                 f"flock:{self.path('lock')}", "--", TRUE],
                ["etcdctl", "--endpoints", etcd, "lock", "bench", TRUE])
        self.row("lock only, on a Redis server", "`etcdctl lock`", ours, theirs, "0.25")
        self.row("lock only, on a Redis server", "lock only, `flock`, and two round trips", ours,
                 flock + 2 * trip, "1.5")

    def memory(self):
        self.a_first_run(self.tools.oncerun, "memory.db")
        waiting = {
            "oncerun": [self.tools.oncerun, "-j", "bench", "-L", self.path("memory.db"), "-d",
                        "1990-01-01", "--timeout", "1h", "--", "sleep", "20"],
            "flock": ["flock", self.path("flock"), "sleep", "20"],
            "timeout": ["timeout", "1h", "sleep", "20"]}
        found = {}
        for name, argv in waiting.items():
            with subprocess.Popen(argv, env=ENV, stderr=subprocess.DEVNULL) as process:
                time.sleep(1)
                text = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text("ascii")
                found[name] = int(re.search(r"Private_Dirty:\s+(\d+)", text).group(1))
                process.terminate()
        for other in ("flock", "timeout"):
            self.lines.append(("waiting: private dirty memory", f"`{other}`",
                               f"{found['oncerun']} KiB", f"{found[other]} KiB", "", "512 KiB", "1"))
        print(f"  {found} KiB", file=sys.stderr)

    def at_once(self):
        self.a_first_run(self.tools.oncerun, "storm.db")
        ours, theirs, rounds = [], [], 9
        for turn in range(rounds):
            date = f"1990-01-{turn + 1:02}"
            ours.append(float(run(self.tools.stampede, 200, self.tools.oncerun, "-j", "@n", "-L",
                                  self.path("storm.db"), "-d", date, "--", TRUE, env=ENV)))
            theirs.append(float(run(self.tools.stampede, 200, "flock", self.path("queue"),
                                    self.tools.floor, self.path("storm-floor.db"), "@n", date,
                                    TRUE, env=ENV)))
        self.row("200 starts at once, 200 jobs", "the C floor queued by `flock`",
                 statistics.median(ours), statistics.median(theirs), "0.6", "ms", rounds)

    def many_runs(self):
        for ledger, count in (("few.db", 50), ("many.db", 5000)):
            dates = (datetime.date(1970, 1, 2) + datetime.timedelta(days=i) for i in range(count))
            text = "\n".join(str(date) for date in dates)
            subprocess.run(["xargs", "-I{}", self.tools.oncerun, "-j", "bench", "-L",
                            self.path(ledger), "-d", "{}", "--", TRUE], input=text, text=True,
                           env=ENV, check=True)
        few, many = self.times(self.ledger_run(self.tools.oncerun, "few.db"),
                               self.ledger_run(self.tools.oncerun, "many.db"))
        self.row("the 5,000th run on a ledger", "the 50th", many, few, "1.1")

    def many_rows(self):
        for ledger in ("empty.db", "rows.db"):
            self.a_first_run(self.tools.oncerun, ledger)
        fill(self.path("rows.db"), self.rows)
        empty, rows = self.times(self.ledger_run(self.tools.oncerun, "empty.db"),
                                 self.ledger_run(self.tools.oncerun, "rows.db"))
        self.row(f"run in a ledger of {self.rows:,} rows", "an empty ledger", rows, empty, "1.1")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def round_trip_us(path):
    """The median of a PING, in microseconds."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        times = []
        for _ in range(1000):
            begin = time.perf_counter()
            connection.sendall(b"PING\r\n")
            connection.recv(64)
            times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def fill(path, rows):
    """Done runs of a thousand other jobs, with an attempt each, in one transaction."""
    db = sqlite3.connect(path)
    db.executescript("PRAGMA synchronous=OFF; PRAGMA cache_size=-400000;")
    columns = {table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
               for table in ("job_run", "job_attempt")}
    serial = db.execute("SELECT last_serial FROM oncerun_meta").fetchone()[0]
    numbers = (f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
               f"WHERE i + 1 < {rows}) ")
    # In the order of the primary key: a thousand jobs, one after the other.
    each = max(1, rows // 1000)
    made = {"job_name": f"printf('job-%04d', i / {each})",
            "biz_date": f"date('1970-01-02', '+' || (i % {each}) || ' days')",
            "serial": f"i + {serial + 1}", "run_id": "printf('run-%d', i)"}
    with db:
        for table, names in columns.items():
            template = dict(zip(names, db.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()))
            values = [made.get(name, repr_of(template[name])) for name in names]
            db.execute(f"INSERT INTO {table} ({', '.join(names)}) {numbers} "
                       f"SELECT {', '.join(values)} FROM n")
        db.execute("UPDATE oncerun_meta SET last_serial = last_serial + ?", (rows,))
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    db.close()


def repr_of(value):
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def table(lines):
    head = ("work", "against", "oncerun", "other", "ratio", "goal", "rounds")
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def main():
    names = ["lock_only", "run_with_a_ledger", "skip", "start_up", "scripts", "redis_lock", "memory",
             "at_once", "many_runs", "many_rows"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", action="append", choices=names)
    parser.add_argument("--no-static", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncerun-bench-", dir="/var/tmp") as folder:
        bench = Bench(Tools(folder, not options.no_static), folder, options.rounds, options.rows)
        for name in options.only or names:
            print(name.replace("_", " "), file=sys.stderr)
            getattr(bench, name)()
    print(f"{datetime.date.today()}, {os.cpu_count()} processors, {platform.system()} "
          f"{platform.release().split('-')[0]}, SQLite {sqlite3.sqlite_version}; medians of "
          "alternating rounds\n")
    print("\n".join(table(bench.lines)))


if __name__ == "__main__":
    main()
