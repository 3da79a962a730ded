"""What a command sees and may do under a lock on a server is what it may without one."""

import os

from oncerun_test import ABSENT, DONE, HELD, UNAVAILABLE, main
from redis_server import RedisCase

KILLS_ITS_GROUP = """trap 'echo term >>"$D/terms"' TERM
sleep 50 &
kill 0
for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done
echo finished >>"$D/finished"
exit 3"""


class Command(RedisCase):
    def test_it_inherits_the_descriptors_that_oncerun_was_given(self):
        self.write(self.path("given"), "some words\n")
        with open(self.path("given"), encoding="ascii") as given:
            os.set_inheritable(given.fileno(), True)
            fd = given.fileno()
            done = self.on("a", command=f'cat <&{fd} >"$D/got"', pass_fds=(fd,))
        self.assertExit(done, DONE)
        self.assertEqual(self.read(self.path("got")), b"some words\n")

    def test_it_may_signal_its_own_group(self):
        # In a session of its own: the group is that of oncerun, its helpers and the command.
        owner = self.start_on("a", command=KILLS_ITS_GROUP)
        self.assertExit(owner.end(), 3)
        self.assertEqual(self.lines("terms"), ["term"])
        self.assertEqual(self.lines("finished"), ["finished"])

    def test_without_a_proc_that_shows_it_nothing_is_started(self):
        self.need_root()
        self.need("unshare", "mount")
        hidden = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
        result = self.on("a", prefix=hidden)
        if "permission denied" in result.stderr:
            self.skip("no private mounts")
        self.assertExit(result, UNAVAILABLE, "/proc")
        self.assertEqual(self.runs(), 0)


class Doubts(RedisCase):
    def test_what_another_host_found_done_is_done_for_the_owner_as_well(self):
        self.gone_on("a")
        self.wait_for(lambda: self.redis.ask("EXISTS", "oncerun:lock:settle") == 0,
                      what="the lease to end")
        self.assertExit(self.on("b", check="exit 0"), DONE)
        runs = self.runs()
        self.assertExit(self.on("a", "-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), runs, "the effect has happened, and the mark says so")

    def test_a_token_that_no_ledger_could_count_on_is_no_token(self):
        for number, token in enumerate(("9223372036854775807", "-5")):
            with self.subTest(token=token):
                date = f"2024-05-0{number + 1}"
                self.redis.ask("SET", f"oncerun:mark:{{oncerun:lock:settle}}:{date}",
                               f"failed someone {token} elsewhere then")
                self.assertExit(self.on("a", date=date), HELD)
                self.assertExit(self.on("a", date=date, check=ABSENT), DONE)

    def test_a_mark_with_a_line_break_hinders_nobody_for_ever(self):
        self.redis.ask("SET", "oncerun:mark:{oncerun:lock:settle}:2024-05-09", "failed x 1 h t\n")
        self.assertExit(self.on("a", date="2024-05-09"), DONE)


if __name__ == "__main__":
    main()
