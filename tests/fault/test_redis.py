"""One failed call in a run under a lock on a server: what oncerun, not its helpers, asks of the kernel.

The next start may find the lock of the first still held, and waits for its end.
"""

from crash import LEDGER, Column, main
from faults import FaultCase
from oncerun_test import DONE, HELD, LOST, UNAVAILABLE, UNRECORDED, UNWRITABLE
import plausible
from redis_server import Suite, missing_packages

LEASE = ("--lock-ttl", "1s", "--kill-after", "0.2s", "--wait", "30s")

# Between oncerun and its helpers there are sockets and pipes.
plausible.BY_NAME.update({
    "pipe2": ("EMFILE", "ENFILE"), "recvfrom": ("EINTR", "ENOMEM"), "sendto": ("EINTR", "ENOMEM"),
    "socketpair": ("EMFILE", "ENOMEM"), "timerfd_create": ("EMFILE", "ENOMEM")})


class Lease(FaultCase):
    def setUp(self):
        super().setUp()
        missing = missing_packages()
        if missing:
            self.skip(f"needs {' and '.join(missing)}, which is not installed")
        self.redis = Suite.shared()

    def forget(self):
        self.redis.ask("FLUSHALL")

    def one(self, fault):
        fault.strike()
        fault.must(fault.code in (DONE, UNAVAILABLE, UNWRITABLE, HELD, UNRECORDED, LOST), "exit codes are those of the manual",
                   f"exit {fault.code}")
        if fault.error == "EINTR":
            fault.must(fault.code == DONE, "EINTR changes nothing", f"exit {fault.code}")
        if fault.code == DONE:
            done = fault.now.mark and fault.now.mark.status == "done"
            fault.must(done and fault.now.effects, "success is never reported without a durable done",
                       fault.now)
        again = self.plain(fault.column)
        now = fault.invariants.always(fault.before)
        fault.must(again.returncode in (DONE, HELD) and len(now.effects) <= 1,
                   "one fault is mended by the next start, or held where it cut the command short",
                   f"exit {fault.code}, then {again.returncode}, effects {now.effects}")

    def test_a_run_under_a_lease(self):
        self.fault_all(Column("lease", LEDGER, args=("--lock", self.redis.url, *LEASE),
                              arrange=self.forget, first="socketpair"), self.one)


if __name__ == "__main__":
    main()
