"""Real Redis servers, started and stopped by the tests that need them.

    from redis_server import RedisCase

    class Example(RedisCase):
        def test_two_hosts(self):
            gate = self.gate()
            owner = self.start_on("a", command=gate.shell)      # a host is a ledger of its own
            gate.wait_started()
            self.assertExit(self.on("b"), BUSY)
            self.assertIn("date=" + DATE, self.redis.get(LOCK))
            gate.go()
            self.assertExit(owner.end(), DONE)

A server listens on a Unix socket in its folder, and on a port where it is asked to. It grants no
lock before it is as old as the lock's time to live, so a suite shares one (`self.redis`), whose keys
are cleared for each test; `server()` starts one of the test's own. Without the packages redis-server
and redis-sentinel the suites are skipped, and say so.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from oncerun_test import DONE, JOB, LOST, Case, process_state

# Long enough for a machine that is busy with other suites to renew in time.
TTL = 3
OPTIONS = ("--lock-ttl", f"{TTL}s", "--kill-after", "0.3s")
LOCK = "oncerun:lock:" + JOB


class RedisError(Exception):
    """An error that the server answered."""


class Client:
    """One connection: client("SET", "key", "value"). Answers are str, int, None or lists of them."""

    def __init__(self, address, *auth, timeout=30):
        self._socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")
        if auth:
            self("AUTH", *auth)

    def __call__(self, *words):
        self.send(*words)
        return self.answer()

    def send(self, *words):
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self._socket.sendall(b"*%d\r\n" % len(encoded) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))

    def answer(self):
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise RedisError(rest)
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self._file.read(int(rest) + 2)[:-2].decode()
        return None if rest == "-1" else [self.answer() for _ in range(int(rest))]

    def close(self):
        self._file.close()
        self._socket.close()


def free_port(host="127.0.0.1"):
    """A port that nobody has just now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def wait_until(predicate, seconds, what):
    deadline = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Process:
    """A redis-server or redis-sentinel in the foreground, ended by its pid."""

    def __init__(self, argv, folder, name, prefix=()):
        self.log = os.path.join(folder, name + ".log")
        self._argv = [*prefix, *argv]
        self._folder = folder
        self._process = None

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        # Should the test itself be killed, its server goes with it.
        argv = ["setpriv", "--pdeathsig", "KILL", *self._argv]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(argv, cwd=self._folder, stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL, start_new_session=True)

    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def send(self, number):
        if self.is_running():
            self._process.send_signal(number)

    def pause(self):
        """It keeps its connections, takes new ones, and says nothing."""
        self.send(signal.SIGSTOP)
        wait_until(lambda: process_state(self.pid) == "T", 10, "the server to stand still")

    def resume(self):
        self.send(signal.SIGCONT)

    def stop(self, number=signal.SIGTERM):
        """Ends it, also while it is paused."""
        if self._process is None:
            return
        self.send(number)
        self.resume()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def told(self):
        with open(self.log, errors="replace") as file:
            return file.read()


