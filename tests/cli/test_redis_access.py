"""A Redis server that lets nobody in, or that is not there: users, secrets, and every way not to
answer (case R05)."""

import os
import signal
import socket
import sqlite3
import threading
import time

from oncerun_test import ABSENT, BLOCKED, DATE, DONE, HELD, NEXT, UNAVAILABLE, USAGE, main
from redis_server import LOCK, TTL, RedisCase, free_port

SECRET = "pa55word-of-the-test"
# What oncerun(1) says that its user needs.
LEAST = ["resetchannels", "-@all", "+evalsha", "+eval", "+get", "+set", "+del", "+pttl", "+pexpire",
         "+time", "+info", "+wait", "+auth", "+select", "~oncerun:*"]
# Each step of a request may take that long; three of them, and the start of the processes.
QUICK = ("--connect-timeout", "0.3s")
LIMIT = 5


class Secrets(RedisCase):
    def setUp(self):
        super().setUp()
        self.redis.ask("CONFIG", "SET", "requirepass", SECRET)
        # The connection that asks is let in already.
        self.addCleanup(self.redis.ask, "CONFIG", "SET", "requirepass", "")

    def assertNoSecret(self, *texts):
        for text in texts:
            self.assertNotIn(SECRET, text)
        for name in os.listdir(self.dir):
            content = self.read(self.path(name)) if os.path.isfile(self.path(name)) else b""
            if name != "secret":
                self.assertNotIn(SECRET.encode(), content, f"in {name}")

    def with_url(self, before):
        return f"redis+unix://{before}@{self.redis.socket}"

    def test_the_password_by_variable(self):
        result = self.on("a", "-v", env={"ONCERUN_REDIS_PASSWORD": SECRET})
        self.assertExit(result, DONE)
        self.assertNoSecret(result.stdout, result.stderr)

    def test_the_password_by_file(self):
        for number, text in enumerate((SECRET, SECRET + "\n", SECRET + "\nanother line\n")):
            self.write(self.path("secret"), text)
            os.chmod(self.path("secret"), 0o600)
            result = self.on("a", "-v", "--lock-password-file", self.path("secret"),
                             date=f"2024-03-0{number + 1}")
            self.assertExit(result, DONE)
            self.assertNoSecret(result.stdout, result.stderr)

    def test_the_password_by_url(self):
        for number, url in enumerate((self.with_url(":" + SECRET), self.with_url("default:" + SECRET),
                                      f"redis://:{SECRET}@127.0.0.1:{self.redis.port}",
                                      self.with_url(":" + SECRET.replace("-", "%2D")))):
            result = self.on("a", "-v", url=url, date=f"2024-03-0{number + 1}")
            self.assertExit(result, DONE)
            self.assertNoSecret(result.stdout, result.stderr)

    def test_a_password_of_awkward_bytes(self):
        awkward = "p@ss:w/rd %41"
        self.redis.ask("CONFIG", "SET", "requirepass", awkward)
        self.assertExit(self.on("a", env={"ONCERUN_REDIS_PASSWORD": awkward}), DONE)
        self.assertExit(self.on("a", url=self.with_url(":p%40ss%3Aw%2Frd%20%2541"), date=NEXT), DONE)

    def test_a_password_file_that_is_none(self):
        self.write(self.path("empty"), "\n")
        for path in (self.path("no such"), self.path("empty")):
            result = self.on("a", "--lock-password-file", path)
            self.assertIn(result.returncode, (USAGE, 66, 73), result.stderr)
            self.assertIn(path, result.stderr)

    def test_a_wrong_password_and_none(self):
        wrong = "wr0ng-pa55word"
        for kw in ({"env": {"ONCERUN_REDIS_PASSWORD": wrong}}, {"url": self.with_url(":" + wrong)}, {}):
            begun = time.monotonic()
            result = self.on("a", "-v", **kw)
            self.assertExit(result, UNAVAILABLE, "ONCERUN_REDIS_PASSWORD")
            self.assertLess(time.monotonic() - begun, LIMIT)
            self.assertNotIn(wrong, result.stderr)
        self.assertEqual(self.runs(), 0)
        self.assertIsNone(self.row_on("a"))

    def test_no_secret_is_told_to_anybody(self):
        url = self.with_url("default:" + SECRET)
        report = self.path("report.json")
        explained = self.on("a", "--explain", "-v", url=url)
        self.assertExit(explained, DONE)
        explained_json = self.on("a", "--explain", "--json", url=url)
        gate = self.gate()
        owner = self.start_on("a", "-v", "--report", report, url=url, command=gate.shell)
        pid = self.wait_begun(owner, gate)
        with open(f"/proc/{pid}/environ", errors="replace") as file:
            self.assertNoSecret(file.read())
        blocked = self.on("b", date=NEXT, url=url)
        self.assertExit(blocked, BLOCKED)
        self.assertNoSecret(self.redis.get(LOCK), *self.redis.keys())
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertNoSecret(explained.stdout, explained.stderr, explained_json.stdout, blocked.stderr,
                            owner.err)
        self.assertIsNotNone(self.read(report))
        self.redis.ask("CONFIG", "SET", "requirepass", "another")
        refused = self.on("b", "-v", "--report", report, url=url, date=NEXT)
        self.assertExit(refused, UNAVAILABLE)
        unreachable = self.on("b", "-v", "--report", report, date=NEXT,
                              url=f"redis://default:{SECRET}@127.0.0.1:{free_port()}")
        self.assertExit(unreachable, UNAVAILABLE)
        run_without = self.on("c", "-v", "--report", report, "--lock-unavailable", "run", url=url)
        self.assertExit(run_without, DONE)
        usage = self.on("c", "--lock-ttl", "1", "--kill-after", "1", url=url, options=())
        self.assertExit(usage, USAGE)
        mistyped = self.on("c", url=f"redis://default:{SECRET}@host:x")
        self.assertExit(mistyped, USAGE)
        self.assertNoSecret(refused.stderr, unreachable.stderr, run_without.stderr, usage.stderr,
                            mistyped.stderr)
        connection = sqlite3.connect(self.led_of("a"))
        self.addCleanup(connection.close)
        self.assertNotIn(SECRET, "\n".join(connection.iterdump()))


