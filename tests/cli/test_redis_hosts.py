"""Hosts as network namespaces around one Redis server: many at once, with clocks apart, and cut off.

Each host has a ledger of its own and sees no processes of the others. That two commands live at the
same time is seen by an flock(2) which the kernel takes away with the command, not a moment later.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from oncerun_test import (ABSENT, BUSY, DONE, HELD, LOST, PRESENT, UNAVAILABLE, child_of, main,
                          process_state)
from redis_server import LOCK, TTL, RedisCase, Server, boot_time, missing_packages

SUBNET = "10.213.77."
SERVER = SUBNET + "254"
FAKETIME = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
            "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1")

# Says who runs and when, on the clock of the leases, for as long as it lives: $1 seconds.
WITNESS = """
import fcntl, os, signal, sys, time
folder, host, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)
def say(name, text):
    file = os.open(folder + "/" + name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(file, (text + "\\n").encode())
    os.close(file)
alone = os.open(folder + "/alone", os.O_RDWR | os.O_CREAT, 0o666)
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    say("overlaps", host)
begun = now()
say("starts", "%s %.4f" % (host, begun))
beat = os.open(folder + "/beat-" + host, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
while now() < begun + seconds:
    os.pwrite(beat, b"%.4f" % now(), 0)
    time.sleep(0.005)
say("ends", "%s %.4f" % (host, now()))
"""

# The same without a python3 each, for a hundred at once.
SHORT = """
exec 9>>"$D/alone"
flock -n 9 || echo OVERLAP >>"$D/overlaps"
echo run >>"$D/runs"
sleep 0.01
"""


def ip(*words):
    """What ip(8) says; OSError where it cannot."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Network(RedisCase):
    """A switch, on which the server stands, and hosts around it; the same for all tests of a class."""

    shares_server = False
    hosts = "ab"
    lease = TTL
    problem = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.geteuid() != 0 or missing_packages() or shutil.which("ip") is None:
            return  # setUp says why
        cls.folder = tempfile.mkdtemp(prefix="oncerun-test-net-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        os.chmod(cls.folder, 0o755)
        cls.tag = f"or{os.getpid() % 100000}"
        cls.switch = cls.tag + "s"
        try:
            cls.add_switch()
            for number, host in enumerate(cls.hosts, start=1):
                cls.add_host(host, number)
        except OSError as error:
            cls.problem = str(error)
            return
        cls.redis = Server(cls.folder, tcp=6379, host=SERVER,
                           prefix=["ip", "netns", "exec", cls.switch])
        cls.addClassCleanup(cls.redis.stop)
        cls.redis.start().wait_until_old(cls.lease)

    def setUp(self):
        super().setUp()
        self.need_root()
        self.need("ip", "unshare", "flock")
        if self.problem:
            self.skip(f"no network namespaces here: {self.problem}")
        for host in self.hosts:
            self.join(host)
        self.redis.ask("FLUSHALL")
        self.write(self.path("witness.py"), WITNESS)
        self.short = self.script("short", SHORT)

    @classmethod
    def add_switch(cls):
        ip("netns", "add", cls.switch)
        cls.addClassCleanup(ip, "netns", "del", cls.switch)
        cls.inside("link", "set", "lo", "up")
        cls.inside("link", "add", "br0", "type", "bridge")
        cls.inside("addr", "add", SERVER + "/24", "dev", "br0")
        cls.inside("link", "set", "br0", "up")

    @classmethod
    def inside(cls, *words):
        return ip("-n", cls.switch, *words)

    @classmethod
    def add_host(cls, host, number):
        name = cls.tag + host
        ip("netns", "add", name)
        cls.addClassCleanup(ip, "netns", "del", name)
        ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "to-" + host, "netns",
           cls.switch)
        ip("-n", name, "addr", "add", f"{SUBNET}{number}/24", "dev", "eth0")
        cls.inside("link", "set", "to-" + host, "master", "br0")
        cls.inside("link", "set", "to-" + host, "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "eth0", "up")

    def start_on(self, host, *args, apart=True, clock=None, prefix=(), **kw):
        on_host = ["ip", "netns", "exec", self.tag + host]
        if apart:
            on_host += ["unshare", "--pid", "--fork", "--mount-proc", "--uts", "--kill-child", "--",
                        "sh", "-c", 'hostname "$0" && exec "$@"', "host-" + host]
        if clock:
            library = next((path for path in FAKETIME if os.path.exists(path)), None)
            if library is None:
                self.skip("needs libfaketime, which is not installed")
            on_host += ["env", "LD_PRELOAD=" + library, "FAKETIME=" + clock, "DONT_FAKE_MONOTONIC=1"]
        kw.setdefault("url", self.redis.tcp_url)
        return super().start_on(host, *args, prefix=[*on_host, *prefix], **kw)

    def witness(self, host, seconds):
        return [sys.executable, self.path("witness.py"), self.dir, host, str(seconds)]

    def assertNeverTwo(self):
        self.assertEqual(self.lines("overlaps"), [])

    def told(self, name):
        """What witnesses said: host, instant."""
        return [(host, float(at)) for host, at in (line.split() for line in self.lines(name))]

    def cut(self, host, where="switch"):
        """No packet comes through any more; or the host itself notices at once."""
        if where == "switch":
            self.inside("link", "set", "to-" + host, "down")
        else:
            ip("-n", self.tag + host, "link", "set", "eth0", "down")

    def join(self, host):
        self.inside("link", "set", "to-" + host, "up")
        ip("-n", self.tag + host, "link", "set", "eth0", "up")
        ping = ["ip", "netns", "exec", self.tag + host, "redis-cli", "-h", SERVER, "ping"]
        self.wait_for(lambda: subprocess.run(ping, capture_output=True, check=False).returncode == 0,
                      what="the server to be reached")


class TenHosts(Network):
    hosts = "abcdefghij"

    def fire(self, date, clocks=None):
        """All ten at once, each with the same line of its crontab; one run."""
        before = self.runs()
        clocks = clocks or {}
        started = [self.start_on(host, date=date, command=[self.short], clock=clocks.get(host))
                   for host in self.hosts]
        for process in started:
            result = process.end()
            self.assertIn(result.returncode, (DONE, BUSY), result.stderr)
        self.assertEqual(self.runs(), before + 1)
        self.assertNeverTwo()

    def test_a_job_of_ten_milliseconds_runs_once(self):
        for day in range(1, 6):
            self.fire(f"2024-03-0{day}")
        for host in self.hosts:  # and whoever comes late, too
            self.assertExit(self.on(host, date="2024-03-05", command=[self.short]), DONE)
        self.assertEqual(self.runs(), 5)

    def test_with_clocks_seconds_apart(self):
        offsets = {host: f"{3 * number - 14:+}s" for number, host in enumerate(self.hosts)}
        for day in range(1, 4):
            self.fire(f"2024-03-0{day}", offsets)
        for number, host in enumerate(self.hosts):
            self.assertExit(self.on(host, date=f"2024-04-{number + 1:02}", clock=offsets[host],
                                    command='echo "$ONCERUN_TOKEN" >>"$D/tokens"'), DONE)
        tokens = [int(line) for line in self.lines("tokens")]
        self.assertEqual(tokens, sorted(set(tokens)), "the token grows whoever's clock is behind")

    def test_one_after_the_other(self):
        for host in self.hosts:
            self.assertExit(self.on(host, command=[self.short]), DONE)
        self.assertEqual(self.runs(), 1)


class CutOff(Network):
    def cut_off_in_mid_run(self, where, *waiting):
        owner = self.start_on("a", "--connect-timeout", "1s", command=self.witness("a", 60))
        self.wait_for(lambda: self.told("starts"), what="the first command to start")
        check = f'cut -d" " -f1 /proc/uptime >>"$D/asked"; {ABSENT}'
        other = self.start_on("b", "--wait", "60", *waiting, check=check,
                              command=self.witness("b", 0.5))
        self.wait_for(lambda: self.redis.connections() >= 2, what="the second host to ask")
        self.cut("a", where)
        self.assertExit(other.end(), DONE)
        self.assertExit(owner.end(), LOST)
        self.assertNeverTwo()
        (first, _), (second, begun) = self.told("starts")
        self.assertEqual((first, second), ("a", "b"))
        last_beat = float(self.lines("beat-a")[0])
        self.assertLess(last_beat, begun)
        asked = [float(line) for line in self.lines("asked")]
        self.assertEqual(len(asked), 2)
        self.assertLess(last_beat, asked[0])  # nobody asks while it still happens
        self.assertLess(asked[1], begun)
        self.assertEqual([host for host, _ in self.told("ends")], ["b"])
        self.assertStatusOn("a", "unknown")
        self.assertStatusOn("b", "done")
        self.join("a")
        self.assertExit(self.on("a", check=PRESENT, command=self.witness("a", 0)), DONE)
        self.assertEqual(len(self.told("starts")), 2)

    def test_packets_are_lost(self):
        self.cut_off_in_mid_run("switch")

    def test_the_link_is_down(self):
        self.cut_off_in_mid_run("host")

    def test_a_cut_that_is_short_is_survived(self):
        owner = self.start_on("a", "--connect-timeout", "0.5s", command=self.witness("a", 4))
        self.wait_for(lambda: self.told("starts"), what="the command to start")
        self.cut("a", "host")
        until = boot_time() + 0.7
        self.wait_for(lambda: boot_time() > until, what="the cut to last")
        self.join("a")
        self.assertExit(owner.end(), DONE)
        self.assertNeverTwo()

    def test_the_owners_host_is_gone(self):
        """oncerun and all below it: as if the power was cut."""
        owner = self.start_on("a", command=self.witness("a", 60))
        self.wait_for(lambda: self.told("starts"), what="the command to start")
        other = self.start_on("b", "--wait", "60", check=ABSENT, command=self.witness("b", 0.2))
        self.wait_for(lambda: self.redis.connections() >= 2, what="the second host to ask")
        self.cut("a")
        os.kill(child_of(owner.pid), signal.SIGKILL)  # the first process of its namespace
        owner.end()
        self.assertExit(other.end(), DONE)
        self.assertNeverTwo()
        self.assertEqual([host for host, _ in self.told("starts")], ["a", "b"])

    def test_without_a_check_the_other_host_holds(self):
        owner = self.start_on("a", "--connect-timeout", "1s", command=self.witness("a", 60))
        self.wait_for(lambda: self.told("starts"), what="the command to start")
        self.cut("a")
        self.assertExit(self.on("b", "--wait", "60", command=self.witness("b", 0)), HELD)
        self.assertExit(owner.end(), LOST)
        self.assertEqual(len(self.told("starts")), 1)

    def test_a_host_that_is_cut_off_before_the_start(self):
        self.cut("a")
        begun = time.monotonic()
        self.assertExit(self.on("a", "--connect-timeout", "0.3s", command=self.witness("a", 0)),
                        UNAVAILABLE)
        self.assertLess(time.monotonic() - begun, 6)
        self.assertEqual(self.told("starts"), [])

    def test_oncerun_alone_stands_still_and_its_host_is_cut_off(self):
        owner = self.start_on("a", apart=False, command=self.witness("a", 60))
        self.wait_for(lambda: self.told("starts"), what="the command to start")
        other = self.start_on("b", "--wait", "60", check=ABSENT, command=self.witness("b", 0.2))
        self.wait_for(lambda: self.redis.connections() >= 2, what="the second host to ask")
        self.cut("a")
        os.kill(owner.pid, signal.SIGSTOP)
        self.wait_for(lambda: process_state(owner.pid) == "T", what="oncerun to stand still")
        self.assertExit(other.end(), DONE)
        os.kill(owner.pid, signal.SIGCONT)
        self.assertExit(owner.end(), LOST)
        self.assertNeverTwo()
        self.assertStatusOn("b", "done")

    def test_a_name_server_that_never_answers(self):
        """Looking a name up takes its own time; a signal and the limit do not wait for it."""
        self.write(self.path("resolv.conf"), f"nameserver {SUBNET}99\noptions timeout:30 attempts:5\n")
        prefix = ["unshare", "--mount", "sh", "-c",
                  f'mount --bind "{self.path("resolv.conf")}" /etc/resolv.conf && exec "$@"', "sh"]
        url = "redis://redis.example.org:6379"
        begun = time.monotonic()
        self.assertExit(self.on("a", "--connect-timeout", "0.5s", url=url, apart=False, prefix=prefix,
                                command=self.witness("a", 0)), UNAVAILABLE)
        self.assertLess(time.monotonic() - begun, 6)
        before = self.named("oncerun-lease")  # one may be at it still
        waiting = self.start_on("a", "--connect-timeout", "60s", "--wait", "1h", url=url, apart=False,
                                prefix=prefix, command=self.witness("a", 0))
        self.wait_for(lambda: set(self.named("oncerun-lease")) - set(before),
                      what="the name to be looked up")
        waiting.send_signal(signal.SIGTERM)
        self.assertExit(waiting.end(timeout=2), 128 + signal.SIGTERM)
        self.assertEqual(self.told("starts"), [])


class Storm(Network):
    hosts = "ab"
    lease = 10
    OPTIONS = ("--lock-ttl", "10s", "--kill-after", "1s")

    def test_a_hundred_on_one_key_never_overlap(self):
        started = [self.start_on("ab"[number % 2], "--lock-marks", "0", "--wait", "120",
                                 options=self.OPTIONS, ledger="none", apart=False,
                                 command=[self.short])
                   for number in range(100)]
        for process in started:
            self.assertExit(process.end(120), DONE)
        self.assertNeverTwo()
        self.assertEqual(self.runs(), 100)
        self.assertIsNone(self.redis.get(LOCK))


if __name__ == "__main__":
    main()
