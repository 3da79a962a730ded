"""SIGKILL at every call of a run whose lock is a lease on a Redis server. Oncerun alone is struck: its
guardian has to end the command, and the next start waits for the end of the lease."""

from crash import BOTH, GUARANTEES, LEDGER, Column, CrashCase, main
from redis_server import Suite, missing_packages

LEASE = ("--lock-ttl", "1s", "--kill-after", "0.2s", "--wait", "30s")


class Lease(CrashCase):
    column_step = 3

    def setUp(self):
        super().setUp()
        missing = missing_packages()
        if missing:
            self.skip(f"needs {' and '.join(missing)}, which is not installed")
        self.redis = Suite.shared()

    def forget(self):
        self.redis.ask("FLUSHALL")

    def one(self, strike):
        strike.kill()
        strike.settle()

    def test_killed_under_a_lease(self):
        for marks in (LEDGER, BOTH):
            for guarantee in GUARANTEES:
                for checked in (False, True):
                    self.strike_all(Column("lease", marks, True, guarantee, checked,
                                           args=("--lock", self.redis.url, *LEASE),
                                           arrange=self.forget), self.one)


if __name__ == "__main__":
    main()