class Users(RedisCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.redis.ask, "ACL", "DELUSER", "settler")

    def user(self, *rules):
        self.redis.ask("ACL", "SETUSER", "settler", "reset", "on", ">" + SECRET, *rules)

    @property
    def url(self):
        return f"redis+unix://settler:{SECRET}@{self.redis.socket}"

    def test_a_user_with_the_least_rights(self):
        self.user(*LEAST)
        owner_gate = self.gate()
        owner = self.start_on("a", url=self.url, command=owner_gate.shell)
        self.wait_begun(owner, owner_gate)
        self.assertExit(self.on("b", url=self.url, date=NEXT), BLOCKED)
        self.assertExit(self.on("b", "--explain", url=self.url, date=NEXT), DONE)
        left = self.redis.pttl(LOCK)
        self.wait_for(lambda: self.redis.pttl(LOCK) > left, what="a renewal")
        owner_gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertExit(self.on("b", url=self.url), DONE)
        self.assertExit(self.on("b", url=self.url + "?db=1", date=NEXT), DONE)
        for row in self.redis.ask("ACL", "LOG"):
            self.fail(f"something more was asked for: {row}")
        self.assertEqual(self.runs(), 1)

    def test_rights_that_are_missing(self):
        for number, rules in enumerate((["-evalsha", "-eval"], ["-set"], ["-info"],
                                        ["resetkeys", "~other:*"])):
            with self.subTest(rules=rules):
                self.redis.ask("ACL", "LOG", "RESET")
                self.redis.ask("SCRIPT", "FLUSH")
                self.user(*LEAST, *rules)
                result = self.on("a", url=self.url, date=f"2024-03-0{number + 1}")
                self.assertExit(result, UNAVAILABLE, "oncerun(1)")
                self.assertEqual(self.redis.keys("oncerun:*"), [])
        self.redis.ask("ACL", "LOG", "RESET")
        self.assertEqual(self.runs(), 0)

    def test_a_user_whose_password_comes_from_elsewhere(self):
        self.user(*LEAST)
        env = {"ONCERUN_REDIS_PASSWORD": SECRET}
        for number, before in enumerate(("settler:", "settler")):
            with self.subTest(url=before):
                self.assertExit(self.on("a", env=env, date=f"2024-03-0{number + 1}",
                                        url=f"redis+unix://{before}@{self.redis.socket}"), DONE)

    def test_a_user_who_is_gone_in_mid_run(self):
        """Renewals are refused from then on: the command ends before the lease does."""
        self.user(*LEAST)
        gate = self.gate()
        owner = self.start_on("a", url=self.url, command=gate.shell)
        self.wait_begun(owner, gate)
        self.redis.ask("ACL", "DELUSER", "settler")
        self.assertExit(owner.end(timeout=TTL + 5), 82)
        self.assertStatusOn("a", "unknown")
        self.redis.ask("ACL", "LOG", "RESET")


