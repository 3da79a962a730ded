"""--lock redis://…: one run at a time across hosts, and what stands on the server meanwhile."""

import os
import re
import signal
import socket
import sys

from oncerun_test import (ABSENT, BLOCKED, BUSY, DATE, DONE, NEXT, UNAVAILABLE, USAGE, main,
                          processes_with)
from redis_server import LOCK, OPTIONS, TTL, RedisCase, fields

INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


class TwoHosts(RedisCase):
    def running(self, host="a", *args, **kw):
        """A run on that host, and the gate at which its command waits."""
        gate = self.gate(kw.pop("gate", "gate-" + host))
        owner = self.start_on(host, *args, command=f'echo run >>"$D/runs"; {gate.shell}', **kw)
        self.wait_begun(owner, gate)
        return owner, gate

    def ends(self, owner, gate, code=DONE):
        gate.go()
        self.assertExit(owner.end(), code)

    def waits(self, *args, **kw):
        """A start on "b" that has found the lock held, and waits for it."""
        before = self.redis.calls("evalsha") + self.redis.calls("eval")
        waiting = self.start_on("b", "--wait", "60", *args, **kw)
        # It asks without --wait first, so the second request is that of a wait.
        self.wait_for(lambda: self.redis.calls("evalsha") + self.redis.calls("eval") >= before + 3,
                      what="the second start to ask for the lock again and again")
        self.assertIsNone(waiting.poll())
        return waiting

    def test_the_same_date_is_busy_and_another_is_blocked(self):
        owner, gate = self.running()
        held = fields(self.redis.get(LOCK))
        host = os.uname().nodename
        busy = self.on("b", "-v")
        self.assertExit(busy, BUSY)
        blocked = self.on("b", date=NEXT)
        self.assertExit(blocked, BLOCKED)
        for told in (busy, blocked):
            for fact in (DATE, host, f"pid {owner.pid}", held["since"]):
                self.assertIn(fact, told.stderr)
        self.ends(owner, gate)
        self.assertEqual(self.runs(), 1)
        self.assertIsNone(self.row_on("b"))
        self.assertExit(self.on("b", date=NEXT), DONE)
        self.assertEqual(self.runs(), 2)

    def test_a_busy_skip_says_nothing_unless_asked(self):
        owner, gate = self.running()
        busy = self.on("b")
        self.assertExit(busy, BUSY)
        self.assertEqual((busy.stdout, busy.stderr), ("", ""))
        self.ends(owner, gate)

    def test_another_job_is_not_in_the_way(self):
        owner, gate = self.running()
        self.assertExit(self.on("b", job="other"), DONE)
        self.ends(owner, gate)
        self.assertEqual(self.runs(), 2)

    def test_a_normal_end_frees_the_key_at_once(self):
        for date, command, code in ((DATE, "exit 0", DONE), (NEXT, "exit 3", 3)):
            self.assertExit(self.on("a", date=date, command=command), code)
            self.assertIsNone(self.redis.get(LOCK))

    def test_L01_a_daemon_left_behind_holds_nothing(self):
        result = self.start_on("a", command='setsid sleep 60 </dev/null >/dev/null 2>&1 & '
                                            'echo $! >"$D/pid"').end(timeout=10)
        self.assertExit(result, DONE)
        pid = int(self.lines("pid")[0])
        self.assertIsNone(self.redis.get(LOCK))
        self.assertExit(self.on("b", date=NEXT), DONE)
        self.assertIn(pid, self.processes(), "the daemon must live on")
        self.assertEqual(self.processes(), [pid], "nothing of ours stays behind with it")

    def test_a_run_that_was_stopped_frees_it_as_well(self):
        owner, _ = self.running()
        owner.send_signal(signal.SIGTERM)
        self.assertExit(owner.end(), 128 + signal.SIGTERM)
        self.assertIsNone(self.redis.get(LOCK))
        self.wait_quiet(5)

    def test_the_lock_is_renewed_while_the_command_runs(self):
        owner, gate = self.running()
        seen = []

        def grows():
            seen.append(self.redis.pttl(LOCK))
            return len(seen) > 1 and seen[-1] > seen[-2]

        self.wait_for(grows, TTL, "a renewal")
        self.assertLessEqual(max(seen), TTL * 1000)
        self.ends(owner, gate)

    def test_a_command_longer_than_the_lease(self):
        owner, gate = self.running()
        self.wait_until_older(owner, TTL + 1)
        self.assertExit(self.on("b"), BUSY)
        self.ends(owner, gate)
        self.assertEqual(self.runs(), 1)

    def wait_until_older(self, process, seconds):
        def age():
            with open("/proc/uptime") as uptime, open(f"/proc/{process.pid}/stat") as stat:
                begun = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
                return float(uptime.read().split()[0]) - begun

        self.wait_for(lambda: age() >= seconds, seconds + 10, "the run to last")

    # --lock-scope, --lock-key

    def test_the_scope_of_a_date(self):
        owner, gate = self.running("a", "--lock-scope", "date")
        self.assertEqual([key for key in self.redis.keys() if ":lock:" in key and "{" not in key],
                         [f"{LOCK}:{DATE}"])
        self.assertExit(self.on("b", "--lock-scope", "date"), BUSY)
        self.assertExit(self.on("b", "--lock-scope", "date", date=NEXT), DONE)
        self.ends(owner, gate)
        self.assertEqual(self.runs(), 2)

    def test_a_lock_of_another_program(self):
        self.redis.ask("SET", "shared lock", "somebody else's", "PX", "60000")
        blocked = self.on("a", "--lock-key", "shared lock")
        self.assertExit(blocked, BLOCKED, "shared lock")
        self.assertEqual(self.redis.get("shared lock"), "somebody else's")
        self.assertGreater(self.redis.pttl("shared lock"), 30_000)
        self.assertEqual(self.redis.keys(), ["shared lock"], "a start that lost leaves nothing")
        self.assertEqual(self.runs(), 0)

    def test_a_lock_of_another_program_is_waited_for(self):
        self.redis.ask("SET", "shared lock", "somebody else's", "PX", "1500")
        self.assertExit(self.on("a", "--lock-key", "shared lock", "--wait", "30"), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertIsNone(self.redis.get("shared lock"))

    def test_a_lock_of_another_program_without_an_end(self):
        self.redis.ask("SET", "shared lock", "somebody else's")
        self.assertExit(self.on("a", "--lock-key", "shared lock"), BLOCKED)
        self.assertEqual(self.redis.pttl("shared lock"), -1)

    def test_a_lock_of_another_program_with_any_value(self):
        for name, value in (("empty", ""), ("lines", "a\nb\r\n\n"), ("bytes", b"\x00\xff|%"),
                            ("large", "x" * 1_000_000), ("like ours", "oncerun-1 run= job=settle")):
            with self.subTest(name):
                self.redis.ask("SET", "shared lock", value, "PX", "60000")
                self.assertExit(self.on("a", "--lock-key", "shared lock"), BLOCKED)
                self.assertExit(self.on("a", "--lock-key", "shared lock", "--explain"), DONE)
                self.assertEqual(self.redis.ask("STRLEN", "shared lock"), len(value))
        self.assertEqual(self.runs(), 0)

    def test_jobs_that_share_a_key_exclude_each_other(self):
        owner, gate = self.running("a", "--lock-key", "nightly")
        self.assertIsNotNone(self.redis.get("nightly"))
        self.assertExit(self.on("b", "--lock-key", "nightly", job="other"), BLOCKED)
        self.ends(owner, gate)
        self.assertExit(self.on("b", "--lock-key", "nightly", job="other"), DONE)
        self.assertEqual(self.runs(), 2, "the mark of one job is none of the other")

    def test_a_key_of_another_type_is_left_alone(self):
        self.redis.ask("RPUSH", LOCK, "a list")
        self.assertExit(self.on("a"), UNAVAILABLE, "--lock-key")
        self.assertEqual(self.redis.ask("LRANGE", LOCK, 0, -1), ["a list"])
        self.assertEqual(self.runs(), 0)

    # --wait

    def test_who_waits_for_the_same_date_finds_it_done(self):
        owner, gate = self.running()
        waiting = self.waits()
        self.ends(owner, gate)
        self.assertExit(waiting.end(), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertStatusOn("b", "done")

    def test_who_waits_for_another_date_runs(self):
        owner, gate = self.running()
        waiting = self.waits(date=NEXT)
        self.ends(owner, gate)
        self.assertExit(waiting.end(), DONE)
        self.assertEqual(self.runs(), 2)

    def test_a_wait_that_is_over(self):
        owner, gate = self.running()
        self.assertExit(self.on("b", "--wait", "0.3s", date=NEXT), BLOCKED)
        self.assertExit(self.on("b", "--wait", "0.3s"), BUSY)
        self.ends(owner, gate)

    def test_a_stopped_wait_ends_at_once_and_takes_nothing(self):
        owner, gate = self.running()
        value = self.redis.get(LOCK)
        for number in (signal.SIGTERM, signal.SIGINT):
            waiting = self.waits(date=NEXT)
            waiting.send_signal(number)
            self.assertExit(waiting.end(timeout=2), 128 + number)
        self.assertEqual(self.redis.get(LOCK), value)
        self.wait_for(lambda: self.redis.connections() == 1, what="what the stopped ones left")
        self.ends(owner, gate)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertEqual(self.runs(), 1)

    # What stands there

    def test_the_value_is_readable_and_unique(self):
        values = []
        for date in (DATE, NEXT):
            gate = self.gate(date)
            owner = self.start_on("a", date=date,
                                  command=f'echo "$ONCERUN_RUN_ID" >"$D/id"; {gate.shell}')
            self.wait_begun(owner, gate)
            value = self.redis.get(LOCK)
            told = fields(value)
            self.assertEqual((told["run"], told["job"], told["date"], told["host"], told["pid"]),
                             (self.lines("id")[0], "settle", date, os.uname().nodename,
                              str(owner.pid)))
            self.assertRegex(told["since"], f"^{INSTANT}$")
            values.append(value)
            self.ends(owner, gate)
        self.assertEqual(len({fields(value)["run"] for value in values}), 2)

    def test_a_job_with_any_name(self):
        name = "süd 1|2%\\{x}\t".strip()
        gate = self.gate()
        owner = self.start_on("a", job=name, command=gate.shell)
        self.wait_begun(owner, gate)
        value = self.redis.get("oncerun:lock:" + name)
        self.assertEqual(len(value.split(" ")), len(fields(value)) + 1)
        self.assertExit(self.on("b", job=name), BUSY)
        self.assertExit(self.on("b", job=name, date=NEXT), BLOCKED, f"pid {owner.pid}")
        self.ends(owner, gate)
        self.assertExit(self.on("b", job=name), DONE)
        self.assertStatus_of(name)

    def assertStatus_of(self, name):
        self.assertEqual(self.row_on("b", job=name)["status"], "done")

    def test_the_command_inherits_nothing_of_it(self):
        gate = self.gate()
        owner = self.start_on("a", command=gate.shell)
        pid = self.wait_begun(owner, gate)
        found = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        self.assertEqual([target for target in found if re.match(r"socket:|pipe:|anon_inode:", target)],
                         [])
        self.ends(owner, gate)

    def test_explain_takes_nothing(self):
        self.assertExit(self.on("a", "--explain"), DONE, None)
        self.assertEqual(self.redis.keys(), [])
        owner, gate = self.running()
        told = self.on("b", "--explain", date=NEXT)
        self.assertExit(told, DONE)
        for fact in ("held", DATE, str(owner.pid)):
            self.assertIn(fact, told.stdout)
        self.ends(owner, gate)
        self.assertEqual(self.runs(), 1)

    def test_a_check_runs_under_the_lock(self):
        gate = self.gate()
        asking = self.start_on("a", "--check-first", check=f"{gate.shell}; {ABSENT}")
        self.wait_begun(asking, gate)
        self.assertExit(self.on("b"), BUSY)
        self.assertExit(self.on("b", date=NEXT), BLOCKED)
        self.ends(asking, gate)
        self.assertEqual(self.runs(), 1)

    def test_the_url_from_the_environment(self):
        gate = self.gate()
        owner = self.start(*OPTIONS, env={"ONCERUN_LOCK": self.redis.url}, state=None,
                           command=gate.shell)
        self.wait_begun(owner, gate)
        self.assertIsNotNone(self.redis.get(LOCK))
        self.ends(owner, gate)

    def test_every_form_of_address(self):
        urls = [self.redis.url, self.redis.tcp_url]
        try:
            socket.getaddrinfo("localhost", self.redis.port)
            urls.append(f"redis://localhost:{self.redis.port}")
        except OSError as error:
            print(f"not tried by name: localhost is not known here ({error})", file=sys.stderr)
        for number, url in enumerate(urls):
            with self.subTest(url=url):
                gate = self.gate(f"form{number}")
                owner = self.start_on("a", url=url, date=f"2024-03-0{number + 1}",
                                      command=gate.shell)
                self.wait_begun(owner, gate)
                self.assertIsNotNone(self.redis.get(LOCK))
                self.ends(owner, gate)

    def test_databases(self):
        for number, url in enumerate((self.redis.url + "?db=3", self.redis.tcp_url + "/3")):
            with self.subTest(url=url):
                gate = self.gate(f"database{number}")
                owner = self.start_on("a", url=url, date=f"2024-03-0{number + 1}",
                                      command=gate.shell)
                self.wait_begun(owner, gate)
                self.assertEqual(self.redis.keys(), [])
                third = self.redis.client()
                self.addCleanup(third.close)
                third("SELECT", "3")
                self.assertIsNotNone(third("GET", LOCK))
                self.ends(owner, gate)
                self.assertIsNone(third("GET", LOCK))
        self.assertExit(self.on("a", url=self.redis.url + "?db=99"), UNAVAILABLE, "DB index")
        self.assertEqual(self.runs(), 0)


class Options(RedisCase):
    """What contradicts itself is said by the command line alone: no server is asked."""

    shares_server = False
    URL = "redis+unix:///nowhere/redis.sock"

    def refused(self, *args, lock=URL, text=None):
        result = self.oncerun("--lock", lock, *args, state=None)
        self.assertExit(result, USAGE, text)
        self.assertEqual(self.runs(), 0)
        self.assertIsNone(self.read(self.led))

    def test_a_lease_that_cannot_be_kept(self):
        # TERM two --kill-after before its end, KILL one before; renewed at a third of it.
        self.refused("--lock-ttl", "5s", "--kill-after", "2s", text="--kill-after")
        self.refused("--lock-ttl", "30s", "--kill-after", "10s", text="--kill-after")
        self.refused("--kill-after", "1m", text="--kill-after")

    def test_values(self):
        for option, *values in (("--lock-ttl", "0", "0.5s", "8d", "soon"),
                                ("--lock-renew", "maybe", ""),
                                ("--lock-scope", "host", ""),
                                ("--lock-unavailable", "skip", ""),
                                ("--lock-replicas", "-1", "some", "", "1.5"),
                                ("--lock-marks", "never"),
                                ("--connect-timeout", "0", "now")):
            for value in values:
                with self.subTest(option=option, value=value):
                    self.refused(option, value)

    def test_addresses(self):
        for url in ("redis://", "redis://:6379", "redis://host:99999", "redis://host:x",
                    "redis://host/x", "redis://[::1", "redis+unix://", "redis+sentinel://host:26379",
                    "redis+sentinel://host:26379/", "redis+unix:///s?db=x", "redis+unix:///s?x=1",
                    "rediss+unix:///s", "etcd://host"):
            with self.subTest(url=url):
                self.refused(lock=url)

    def test_they_go_with_a_lock_on_a_server(self):
        for option, value in (("--lock-scope", "job"), ("--lock-key", "x"), ("--lock-ttl", "10s"),
                              ("--lock-renew", "on"), ("--lock-replicas", "all"),
                              ("--lock-marks", "1d"), ("--lock-unavailable", "run"),
                              ("--lock-password-file", "/dev/null"), ("--connect-timeout", "1s"),
                              ("--on-lost", "true")):
            for lock in ("flock", "flock:" + self.path("lock"), "none"):
                with self.subTest(option=option, lock=lock):
                    self.refused(option, value, lock=lock, text=option)

    def test_a_check_without_anything_that_remembers(self):
        result = self.oncerun("--lock", self.URL, "--lock-marks", "0", ledger="none", state=None,
                              check=ABSENT)
        self.assertExit(result, USAGE)

    def test_a_server_behind_tls(self):
        result = self.oncerun("--lock", "rediss://127.0.0.1:1", "--connect-timeout", "1s", state=None)
        self.assertExit(result, UNAVAILABLE)
        self.assertEqual(self.runs(), 0)


class WithoutRedis(RedisCase):
    """Who does not use it does not pay for it."""

    def traced(self, *args, **kw):
        """The system calls that make processes or talk to somebody, of oncerun and all below it."""
        self.need("strace")
        log = self.path("trace")
        prefix = ["strace", "-f", "-o", log, "-e", "trace=fork,vfork,clone,clone3,%network"]
        result = self.oncerun(*args, prefix=prefix, command=["true"], **kw)
        self.assertExit(result, DONE)
        return [line.split(None, 1)[1] for line in self.lines("trace")
                if not re.search(r"resumed>|\+\+\+|---", line)]

    def test_a_run_without_it_has_no_process_more_and_asks_nobody(self):
        calls = self.traced(state=None)
        self.assertEqual(len(calls), 1, calls)
        self.assertRegex(calls[0], r"^(v?fork|clone3?)\(")

    def test_the_skip_of_a_done_date_asks_nobody(self):
        self.assertExit(self.oncerun(state=None), DONE)
        calls = self.traced("--lock", self.redis.url, state=None)
        self.assertEqual(calls, [])

    def test_a_run_with_it_has_two(self):
        calls = self.traced("--lock", self.redis.url, *OPTIONS, state=None)
        made = [call for call in calls if re.match(r"v?fork|clone", call)]
        self.assertEqual(len(made), 3, made)  # keeper, guardian, command
        asked = [call for call in calls if call.startswith("connect(")]
        self.assertEqual(len(asked), 1, asked)


class TheirNames(RedisCase):
    def test_helpers_can_be_told_from_oncerun(self):
        gate = self.gate()
        owner = self.start_on("a", command=gate.shell)
        self.wait_begun(owner, gate)
        names = []
        for pid in processes_with(f"D={self.dir}"):
            with open(f"/proc/{pid}/comm") as comm:
                names.append(comm.read().strip())
        for name in ("oncerun-lease", "oncerun-guard"):
            self.assertEqual(names.count(name), 1, names)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.wait_quiet(5)


if __name__ == "__main__":
    main()
