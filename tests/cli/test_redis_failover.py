"""Sentinels: a lock that moves to another server in mid-run is kept or lost, never doubled."""

import signal

from oncerun_test import DONE, LOST, UNAVAILABLE, main
from redis_server import LOCK, TTL, RedisError, Sentinel, ServersCase, boot_time, wait_until


class FailOver(ServersCase):
    def setUp(self):
        super().setUp()
        self.master, self.replica = self.master_and_replica()
        self.sentinel = Sentinel(self.dir, self.master)
        self.addCleanup(self.sentinel.stop)
        self.sentinel.start()
        wait_until(self.knows_replica, 20, "the sentinel to know the replica")
        self.url = self.sentinel.url

    def knows_replica(self):
        return bool(self.sentinel.ask("SENTINEL", "REPLICAS", "main"))

    def promoted(self):
        self.wait_for(lambda: self.sentinel.master_port() == self.replica.port, 30, "the fail-over")
        self.wait_for(lambda: self.replica.info("role", "replication") == "master", 30,
                      "the replica to be the master")

    def taken_over(self, first):
        """"b" keeps trying; whenever it starts, nothing of "a" may live. Returns a's exit code."""
        other = self.start_on("b", "--wait", "60", "-g", "at-least-once", "--connect-timeout", "0.5s",
                              url=self.url, command=self.witness("b"))
        self.promoted()
        self.wait_for(lambda: first.poll() is not None or
                      self.replica.get(LOCK) is not None and self.replica.pttl(LOCK) > 0,
                      what="the lock to be kept or lost")
        return other

    def test_a_run_by_sentinels(self):
        self.stop_witnesses()
        self.assertExit(self.on("a", url=self.url, command=self.witness("a")), DONE)
        self.assertIsNone(self.master.get(LOCK))
        self.assertEqual(self.mark(server=self.master)[0], "done")

    def test_a_sentinel_that_knows_no_such_master(self):
        url = f"redis+sentinel://127.0.0.1:{self.sentinel.port}/other"
        self.assertExit(self.on("a", "--connect-timeout", "0.5s", url=url), UNAVAILABLE, "other")
        self.assertEqual(self.runs(), 0)

    def test_the_second_sentinel_is_asked_when_the_first_is_gone(self):
        url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{self.sentinel.port}/main"
        self.assertExit(self.on("a", url=url), DONE)

    def test_a_planned_fail_over_in_mid_run(self):
        owner = self.begun("a", url=self.url)
        value = self.master.get(LOCK)
        self.wait_for(self.is_accepted, what="the sentinel to find the replica good enough")
        other = self.taken_over(owner)
        self.settle(owner, other, value)

    def is_accepted(self):
        try:
            return self.sentinel.ask("SENTINEL", "FAILOVER", "main") == "OK"
        except RedisError:
            return False

    def test_the_server_dies_in_mid_run(self):
        owner = self.begun("a", url=self.url)
        value = self.master.get(LOCK)
        self.master.stop(signal.SIGKILL)
        other = self.taken_over(owner)
        self.settle(owner, other, value)

    def test_the_server_dies_while_the_replica_lags(self):
        owner = self.begun("a", url=self.url)
        value = self.master.get(LOCK)
        self.paused(self.replica)
        self.renewals_fail()
        self.master.stop(signal.SIGKILL)
        self.replica.resume()
        other = self.taken_over(owner)
        self.settle(owner, other, value)

    def renewals_fail(self):
        """Until one that was sent to a server whose replica stands still must have been given up."""
        before = self.master.calls("wait")
        self.wait_for(lambda: self.master.calls("wait") > before, TTL, "a renewal to be waited for")

    def test_a_server_that_is_cut_off_from_its_replica_and_lives_on(self):
        """Two masters for a while: the old one still grants, and what it grants must not count."""
        owner = self.begun("a", url=self.url)
        value = self.master.get(LOCK)
        self.master.pause()
        self.addCleanup(self.master.resume)
        other = self.taken_over(owner)
        self.master.resume()
        self.settle(owner, other, value)

    def settle(self, owner, other, value):
        """Kept: its value is on the new server, and it ends done. Lost: the other one runs."""
        if owner.poll() is None:
            self.wait_for(lambda: owner.poll() is not None or self.replica.get(LOCK) == value
                          and self.is_renewed(), TTL * 2 + 5, "the lock to be kept or lost")
        if owner.poll() is None:
            self.assertEqual(self.lines("starts"), ["a"])
            self.stop_witnesses()
            self.assertExit(owner.end(), DONE)
            self.assertExit(other.end(), DONE)
            self.assertEqual(self.lines("starts"), ["a"])
        else:
            self.assertExit(owner.end(), LOST)
            self.wait_for(lambda: "b" in self.lines("starts"), 40, "the other host to take over")
            self.stop_witnesses()
            self.assertExit(other.end(), DONE)
        self.assertNeverTwo()

    def is_renewed(self):
        """A second look that finds more left than the first."""
        left = self.replica.pttl(LOCK)
        until = boot_time() + 0.1
        self.wait_for(lambda: boot_time() > until, what="a moment")
        return self.replica.pttl(LOCK) > left


if __name__ == "__main__":
    main()
