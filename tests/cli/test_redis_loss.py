"""A lease that is survived or lost: what happens to the server in mid-run."""

import signal
import sys

from oncerun_test import (ABSENT, BUSY, DONE, HELD, LOST, NEXT, UNAVAILABLE, kill_if_still, main)
from redis_server import LOCK, TTL, MidRun, boot_time, has_ended

# Takes over whatever its child leaves to it, and says whether that is anything.
REAPER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
code = subprocess.call(sys.argv[1:])
try:
    left = os.waitpid(-1, os.WNOHANG)
    print("left", left)
except ChildProcessError:
    print("nothing left")
sys.exit(code)
"""

class Survived(MidRun):
    def test_script_flush(self):
        owner, gate = self.running()
        self.redis.ask("SCRIPT", "FLUSH")
        self.renewed(times=2)
        self.redis.ask("SCRIPT", "FLUSH")
        self.ends(owner, gate)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertEqual(self.mark()[0], "done")

    def test_client_kill(self):
        owner, gate = self.running()
        self.redis.drop_connections()
        self.renewed(times=2)
        self.redis.drop_connections()
        self.ends(owner, gate)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertEqual(self.mark()[0], "done")

    def test_a_restart_with_data(self):
        server = self.server(old=TTL, config=[("appendonly", "yes"), ("appendfsync", "always")])
        owner, gate = self.running(url=server.url)
        value = server.get(LOCK)
        server.restart()
        self.assertEqual(server.get(LOCK), value)
        self.renewed(server, times=2)
        self.ends(owner, gate)
        self.assertIsNone(server.get(LOCK))
        self.assertEqual(self.mark(server=server)[0], "done")

    def test_a_server_that_hangs_for_a_moment(self):
        owner, gate = self.running("--connect-timeout", "0.3s")
        self.renewed()
        self.paused(self.redis)
        # Long enough for a renewal (at a third) to be given up, and tried again before it is too late.
        until = boot_time() + TTL / 3
        self.wait_for(lambda: boot_time() > until, what="the hang to last")
        self.redis.resume()
        self.renewed(times=2)
        self.ends(owner, gate)

    def test_the_result_is_left_by_a_new_connection(self):
        owner, gate = self.running()
        self.redis.drop_connections()
        self.ends(owner, gate)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertExit(self.on("b"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_lock_that_cannot_be_released_costs_nothing_but_time(self):
        owner, gate = self.running("--connect-timeout", "0.3s")
        self.paused(self.redis)
        gate.go()
        result = owner.end(timeout=10)
        self.assertExit(result, DONE, "not released")
        self.assertStatusOn("a", "done")

    def test_nobody_is_left_to_be_reaped_by_others(self):
        """A container's first process may be one that reaps nobody."""
        self.write(self.path("reaper.py"), REAPER)
        for command, code in (("exit 0", DONE), ("exit 3", 3), ("kill -9 $$", 137)):
            result = self.on("a", job=f"job {code}", command=command,
                             prefix=[sys.executable, self.path("reaper.py")])
            self.assertExit(result, code)
            self.assertEqual(result.stdout, "nothing left\n")

    def test_no_renewal_and_a_short_command(self):
        owner, gate = self.running("--lock-renew", "off")
        left = self.redis.pttl(LOCK)
        seen = []
        self.wait_for(lambda: seen.append(self.redis.pttl(LOCK)) or seen[-1] < left - 1200,
                      what="more than a third of the time to pass")
        self.assertEqual(seen, sorted(seen, reverse=True), "nobody renewed it")
        self.ends(owner, gate)
        self.assertIsNone(self.redis.get(LOCK))