class Server(Process):
    """A server without data, unless `config` keeps them (("appendonly", "yes"))."""

    def __init__(self, folder, name="redis", tcp=False, host="127.0.0.1", config=(), prefix=()):
        self.name = name
        self.socket = os.path.join(folder, name + ".sock")
        self.host = host
        self.port = free_port() if tcp is True else int(tcp)
        settings = [("port", self.port), ("bind", host), ("unixsocket", self.socket),
                    ("unixsocketperm", "777"), ("dir", folder), ("dbfilename", name + ".rdb"),
                    ("appenddirname", name + ".aof"), ("save", ""), ("daemonize", "no"),
                    ("protected-mode", "no"), *config]
        argv = ["redis-server"]
        for key, *values in settings:
            argv += ["--" + key, *map(str, values)]
        super().__init__(argv, folder, name, prefix)
        self._client = None

    @property
    def url(self):
        return "redis+unix://" + self.socket

    @property
    def tcp_url(self):
        return f"redis://{self.host}:{self.port}"

    def start(self):
        super().start()

        def answers():
            if not self.is_running():
                raise AssertionError("redis-server did not start:\n" + self.told())
            try:
                return self.ask("PING") == "PONG"
            except (OSError, RedisError):
                return False

        wait_until(answers, 20, "the server to answer")
        return self

    def stop(self, number=signal.SIGTERM):
        self._forget_client()
        super().stop(number)
        if os.path.exists(self.socket):
            os.unlink(self.socket)

    def restart(self, number=signal.SIGTERM):
        """Comes back with what `config` let it keep: by default nothing."""
        self.stop(number)
        self.start()

    def client(self, *auth, timeout=30):
        """A connection of the caller's own."""
        return Client(self.socket, *auth, timeout=timeout)

    def ask(self, *words):
        """On a connection that stays open, and so stays allowed what it was allowed; on a new one
        where the server has closed it (it does so when it changes its role)."""
        if self._client is not None:
            try:
                return self._client(*words)
            except OSError:
                self._forget_client()
        self._client = self.client()
        try:
            return self._client(*words)
        except OSError:
            self._forget_client()
            raise

    def _forget_client(self):
        if self._client is not None:
            self._client.close()
            self._client = None

    # What tests ask for

    def get(self, key):
        return self.ask("GET", key)

    def keys(self, pattern="*"):
        return sorted(self.ask("KEYS", pattern))

    def pttl(self, key):
        return self.ask("PTTL", key)

    def info(self, name, section="everything"):
        """A line of INFO as text; "" if there is none."""
        for line in self.ask("INFO", section).splitlines():
            if line.startswith(name + ":"):
                return line.partition(":")[2]
        return ""

    def calls(self, command):
        """How often a command was executed."""
        line = self.info("cmdstat_" + command, "commandstats")
        return int(line.split(",")[0].partition("=")[2]) if line else 0

    def connections(self):
        """Connections of others."""
        return len(self.ask("CLIENT", "LIST", "TYPE", "normal").splitlines()) - 1

    def drop_connections(self):
        self.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def wait_until_old(self, seconds):
        """A younger one may have forgotten a lock of that time to live."""
        wait_until(lambda: int(self.info("uptime_in_seconds", "server")) >= seconds, seconds + 10,
                   "the server to be old enough")
        return self


class Sentinel(Process):
    """Watches `master`, a Server with a port, under the name "main"."""

    def __init__(self, folder, master, name="sentinel"):
        self.port = free_port()
        path = os.path.join(folder, name + ".conf")
        with open(path, "w") as file:
            file.write(f"port {self.port}\nbind 127.0.0.1\ndir {folder}\n"
                       f"sentinel monitor main {master.host} {master.port} 1\n"
                       "sentinel down-after-milliseconds main 600\n"
                       "sentinel failover-timeout main 3000\n")
        super().__init__(["redis-sentinel", path], folder, name)

    @property
    def url(self):
        return f"redis+sentinel://127.0.0.1:{self.port}/main"

    def start(self):
        super().start()

        def answers():
            if not self.is_running():
                raise AssertionError("redis-sentinel did not start:\n" + self.told())
            try:
                return self.ask("PING") == "PONG"
            except OSError:
                return False

        wait_until(answers, 20, "the sentinel to answer")
        return self

    def ask(self, *words):
        client = Client(("127.0.0.1", self.port))
        try:
            return client(*words)
        finally:
            client.close()

    def master_port(self):
        address = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
        return int(address[1]) if address else 0


def missing_packages():
    return [name for name in ("redis-server", "redis-sentinel") if shutil.which(name) is None]


