"""oncerun alone is killed or stopped: its tree is gone before the lease ends (cases R01, R02)."""

import os
import signal
import sys

from oncerun_test import (ABSENT, BUSY, CONTAINER, DONE, HELD, LOST, kill_if_still, main)
from redis_server import LOCK, TTL, MidRun, has_ended

# A grandchild that has left its session, its parents and its environment behind, and will not be
# asked to go. It says when it has got there, and until when it lives, on the clock of the lease.
DAEMON = """
import os, signal, sys, time
folder = sys.argv[1]
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.closerange(0, 256)
if len(sys.argv) == 2:
    os.execve(sys.executable, [sys.executable, __file__, folder, "again"], {})
beat = os.open(folder + "/beat", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
pid = os.open(folder + "/daemon", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
os.write(pid, b"%d\\n" % os.getpid())
while True:
    os.pwrite(beat, b"%.3f" % time.clock_gettime(time.CLOCK_BOOTTIME), 0)
    time.sleep(0.005)
"""


class NeverOutlived(MidRun):
    def setUp(self):
        super().setUp()
        self.write(self.path("daemon.py"), DAEMON)

    def with_daemon(self, *args, **kw):
        """A running command with a daemon below it; returns owner and the daemon's pid."""
        owner, _ = self.running(
            *args, **kw, command=f'{sys.executable} "$D/daemon.py" "$D"; '
                                 'until test -s "$D/daemon" && test -s "$D/beat"; do sleep 0.01; done;')
        daemon = int(self.lines("daemon")[0])
        self.addCleanup(self.end_daemon, daemon)
        self.assertNotIn(daemon, self.processes(), "the daemon shows nothing of where it comes from")
        return owner, daemon

    def end_daemon(self, pid):
        """Its environment is empty: it is known by its command line."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if self.path("daemon.py").encode() in file.read():
                    os.kill(pid, signal.SIGKILL)
        except OSError:
            pass

    def gone_in_time(self, *daemons):
        """Nobody else can start while the key is there: the last breath must come before it goes."""
        def is_gone():
            left = self.redis.pttl(LOCK)
            # Looked at in this order: what is alive now was alive when that was left.
            alive = [pid for pid in (self.pid, *daemons) if not has_ended(pid)]
            if alive and left <= 0:
                self.fail(f"{alive} outlived the lease")
            return not alive

        self.wait_for(is_gone, TTL + 5, "the tree to be gone")

    def test_R01_sigkill_of_oncerun_alone(self):
        owner, daemon = self.with_daemon()
        owner.kill_now()
        self.gone_in_time(daemon)
        self.wait_quiet(5)
        self.wait_free()
        self.assertExit(self.on("b"), HELD)

    def test_sigkill_of_oncerun_alone_with_a_command_that_ignores_term(self):
        gate = self.gate()
        owner = self.start_on("a", command=f'trap "" TERM; {gate.announce}; {gate.patient}')
        self.pid = self.wait_begun(owner, gate)
        owner.kill_now()
        self.gone_in_time()

    def test_sigstop_of_oncerun_alone(self):
        owner, daemon = self.with_daemon()
        owner.send_signal(signal.SIGSTOP)
        self.gone_in_time(daemon)
        self.wait_free()
        self.assertExit(self.on("b", check=ABSENT), DONE)
        owner.send_signal(signal.SIGCONT)
        self.assertExit(owner.end(), LOST)
        self.assertStatusOn("a", "unknown")
        self.assertStatusOn("b", "done")
        self.assertEqual(self.mark()[0], "done", "who comes late does not undo it")

    def test_sigstop_of_its_whole_group_of_helpers(self):
        """The keeper is stopped as well: nobody renews, and the guardian still acts."""
        owner, daemon = self.with_daemon()
        for pid in self.named("oncerun-lease"):
            kill_if_still(pid, f"D={self.dir}", signal.SIGSTOP)
        self.gone_in_time(daemon)
        self.assertExit(owner.end(timeout=30), LOST)

    def test_sigkill_of_the_keeper(self):
        owner, daemon = self.with_daemon()
        keeper, = self.named("oncerun-lease")
        kill_if_still(keeper, f"D={self.dir}")
        self.gone_in_time(daemon)
        self.assertExit(owner.end(timeout=30), LOST)
        self.assertStatusOn("a", "unknown")

    def test_sigkill_of_the_guardian(self):
        owner, daemon = self.with_daemon()
        guardian, = self.named("oncerun-guard")
        kill_if_still(guardian, f"D={self.dir}")
        self.gone_in_time(daemon)
        self.assertExit(owner.end(timeout=30), LOST)
        self.assertStatusOn("a", "unknown")

    def test_sigkill_of_oncerun_and_keeper(self):
        owner, daemon = self.with_daemon()
        keeper, = self.named("oncerun-lease")
        owner.send_signal(signal.SIGSTOP)
        kill_if_still(keeper, f"D={self.dir}")
        owner.kill_now()
        self.gone_in_time(daemon)

    def test_sigkill_of_oncerun_and_guardian(self):
        """The command itself goes with its guardian; a daemon is what nothing is left to end."""
        owner, gate = self.running()
        guardian, = self.named("oncerun-guard")
        owner.send_signal(signal.SIGSTOP)
        kill_if_still(guardian, f"D={self.dir}")
        owner.kill_now()
        self.gone_in_time()

    def test_a_stopped_command_is_no_way_out(self):
        owner, daemon = self.with_daemon()
        os.kill(self.pid, signal.SIGSTOP)
        os.kill(daemon, signal.SIGSTOP)
        owner.kill_now()
        self.gone_in_time(daemon)

    def test_R01_the_owner_and_its_command_are_killed(self):
        """A second host, which cannot see the first one's processes, waits for the end of the lease."""
        self.need_containers()
        self.gone_on("a")
        self.assertGreater(self.redis.pttl(LOCK), 0)
        self.assertExit(self.on("b", prefix=CONTAINER), BUSY)
        # The same machine knows that the owner is gone, and that its lock still stands.
        self.assertEqual(self.on("b").returncode, 76)
        self.wait_free()
        check = f'echo asked >>"$D/asked"; {ABSENT}'
        self.assertExit(self.on("b", prefix=CONTAINER, check=check), DONE)
        self.assertEqual(self.lines("asked"), ["asked"] * 2)
        self.assertEqual(self.runs(), 2)

    def test_R02_a_key_that_another_took_while_oncerun_stood_still(self):
        owner, _ = self.running(options=("--lock-ttl", "2s", "--kill-after", "0.2s"))
        os.kill(owner.pid, signal.SIGSTOP)
        self.wait_free()
        self.redis.ask("SET", LOCK, "somebody else's", "PX", "60000")
        os.kill(owner.pid, signal.SIGCONT)
        self.lost(owner, within=10)
        self.assertEqual(self.redis.get(LOCK), "somebody else's")
        self.assertGreater(self.redis.pttl(LOCK), 40_000)

    def test_a_signal_to_the_whole_group_leaves_the_helpers_at_work(self):
        """A terminal's ^C, systemd's TERM to the whole unit: oncerun passes it on and ends in order."""
        owner, gate = self.running(command='trap "exit 7" INT TERM;')
        for pid in self.processes():
            if pid != self.pid and pid != owner.pid:
                kill_if_still(pid, f"D={self.dir}", signal.SIGTERM)
                kill_if_still(pid, f"D={self.dir}", signal.SIGINT)
        self.renewed(times=2)
        os.killpg(owner.pid, signal.SIGTERM)
        self.assertExit(owner.end(timeout=10), 7)
        self.assertStatusOn("a", "unknown")
        self.assertIsNone(self.redis.get(LOCK))
        self.wait_quiet(5)


if __name__ == "__main__":
    main()