class Lost(MidRun):
    # Noticed with the next renewal, at a third; then TERM, and the rest is over at once.
    NOTICED = TTL / 3 + 2

    def test_flushall(self):
        owner, _ = self.running("--on-lost", 'echo "$ONCERUN_RUN_ID" >"$D/told"', "--report",
                                self.path("report.json"), command='echo "$ONCERUN_RUN_ID" >"$D/id";')
        self.redis.ask("FLUSHALL")
        self.lost(owner, within=self.NOTICED)
        self.assertEqual(self.lines("told"), self.lines("id"))
        report = self.state(self.path("report.json"))
        self.assertEqual((report["outcome"], report["exit_code"], report["started"]),
                         ("lost", LOST, True))
        # The mark that it leaves is all that others can know.
        self.assertEqual(self.mark()[:2], ["unknown", self.lines("id")[0]])
        self.assertExit(self.on("b"), HELD)
        self.assertExit(self.on("a"), HELD)
        self.assertExit(self.on("b", check=ABSENT), DONE)
        self.assertEqual(self.runs(), 2)

    def test_a_restart_without_data(self):
        server = self.server(old=TTL)
        owner, _ = self.running(url=server.url)
        server.restart(signal.SIGKILL)
        self.lost(owner, within=self.NOTICED)
        self.assertExit(self.on("b", url=server.url, date=NEXT), UNAVAILABLE)  # too young to know
        server.wait_until_old(TTL)
        self.assertExit(self.on("b", url=server.url, date=NEXT), DONE)

    def test_a_key_that_somebody_deleted(self):
        owner, _ = self.running()
        self.redis.ask("DEL", LOCK)
        self.lost(owner, within=self.NOTICED)
        self.assertIsNone(self.redis.get(LOCK))

    def test_a_key_that_somebody_took(self):
        owner, _ = self.running()
        self.redis.ask("SET", LOCK, "somebody else's", "PX", "60000")
        self.lost(owner, within=self.NOTICED)
        self.assertEqual(self.redis.get(LOCK), "somebody else's")
        self.assertGreater(self.redis.pttl(LOCK), 40_000)

    def test_a_key_without_an_end_that_somebody_took(self):
        owner, _ = self.running()
        self.redis.ask("SET", LOCK, "somebody else's")
        self.lost(owner, within=self.NOTICED)
        self.assertEqual(self.redis.pttl(LOCK), -1)

    def test_a_server_that_is_gone(self):
        server = self.server(old=TTL)
        owner, _ = self.running(url=server.url)
        server.stop(signal.SIGKILL)
        self.lost(owner, within=TTL + 3)  # recording included

    def test_a_server_that_hangs(self):
        """The command is gone before the lease ends there, and nothing waits for the server."""
        owner, _ = self.running("--connect-timeout", "60s")
        sent_at_the_latest = boot_time()
        self.paused(self.redis)
        self.wait_for(lambda: has_ended(self.pid), TTL + 1, "the command to end")
        self.assertLess(boot_time(), sent_at_the_latest + TTL)
        # It cannot be told any more; with the limit for that the test would last for minutes.
        for pid in self.processes():
            kill_if_still(pid, f"D={self.dir}")
        owner.end()

    def test_no_renewal_and_a_long_command(self):
        owner, _ = self.running("--lock-renew", "off")
        before = boot_time()
        self.wait_for(lambda: has_ended(self.pid), TTL, "the command to be stopped")
        self.assertLess(boot_time(), before + TTL)
        self.lost(owner, within=3)

    def test_a_command_that_ignores_term(self):
        owner, _ = self.running(command='trap "" TERM;')
        self.redis.ask("DEL", LOCK)
        self.lost(owner, within=self.NOTICED + 2)

    def test_its_whole_tree_is_stopped(self):
        owner, _ = self.running(command='(setsid sh -c "trap \\"\\" TERM; echo \\$\\$ >\\"$D/child\\"; '
                                        'exec sleep 100") & until test -s "$D/child"; do :; done;')
        child = int(self.lines("child")[0])
        self.redis.ask("DEL", LOCK)
        self.lost(owner, within=self.NOTICED + 2)
        self.assertTrue(has_ended(child))

    def test_a_handler_that_exits_0(self):
        owner, _ = self.running(command='trap "exit 0" TERM;')
        self.redis.ask("DEL", LOCK)
        self.lost(owner, within=self.NOTICED)

    def test_a_loss_that_is_noticed_after_the_end_only(self):
        """The command ended undisturbed: its result stands, and somebody is told."""
        owner, gate = self.running()
        self.renewed()  # so that the next one is a while ahead
        self.redis.ask("DEL", LOCK)
        gate.go()
        result = owner.end()
        self.assertExit(result, DONE, "lost before the end")
        self.assertStatusOn("a", "done")
        self.assertEqual(self.mark()[0], "done")

    def test_on_lost_that_fails_changes_nothing(self):
        owner, _ = self.running("--on-lost", "exit 5")
        self.redis.ask("DEL", LOCK)
        result = self.lost(owner, within=self.NOTICED)
        self.assertIn("--on-lost", result.stderr)

    def test_on_lost_is_not_run_otherwise(self):
        for command, code in (("exit 0", DONE), ("exit 3", 3), ("kill -9 $$", 137)):
            result = self.on("a", "--on-lost", 'echo told >>"$D/told"', command=command, date=NEXT,
                             job=f"job {code}")
            self.assertExit(result, code)
        self.assertEqual(self.lines("told"), [])

    def test_while_the_check_is_asked(self):
        gate = self.gate()
        asking = self.start_on("a", "--check-first", check=f"{gate.shell}; {ABSENT}")
        self.pid = self.wait_begun(asking, gate)
        self.redis.ask("DEL", LOCK)
        result = asking.end(timeout=self.NOTICED + 5)
        self.assertExit(result, UNAVAILABLE, "lock was lost")
        self.assertEqual(self.runs(), 0)
        self.assertTrue(has_ended(self.pid))

    def test_between_retries(self):
        owner = self.start_on("a", "--retries", "3", "--retry-delay", "2s",
                              command='echo run >>"$D/runs"; exit 3')
        self.wait_for(lambda: self.row_on("a") and self.row_on("a")["status"] == "failed",
                      what="the first attempt to fail")
        self.redis.ask("SET", LOCK, "somebody else's", "PX", "60000")
        result = owner.end()
        self.assertNotIn(result.returncode, (DONE, BUSY))
        self.assertEqual(self.runs(), 1, "nothing is started without the lock")
        self.assertEqual(self.redis.get(LOCK), "somebody else's")

    def test_what_stood_by_then_stays_done(self):
        """A command that marks its own row done in its own transaction is not lost."""
        script = self.path("own.py")
        self.write(script, f"""
import os, sqlite3
db = sqlite3.connect({self.led_of("a")!r}, timeout=10)
with db:
    n = db.execute("UPDATE job_run SET status='done', updated_at='2024-10-26T00:00:00.000Z' WHERE "
                   "run_id=? AND fencing_token=? AND status='pending'",
                   (os.environ["ONCERUN_RUN_ID"], os.environ["ONCERUN_TOKEN"])).rowcount
    assert n == 1
""")
        owner, _ = self.running(command=f"/usr/bin/python3 '{script}' || exit 9;")
        self.redis.ask("DEL", LOCK)
        result = owner.end(timeout=self.NOTICED + 5)
        self.assertExit(result, DONE)
        self.assertStatusOn("a", "done")
        self.assertExit(self.on("b"), DONE)
        self.assertEqual(self.runs(), 1)


if __name__ == "__main__":
    main()