class Suite:
    """The server that the tests of one script share, begun with the first of them."""

    server = None
    folder = None

    @classmethod
    def shared(cls):
        if cls.server is None:
            cls.folder = tempfile.mkdtemp(prefix="oncerun-test-redis-")
            os.chmod(cls.folder, 0o755)
            server = Server(cls.folder, tcp=True)
            unittest.addModuleCleanup(cls.end, server)
            cls.server = server.start().wait_until_old(TTL)
        return cls.server

    @classmethod
    def end(cls, server):
        server.stop()
        cls.server = None
        shutil.rmtree(cls.folder, ignore_errors=True)


class RedisCase(Case):
    """Hosts are ledgers of their own ("a" is $D/a.db) that share a lock on a server."""

    shares_server = True

    def setUp(self):
        super().setUp()
        missing = missing_packages()
        if missing:
            self.skip(f"needs {' and '.join(missing)}, which is not installed")
        if self.shares_server:
            self.redis = Suite.shared()
            self.redis.ask("FLUSHALL")

    def server(self, name="own", old=0, **kw):
        """A server of this test's own, `old` seconds old."""
        server = Server(self.dir, name, **kw)
        self.addCleanup(server.stop)
        server.start()
        if old:
            server.wait_until_old(old)
        return server

    def paused(self, server):
        server.pause()
        self.addCleanup(server.resume)

    # Hosts

    def led_of(self, host):
        return self.path(host + ".db")

    def start_on(self, host, *args, url=None, options=OPTIONS, ledger=..., state=None, **kw):
        return self.start("--lock", url or self.redis.url, *options, *args,
                          ledger=self.led_of(host) if ledger is ... else ledger, state=state, **kw)

    def wait_begun(self, owner, gate):
        """gate.wait_started(), but what ends instead is told at once."""
        self.wait_for(lambda: gate.has_started() or owner.poll() is not None, what="the job to start")
        if not gate.has_started():
            self.fail(f"it ended with {owner.poll()} and started nothing: {owner.err}")
        return gate.wait_started()

    def on(self, host, *args, timeout=60, **kw):
        return self.start_on(host, *args, **kw).end(timeout)

    def row_on(self, host, date=None, job=None):
        return self.row(job, date, ledger=self.led_of(host))

    def assertStatusOn(self, host, status, date=None):
        row = self.row_on(host, date)
        self.assertIsNotNone(row, f"no row on {host}")
        self.assertEqual(row["status"], status, row)

    def events_on(self, host, kind):
        return self.query("SELECT * FROM job_event WHERE kind = ? ORDER BY id", kind,
                          ledger=self.led_of(host))

    def gone_on(self, host, *args, command=None, **kw):
        """A run whose oncerun is killed, and with it the command; returns its run id."""
        gate = self.gate("gone-" + host)
        owner = self.start_on(host, *args, **kw,
                              command=f'echo run >>"$D/runs"; echo "$ONCERUN_RUN_ID" >"$D/gone"; '
                                      f'{gate.shell}')
        pid = self.wait_begun(owner, gate)
        owner.kill()
        os.kill(pid, signal.SIGKILL)
        owner.end()
        self.wait_quiet()
        return self.lines("gone")[0]

    def named(self, name):
        """This test's processes that call themselves so."""
        found = []
        for pid in self.processes():
            try:
                with open(f"/proc/{pid}/comm") as comm:
                    if comm.read().strip() == name:
                        found.append(pid)
            except OSError:
                pass
        return found

    # Keys

    def mark(self, date=None, lock=LOCK, server=None):
        """The words of the mark: status, run id, token, host, when; None if there is none."""
        text = (server or self.redis).get(f"oncerun:mark:{{{lock}}}:{date or self.date}")
        return None if text is None else text.partition("|")[0].split(" ")

    def end_lease(self, lock=LOCK):
        """The lock of somebody who is gone ends, without a wait for it."""
        self.redis.ask("PEXPIRE", lock, 1)
        self.wait_free(lock)

    def wait_free(self, lock=LOCK, server=None, seconds=TTL + 5):
        """Until the lock of somebody who is gone has ended."""
        self.wait_for(lambda: (server or self.redis).get(lock) is None, seconds, "the lock to end")