class NotThere(RedisCase):
    """0 runs, `unavailable` and never `busy`, within the limit."""

    def assertUnavailable(self, url, *args, limit=LIMIT, text=None, runs=0):
        begun = time.monotonic()
        result = self.on("a", *QUICK, *args, url=url)
        took = time.monotonic() - begun
        self.assertExit(result, UNAVAILABLE, text)
        self.assertLess(took, limit)
        self.assertEqual(self.runs(), runs)
        self.assertNotEqual((self.row_on("a") or {"status": "failed"})["status"], "done")
        return result

    def listening(self, answer=None):
        """The URL of a server that takes connections, and does no more unless `answer` does."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.asked = threading.Event()
        kept = []
        self.addCleanup(lambda: [connection.close() for connection in kept])

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection):
            try:
                while connection.recv(65536):
                    self.asked.set()
                    if answer is None:
                        continue
                    connection.sendall(answer)
                    if not answer.endswith(b"\r\n"):
                        connection.close()
            except OSError:
                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()

        def stop():
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)

        self.addCleanup(stop)
        return f"redis://127.0.0.1:{listener.getsockname()[1]}"

    def test_R05_a_closed_port(self):
        port = free_port()
        self.assertUnavailable(f"redis://127.0.0.1:{port}", text=f"127.0.0.1:{port}")

    def test_no_socket(self):
        self.assertUnavailable("redis+unix:///nowhere/redis.sock", text="/nowhere/redis.sock")

    def test_a_name_that_does_not_resolve(self):
        self.assertUnavailable("redis://no-such-host.invalid", text="no-such-host.invalid", limit=15)

    def test_R05_a_port_that_accepts_and_never_answers(self):
        self.assertUnavailable(self.listening(), text="127.0.0.1")

    def test_it_is_asked_again_within_wait(self):
        begun = time.monotonic()
        self.assertUnavailable(self.listening(), "--wait", "1.5s", limit=1.5 + LIMIT)
        self.assertGreater(time.monotonic() - begun, 1.4)

    def test_a_signal_is_not_delayed_by_a_server_that_never_answers(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            url = self.listening()
            owner = self.start_on("a", "--connect-timeout", "60s", "--wait", "10m", url=url)
            self.wait_for(self.asked.is_set, what="the server to be asked")
            owner.send_signal(number)
            self.assertExit(owner.end(timeout=2), 128 + number)
        self.assertEqual(self.runs(), 0)

    def test_nothing_stays_behind_after_that(self):
        owner = self.start_on("a", "--connect-timeout", "1s", "--wait", "10m", url=self.listening())
        self.wait_for(self.asked.is_set, what="the server to be asked")
        owner.send_signal(signal.SIGTERM)
        self.assertExit(owner.end(timeout=2), 128 + signal.SIGTERM)
        self.wait_quiet(10)

    def test_a_server_that_comes_back_within_wait(self):
        server = self.server("late", old=TTL)
        self.paused(server)
        waiting = self.start_on("a", *QUICK, "--wait", "60", url=server.url)
        # Given up at least once: each connection is one more in the server's backlog.
        self.wait_for(lambda: self.attempts(server) >= 2, what="a second try")
        server.resume()
        self.assertExit(waiting.end(), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertEqual([key for key in server.keys() if key == LOCK], [])

    def attempts(self, server):
        with open("/proc/net/unix") as file:
            return sum(line.rstrip().endswith(server.socket) for line in file) - 1

    def test_garbage(self):
        for name, answer in (
                ("another protocol", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                ("bytes", bytes(range(256))),
                ("half an answer", b"$100\r\nabc"),
                ("an end", b"+"),
                ("a huge one", b"$9999999999999\r\n\r\n"),
                ("a negative one", b"*-5\r\n"),
                ("deep", b"*1\r\n" * 50 + b"\r\n"),
                ("numbers", b":1\r\n:1\r\n:1\r\n"),
                ("empty texts", b"$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n"),
                ("nothing", b"$-1\r\n$-1\r\n$-1\r\n"),
                ("an empty list", b"$0\r\n\r\n$0\r\n\r\n*0\r\n"),
                ("a list of nothing", b"$0\r\n\r\n$0\r\n\r\n*3\r\n$-1\r\n$-1\r\n$-1\r\n")):
            with self.subTest(name):
                self.assertUnavailable(self.listening(answer))

    def test_what_passes_is_unavailable_now(self):
        for error in (b"LOADING Redis is loading the dataset in memory",
                      b"MASTERDOWN Link with MASTER is down", b"BUSY Redis is busy running a script",
                      b"CLUSTERDOWN The cluster is down", b"TRYAGAIN later",
                      b"MISCONF Redis is configured to save RDB snapshots",
                      b"OOM command not allowed when used memory > 'maxmemory'",
                      b"ERR max number of clients reached"):
            with self.subTest(error=error):
                self.assertUnavailable(self.listening((b"-" + error + b"\r\n") * 3),
                                       text=error.split()[0].decode())

    def test_R05_a_server_that_is_paused(self):
        self.redis.ask("CLIENT", "PAUSE", "10000", "ALL")
        try:
            self.assertUnavailable(self.redis.url)
        finally:
            self.resume()

    def resume(self):
        client = self.redis.client()
        client("CLIENT", "UNPAUSE")
        client.close()

    def test_what_was_given_up_is_given_back_when_the_server_goes_on(self):
        """A request that was not waited for is executed all the same when a hung server resumes."""
        self.assertExit(self.on("b", date=NEXT), DONE)  # its scripts are known to the server
        self.redis.pause()
        self.addCleanup(self.redis.resume)
        self.assertUnavailable(self.redis.url, runs=1)
        self.wait_quiet(20)
        self.redis.resume()
        self.wait_for(lambda: self.redis.connections() == 0, what="the server to see them all off")
        self.wait_free()
        self.assertExit(self.on("b"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_R05_a_replica(self):
        replica = self.server("replica", config=[("replicaof", "127.0.0.1", self.redis.port)])
        self.wait_for(lambda: replica.info("master_link_status", "replication") == "up",
                      what="the replica to be in step")
        try:
            self.assertUnavailable(replica.url, text="replica")
        finally:
            replica.stop()
            self.wait_for(lambda: self.redis.info("connected_slaves", "replication") == "0",
                          what="the replica to be forgotten")

    def test_a_full_server(self):
        self.redis.ask("CONFIG", "SET", "maxmemory", "1")
        self.addCleanup(self.redis.ask, "CONFIG", "SET", "maxmemory", "0")
        self.assertUnavailable(self.redis.url)

    def test_a_ledger_that_knows_it_done_needs_no_server(self):
        self.assertExit(self.on("a"), DONE)
        self.assertExit(self.on("a", *QUICK, url=self.listening()), DONE)

    def test_a_check_is_not_asked_without_the_lock(self):
        result = self.on("a", *QUICK, "--check-first", url=self.listening(),
                         check=f'echo asked >>"$D/asked"; {ABSENT}')
        self.assertExit(result, UNAVAILABLE)
        self.assertEqual(self.lines("asked"), [])


class TooYoung(RedisCase):
    shares_server = False

    def test_a_young_server_grants_nothing(self):
        server = self.server()
        result = self.on("a", "--lock-ttl", "60s", url=server.url, options=())
        self.assertExit(result, UNAVAILABLE, "--lock-ttl")
        self.assertEqual(self.runs(), 0)
        self.assertEqual([key for key in server.keys() if ":token:" not in key], [])

    def test_a_young_server_is_waited_for(self):
        server = self.server()
        self.assertExit(self.on("a", "--lock-ttl", "2s", "--wait", "30", url=server.url,
                                options=()), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertGreaterEqual(int(server.info("uptime_in_seconds", "server")), 2)

    def test_one_that_is_old_enough_for_a_shorter_lease(self):
        server = self.server(old=1)
        self.assertExit(self.on("a", "--lock-ttl", "1s", "--kill-after", "0.2s", url=server.url,
                                options=()), DONE)


class RunWithout(RedisCase):
    """--lock-unavailable run."""

    ANYWAY = (*QUICK, "--lock-unavailable", "run")

    def closed(self):
        return f"redis://127.0.0.1:{free_port()}"

    def test_it_runs_and_says_so_everywhere(self):
        url = self.closed()
        result = self.on("a", *self.ANYWAY, url=url)
        self.assertExit(result, DONE, "WITHOUT the lock")
        self.assertIn("127.0.0.1", result.stderr)
        self.assertEqual(self.runs(), 1)
        self.assertIn("without the lock", self.row_on("a")["note"])
        self.assertEqual([event["biz_date"] for event in self.events_on("a", "warning")], [DATE])
        show = self.sub("show", "--job", "settle", "--date", DATE, ledger=self.led_of("a"))
        self.assertExit(show, 0)
        self.assertIn("without the lock", show.stdout)

    def test_the_commands_own_code_is_passed_on(self):
        self.assertExit(self.on("a", *self.ANYWAY, url=self.closed(), command="exit 7"), 7)
        self.assertStatusOn("a", "failed")
        self.assertIn("without the lock", self.row_on("a")["note"])

    def test_the_ledger_still_decides(self):
        url = self.closed()
        self.assertExit(self.on("a", *self.ANYWAY, url=url), DONE)
        self.assertExit(self.on("a", *self.ANYWAY, url=url), DONE)
        self.assertEqual(self.runs(), 1)
        gate = self.gate()
        owner = self.start_on("a", *self.ANYWAY, url=url, date=NEXT, command=gate.shell)
        self.wait_begun(owner, gate)
        self.assertEqual(self.on("a", *self.ANYWAY, url=url, date=NEXT).returncode, 75)
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_a_lock_that_is_held_is_not_unavailable(self):
        self.redis.ask("SET", LOCK, "somebody else's", "PX", "60000")
        self.assertExit(self.on("a", *self.ANYWAY), BLOCKED)
        self.assertEqual(self.runs(), 0)

    def test_a_server_that_never_answers(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"redis://127.0.0.1:{listener.getsockname()[1]}"
            begun = time.monotonic()
            self.assertExit(self.on("a", *self.ANYWAY, url=url), DONE, "WITHOUT the lock")
            self.assertLess(time.monotonic() - begun, LIMIT)
        self.assertEqual(self.runs(), 1)

    def test_with_a_server_nothing_is_said(self):
        result = self.on("a", *self.ANYWAY)
        self.assertExit(result, DONE)
        self.assertEqual(result.stderr, "")
        self.assertEqual(self.row_on("a")["note"], "")

    def test_a_usage_error_stays_one(self):
        self.assertExit(self.on("a", *self.ANYWAY, url="redis://host:x"), USAGE)
        self.assertEqual(self.runs(), 0)

    def test_an_unsettled_run_is_held_as_ever(self):
        self.gone_on("a")
        self.assertExit(self.on("a", *self.ANYWAY, url=self.closed()), HELD)
        self.assertEqual(self.runs(), 1)


if __name__ == "__main__":
    main()
