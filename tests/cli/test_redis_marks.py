"""The marks that travel with a lock on a server: what a host learns whose own ledger knows nothing."""

import json
import os
import signal

from oncerun_test import (ABSENT, BUSY, DATE, DONE, EARLIER, HELD, NEXT, NOT_FOUND, PRESENT,
                          UNAVAILABLE, UNCLEAR, main)
from redis_server import LOCK, RedisCase

DAY = 24 * 60 * 60 * 1000


class Marks(RedisCase):
    def key(self, date=DATE):
        return f"oncerun:mark:{{{LOCK}}}:{date}"

    # Done

    def test_done_there_is_done_here(self):
        self.assertExit(self.on("a", command='echo run >>"$D/runs"; echo "$ONCERUN_RUN_ID" >"$D/id"'),
                        DONE)
        there = self.on("b")
        self.assertExit(there, DONE)
        self.assertEqual((there.stdout, there.stderr), ("", ""), "cron mails every line")
        self.assertEqual(self.runs(), 1)
        self.assertStatusOn("b", "done")
        event, = self.events_on("b", "mark")
        self.assertEqual((event["biz_date"], event["run_id"], event["to_status"]),
                         (DATE, self.lines("id")[0], "done"))
        self.assertIn(os.uname().nodename, event["detail"])
        history = self.sub_json("history", "--job", "settle", ledger=self.led_of("b"))
        self.assertIn("mark", json.dumps(history))

    def test_done_there_is_said_with_v(self):
        self.assertExit(self.on("a"), DONE)
        self.assertExit(self.on("b", "-v"), DONE, "done")
        self.assertEqual(self.runs(), 1)

    def test_once_it_is_known_no_server_is_asked(self):
        self.assertExit(self.on("a"), DONE)
        self.assertExit(self.on("b"), DONE)
        self.assertExit(self.on("b", url="redis+unix:///nowhere/redis.sock"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_every_further_host(self):
        for host in "abcde":
            self.assertExit(self.on(host), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.mark()[0], "done")

    def test_the_mark_is_readable_and_ends_by_itself(self):
        self.assertExit(self.on("a", command='echo "$ONCERUN_RUN_ID $ONCERUN_TOKEN" >"$D/seen"'),
                        DONE)
        run_id, token = self.lines("seen")[0].split()
        status, marked_id, marked_token, host, at = self.mark()
        self.assertEqual((status, marked_id, marked_token, host),
                         ("done", run_id, token, os.uname().nodename))
        self.assertRegex(at, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
        left = self.redis.pttl(self.key())
        self.assertLessEqual(left, 35 * DAY)
        self.assertGreater(left, 34 * DAY)

    def test_how_long_they_are_kept(self):
        self.assertExit(self.on("a", "--lock-marks", "2h"), DONE)
        left = self.redis.pttl(self.key())
        self.assertLessEqual(left, 2 * 60 * 60 * 1000)
        self.assertGreater(left, 60 * 60 * 1000)

    def test_none_are_kept(self):
        gate = self.gate()
        owner = self.start_on("a", "--lock-marks", "0", command=f'echo run >>"$D/runs"; {gate.shell}')
        self.wait_begun(owner, gate)
        self.assertIsNotNone(self.redis.get(LOCK))
        self.assertEqual([key for key in self.redis.keys() if "mark" in key], [])
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual([key for key in self.redis.keys() if "mark" in key], [])
        self.assertExit(self.on("b", "--lock-marks", "0"), DONE)
        self.assertEqual(self.runs(), 2, "a host without marks knows only its own ledger")

    def test_dates_have_marks_of_their_own(self):
        self.assertExit(self.on("a"), DONE)
        for date in (EARLIER, NEXT):
            self.assertExit(self.on("b", date=date), DONE)
        self.assertEqual(self.runs(), 3)

    # Pending and gone

    def test_pending_while_it_runs(self):
        gate = self.gate()
        owner = self.start_on("a", command=f'echo "$ONCERUN_RUN_ID" >"$D/id"; {gate.shell}')
        self.wait_begun(owner, gate)
        self.assertEqual(self.mark()[:2], ["pending", self.lines("id")[0]])
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_gone_without_a_check_is_held_everywhere(self):
        run_id = self.gone_on("a")
        self.end_lease()
        for guarantee in ("cautious", "at-most-once"):
            self.assertExit(self.on("b", "-g", guarantee), HELD)
        self.assertStatusOn("b", "unknown")
        self.assertEqual(self.row_on("b")["run_id"], run_id)
        self.assertExit(self.on("c"), HELD)
        self.assertIn(self.mark()[0], ("pending", "unknown"))
        self.assertEqual(self.mark()[1], run_id)
        self.assertEqual(self.runs(), 1)

    def test_gone_is_asked_about(self):
        run_id = self.gone_on("a")
        self.end_lease()
        self.assertExit(self.on("b", check=UNCLEAR), HELD)
        check = f'echo "$ONCERUN_PREVIOUS $ONCERUN_CHECK_RUN_ID" >>"$D/asked"; {ABSENT}'
        self.assertExit(self.on("b", check=check,
                                command='echo "$ONCERUN_PREVIOUS" >"$D/previous"; "$D/hit"'), DONE)
        self.assertEqual(self.lines("asked"), [f"unknown {run_id}"] * 2)  # absent counts said twice
        self.assertEqual(self.lines("previous"), ["unknown"])
        self.assertEqual(self.runs(), 2)
        self.assertExit(self.on("c"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_gone_and_present(self):
        self.gone_on("a")
        self.end_lease()
        self.assertExit(self.on("b", check=PRESENT), DONE)
        self.assertStatusOn("b", "done")
        self.assertEqual(self.mark()[0], "done")
        self.assertExit(self.on("c"), DONE)  # by the mark: nobody is asked
        self.assertEqual(self.runs(), 1)

    def test_gone_under_at_least_once(self):
        self.gone_on("a")
        self.end_lease()
        self.assertExit(self.on("b", "-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertExit(self.on("c", "-g", "at-least-once"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_gone_and_waited_for(self):
        self.gone_on("a")
        self.assertExit(self.on("b", "--wait", "30", check=ABSENT), DONE)
        self.assertEqual(self.runs(), 2)

    def test_the_host_of_the_owner_that_is_gone(self):
        self.gone_on("a")
        self.end_lease()
        self.assertExit(self.on("a"), HELD)
        self.assertExit(self.on("a", check=ABSENT), DONE)
        self.assertEqual(self.mark()[0], "done")

    def test_one_host_asks_and_the_other_believes_it(self):
        self.gone_on("a")
        self.end_lease()
        self.assertExit(self.on("b", check=ABSENT), DONE)
        # The owner's own ledger holds the attempt that died: what came after it is done.
        self.assertExit(self.on("a"), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertStatusOn("a", "done")

    # Failed, unknown, never started

    def failed_on_a(self, code=3):
        self.assertExit(self.on("a", command=f'echo "$ONCERUN_RUN_ID" >"$D/id"; exit {code}'), code)
        return self.lines("id")[0]

    def test_failed_there(self):
        run_id = self.failed_on_a()
        self.assertEqual(self.mark()[:2], ["failed", run_id])
        self.assertExit(self.on("b", "-g", "at-most-once"), HELD)
        self.assertStatusOn("b", "failed")
        self.assertEqual(self.mark()[:2], ["failed", run_id], "what was found is put back")
        self.assertExit(self.on("b", command='echo "$ONCERUN_PREVIOUS" >"$D/previous"'), DONE)
        self.assertEqual(self.lines("previous"), ["failed"])
        self.assertEqual(self.mark()[0], "done")
        self.assertExit(self.on("a"), DONE)
        self.assertEqual(self.runs(), 0)

    def test_failed_there_is_asked_about_where_there_is_a_check(self):
        self.failed_on_a()
        self.assertExit(self.on("b", check=PRESENT), DONE)
        self.assertEqual(self.runs(), 0)
        self.assertEqual(self.mark()[0], "done")

    def test_a_command_that_was_cut_short_there(self):
        gate = self.gate()
        owner = self.start_on("a", command=gate.shell)
        self.wait_begun(owner, gate)
        owner.send_signal(signal.SIGTERM)
        self.assertExit(owner.end(), 128 + signal.SIGTERM)
        self.assertEqual(self.mark()[0], "unknown")
        self.assertExit(self.on("b"), HELD)
        self.assertStatusOn("b", "unknown")
        self.assertExit(self.on("b", check=ABSENT), DONE)
        self.assertEqual(self.runs(), 1)

    def test_G11_never_started_there(self):
        self.assertExit(self.on("a", command=["/no/such"]), NOT_FOUND)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertIsNone(self.mark(), "nothing stood there before, and nothing happened")
        self.assertExit(self.on("b", "-g", "at-most-once"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_never_started_after_a_failure(self):
        run_id = self.failed_on_a()
        self.assertExit(self.on("b", command=["/no/such"]), NOT_FOUND)
        self.assertEqual(self.mark()[:2], ["failed", run_id])

    def test_a_check_that_is_stopped_puts_the_mark_back(self):
        run_id = self.gone_on("a")
        self.end_lease()
        before = self.redis.get(self.key())
        gate = self.gate()
        asking = self.start_on("b", check=f"{gate.shell}; {ABSENT}")
        self.wait_begun(asking, gate)
        asking.send_signal(signal.SIGTERM)
        self.assertExit(asking.end(), 128 + signal.SIGTERM)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertEqual(self.mark()[:2], ["pending", run_id])
        self.assertEqual(self.redis.get(self.key()).partition("|")[0], before.partition("|")[0])
        self.assertExit(self.on("c"), HELD)

    def test_a_host_that_dies_while_it_asks(self):
        """Nobody forgets the attempt that was asked about."""
        self.gone_on("a")
        self.end_lease()
        gate = self.gate()
        asking = self.start_on("b", check=f"{gate.shell}; {ABSENT}")
        self.wait_begun(asking, gate)
        asking.kill_now()
        gate.go()
        self.wait_quiet()
        self.end_lease()
        self.assertExit(self.on("c"), HELD)
        self.assertExit(self.on("c", check=PRESENT), DONE)
        self.assertEqual(self.runs(), 1)

    # More attempts

    def test_a_rerun(self):
        self.assertExit(self.on("a"), DONE)
        gate = self.gate()
        again = self.start_on("b", "--rerun", command=f'echo run >>"$D/runs"; '
                              f'echo "$ONCERUN_RUN_ID $ONCERUN_GENERATION" >"$D/id"; {gate.shell}')
        self.wait_begun(again, gate)
        run_id, generation = self.lines("id")[0].split()
        self.assertEqual(generation, "2")
        self.assertEqual(self.mark()[:2], ["pending", run_id])
        self.assertExit(self.on("c"), BUSY)
        gate.go()
        self.assertExit(again.end(), DONE)
        self.assertEqual(self.mark()[:2], ["done", run_id])
        self.assertExit(self.on("c"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_a_rerun_that_is_gone_is_no_longer_done_for_who_comes_new(self):
        self.assertExit(self.on("a"), DONE)
        self.gone_on("b", "--rerun")
        self.end_lease()
        self.assertExit(self.on("c"), HELD)
        self.assertEqual(self.runs(), 2)

    def test_a_rerun_that_starts_nothing_leaves_it_done(self):
        self.assertExit(self.on("a"), DONE)
        mark = self.mark()
        self.assertExit(self.on("b", "--rerun", command=["/no/such"]), NOT_FOUND)
        self.assertEqual(self.mark(), mark)

    def test_retries(self):
        gate = self.gate()
        owner = self.start_on("a", "--retries", "2", "--retry-delay", "0.1s", command=f"""
            echo "$ONCERUN_RUN_ID" >>"$D/runs"; {gate.shell}
            test "$(wc -l <"$D/runs")" -ge 3""")
        for number in range(3):
            self.wait_begun(owner, gate)
            self.assertEqual(self.mark()[:2], ["pending", self.lines("runs")[number]])
            self.assertIsNotNone(self.redis.get(LOCK))
            self.assertExit(self.on("b"), BUSY)
            gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertEqual(self.mark()[:2], ["done", self.lines("runs")[2]])
        self.assertExit(self.on("b"), DONE)
        self.assertEqual(self.runs(), 3)

    def test_the_lock_is_kept_between_retries(self):
        owner = self.start_on("a", "--retries", "1", "--retry-delay", "60s",
                              command='echo run >>"$D/runs"; exit 3')
        self.wait_for(lambda: self.row_on("a") and self.row_on("a")["status"] == "failed",
                      what="the first attempt to fail")
        self.assertExit(self.on("b"), BUSY)
        owner.send_signal(signal.SIGTERM)
        owner.end(timeout=5)
        self.assertIsNone(self.redis.get(LOCK))
        self.assertEqual(self.mark()[0], "failed")
        self.assertEqual(self.runs(), 1)

    def test_what_an_operator_settles_reaches_the_others_with_the_next_start(self):
        self.gone_on("a")
        self.end_lease()
        self.assertExit(self.on("b"), HELD)
        self.assertExit(self.resolve("--done", ledger=self.led_of("b")), 0)
        self.assertExit(self.on("b"), DONE)
        self.assertStatusOn("b", "done")

    def test_a_mark_that_is_none_of_ours(self):
        """Somebody wrote something about this run: no reason to start it, and to be asked about."""
        for number, text in enumerate(("done", "finished a b c d", "pending x y z w", "\xff\x00")):
            date = f"2024-03-0{number + 1}"
            with self.subTest(text=text):
                self.redis.ask("SET", self.key(date), text)
                self.assertExit(self.on("b", date=date), HELD)
                self.assertEqual(self.runs(), number)
                self.assertEqual(self.redis.get(self.key(date)), text)
                self.assertExit(self.on("b", date=date, check=ABSENT), DONE)

    def test_a_mark_of_a_later_version(self):
        self.redis.ask("SET", self.key(), "done id 1 host 2024-10-26T00:00:00Z and more")
        self.assertExit(self.on("b"), DONE)
        self.assertEqual(self.runs(), 0)

    def test_a_key_of_another_type(self):
        self.redis.ask("RPUSH", self.key(), "a list")
        self.assertExit(self.on("b"), UNAVAILABLE)
        self.assertEqual(self.redis.ask("LRANGE", self.key(), 0, -1), ["a list"])
        self.assertIsNone(self.redis.get(LOCK), "a lock that is not used is not left behind")
        self.assertEqual(self.runs(), 0)


class WithoutLedger(RedisCase):
    def bare(self, host, *args, **kw):
        return self.on(host, *args, ledger="none", **kw)

    def test_done_there_is_done_here(self):
        self.assertExit(self.bare("a"), DONE)
        again = self.bare("b")
        self.assertExit(again, DONE)
        self.assertEqual(again.stderr, "")
        self.assertEqual(self.runs(), 1)
        self.assertExit(self.bare("b", date=NEXT), DONE)
        self.assertEqual(self.runs(), 2)

    def test_gone_is_held_or_asked_about(self):
        self.gone_on("a", ledger="none")
        self.end_lease()
        self.assertExit(self.bare("b"), HELD)
        self.assertExit(self.bare("b"), HELD)
        self.assertExit(self.bare("b", check=UNCLEAR), HELD)
        self.assertExit(self.bare("b", check=ABSENT), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertExit(self.bare("c"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_gone_and_present(self):
        self.gone_on("a", ledger="none")
        self.end_lease()
        self.assertExit(self.bare("b", check=PRESENT), DONE)
        self.assertExit(self.bare("c"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_failed_there(self):
        self.assertExit(self.bare("a", command="exit 3"), 3)
        self.assertExit(self.bare("b", "-g", "at-most-once"), HELD)
        self.assertExit(self.bare("b"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_a_rerun(self):
        self.assertExit(self.bare("a"), DONE)
        self.assertExit(self.bare("b", "--rerun"), DONE)
        self.assertEqual(self.runs(), 2)
        self.assertExit(self.bare("c"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_nothing_is_remembered_without_marks(self):
        for _ in range(2):
            self.assertExit(self.bare("a", "--lock-marks", "0"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_tokens_grow_whatever_becomes_of_the_server(self):
        def token(host, date):
            self.assertExit(self.bare(host, date=date, command='echo "$ONCERUN_TOKEN" >>"$D/tokens"'),
                            DONE)

        for number, host in enumerate("abab"):
            token(host, f"2024-03-0{number + 1}")
        self.redis.ask("FLUSHALL")
        token("b", "2024-03-05")
        self.redis.ask("SCRIPT", "FLUSH")
        token("a", "2024-03-06")
        tokens = [int(line) for line in self.lines("tokens")]
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertGreater(tokens[0], 1_577_836_800_000)  # milliseconds: 2020

    def test_a_token_that_is_ahead_of_the_clock_grows_on(self):
        ahead = 9_000_000_000_000_000
        self.redis.ask("SET", f"oncerun:token:{{{LOCK}}}", ahead)
        self.assertExit(self.bare("a", command='echo "$ONCERUN_TOKEN" >"$D/token"'), DONE)
        self.assertEqual(int(self.lines("token")[0]), ahead + 1)


class WithAStateFile(RedisCase):
    def of(self, host):
        return self.path(host + ".json")

    def alone(self, host, *args, **kw):
        return self.on(host, *args, ledger="none", state=self.of(host), **kw)

    def test_alone(self):
        self.assertExit(self.alone("a"), DONE)
        self.assertEqual(self.state(self.of("a"))["lastPublishedDate"], DATE)
        self.assertExit(self.alone("b"), DONE)
        self.assertEqual(self.state(self.of("b"))["lastPublishedDate"], DATE)
        self.assertExit(self.alone("b", date=NEXT), DONE)
        self.assertExit(self.alone("a", date=NEXT), DONE)
        self.assertEqual(self.runs(), 2)

    def test_alone_and_gone(self):
        self.gone_on("a", ledger="none", state=self.of("a"))
        self.end_lease()
        self.assertExit(self.alone("b"), HELD)
        self.assertExit(self.alone("b", check=ABSENT), DONE)
        self.assertEqual(self.state(self.of("b"))["lastPublishedDate"], DATE)
        self.assertEqual(self.runs(), 2)
        self.assertExit(self.alone("a"), DONE)
        self.assertEqual(self.runs(), 2)

    def test_alone_and_failed(self):
        self.assertExit(self.alone("a", command="exit 3"), 3)
        self.assertExit(self.alone("b", "-g", "at-most-once"), HELD)
        self.assertExit(self.alone("b"), DONE)
        self.assertEqual(self.runs(), 1)

    def test_beside_the_ledger(self):
        for host in "ab":
            self.assertExit(self.on(host, state=self.of(host)), DONE)
            self.assertEqual(self.state(self.of(host))["lastPublishedDate"], DATE)
        self.assertEqual(self.runs(), 1)

    def test_beside_the_ledger_and_gone(self):
        self.gone_on("a", state=self.of("a"))
        self.end_lease()
        self.assertExit(self.on("b", state=self.of("b")), HELD)
        state = self.state(self.of("b"))
        self.assertIsNotNone(state, "the file is a projection of the ledger, which holds a doubt now")
        self.assertEqual((state["pendingDate"], state["status"]), (DATE, "unknown"))
        self.assertExit(self.on("b", state=self.of("b"), check=PRESENT), DONE)
        self.assertEqual(self.state(self.of("b"))["lastPublishedDate"], DATE)
        self.assertEqual(self.runs(), 1)

    def test_a_state_file_of_before(self):
        """What a script of old wrote counts as ever; the mark of another host adds to it."""
        self.assertExit(self.on("a"), DONE)
        self.write(self.of("b"), json.dumps({"lastPublishedDate": EARLIER, "status": "done",
                                             "pendingDate": None}))
        self.assertExit(self.on("b", state=self.of("b")), DONE)
        self.assertEqual(self.state(self.of("b"))["lastPublishedDate"], DATE)
        self.assertEqual(self.runs(), 1)


if __name__ == "__main__":
    main()