class MidRun(RedisCase):
    """A run, and what happens in the middle of it."""

    def running(self, *args, host="a", command="", **kw):
        gate = self.gate("gate-" + host)
        owner = self.start_on(host, *args, command=f'{command} echo run >>"$D/runs"; {gate.shell}',
                              **kw)
        self.pid = self.wait_begun(owner, gate)
        return owner, gate

    def renewed(self, server=None, times=1):
        """Until the lock was renewed that often from now on."""
        server = server or self.redis
        for _ in range(times):
            seen = [server.pttl(LOCK)]

            def grows():
                for process in self._started:
                    if process.poll() == LOST:
                        self.fail(f"it lost the lock: {process.err}; left of it: {seen[-20:]}")
                seen.append(server.pttl(LOCK))
                return seen[-1] > seen[-2]

            self.wait_for(grows, TTL + 2, "a renewal")

    def ends(self, owner, gate, code=DONE):
        gate.go()
        self.assertExit(owner.end(), code)

    def lost(self, owner, *, within, host="a"):
        """Stopped, 82, unknown; nothing of it lives on."""
        begun = time.monotonic()
        result = owner.end(timeout=within + 5)
        self.assertLess(time.monotonic() - begun, within)
        self.assertExit(result, LOST, "lost")
        self.assertStatusOn(host, "unknown")
        self.assertTrue(has_ended(self.pid))
        self.wait_quiet(5)
        return result


# Runs until $D/stop is there, and says so when it is not alone.
_WITNESS = """
import fcntl, os, sys, time
folder, host = sys.argv[1], sys.argv[2]
def say(name):
    with open(folder + "/" + name, "a") as file:
        file.write(host + "\\n")
alone = os.open(folder + "/alone", os.O_RDWR | os.O_CREAT, 0o666)
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    say("overlaps")
say("starts")
while not os.path.exists(folder + "/stop"):
    time.sleep(0.01)
say("ends")
"""


class ServersCase(MidRun):
    """Several servers of the test's own, and commands that witness each other."""

    shares_server = False

    def setUp(self):
        super().setUp()
        self.write(self.path("witness.py"), _WITNESS)

    def witness(self, host):
        return [sys.executable, self.path("witness.py"), self.dir, host]

    def replica_of(self, master, name="replica", **kw):
        replica = self.server(name, tcp=True, config=[("replicaof", master.host, master.port),
                                                      ("repl-diskless-sync-delay", "0")], **kw)
        self.wait_for(lambda: replica.info("master_link_status", "replication") == "up",
                      what="the replica to be in step")
        self.wait_for(lambda: "state=online" in master.info("slave0", "replication"),
                      what="the server to count it")
        return replica

    def master_and_replica(self):
        master = self.server("master", tcp=True, config=[("repl-diskless-sync-delay", "0")])
        replica = self.replica_of(master)
        master.wait_until_old(TTL)
        replica.wait_until_old(TTL)
        return master, replica

    def begun(self, host, **kw):
        owner = self.start_on(host, "--connect-timeout", "0.5s", command=self.witness(host), **kw)
        self.wait_for(lambda: host in self.lines("starts") or owner.poll() is not None,
                      what="the command to start")
        self.assertIsNone(owner.poll(), owner.err)
        return owner

    def stop_witnesses(self):
        self.write(self.path("stop"), "")

    def assertNeverTwo(self):
        self.assertEqual(self.lines("overlaps"), [])


def has_ended(pid):
    return process_state(pid) in (None, "Z", "X")


def boot_time():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def fields(value):
    """The fields of a lock's value by name."""
    first, *words = value.split(" ")
    assert first == "oncerun-1", value
    return dict(word.split("=", 1) for word in words)
