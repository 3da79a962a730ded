"""The promises, each by its name: what must hold wherever oncerun was struck.

A failure begins with the invariant's name, the column and the point. All of it is read from outside:
the ledger's open tables, the state file's bytes, and what the commands themselves noted.
"""

import collections
import json
import os

from oncerun_test import DONE, HELD

Seen = collections.namedtuple("Seen", "mark effects starts ends said others state attempts integrity")
Ledger = collections.namedtuple("Ledger", "runs attempts effects integrity")
Mark = collections.namedtuple("Mark", "status run_id token generation")

# What stands beside a ledger and a state file for good, and what the job itself writes.
LASTING = {"led.db", "led.db-wal", "led.db-shm", "led.db-guard", "led.db-life", "led.db-spool",
           "led.db-locks", "st.json", "st.json.lock",
           "starts", "eff", "ends", "said", "live", "overlaps", "first", "own"}

# What differs from run to run in the state file that is the only truth.
OF_THE_RUN = ("runId", "host", "machineId", "bootId", "lifeId", "startedAt", "updatedAt", "token",
              "serial", "pidNamespace", "pid", "finishedAt")


class Invariants:
    def __init__(self, case, column, point, usual):
        self._case, self._column, self._point = case, column, point
        self._usual = [_comparable(text) for text in usual]

    def _must(self, truth, name, detail):
        if not truth:
            self._case.fail(f"{name}: column {self._column.named()}, point "
                            f"{self._point.name}#{self._point.number}: {detail}")

    # Looking

    def look(self):
        case = self._case
        ledger = case.ledger_as_it_stands()
        mine = (case.job, case.date)
        mark = self._mark_of_state() if case.marks == "state file" else None
        for row in ledger.runs:
            if (row["job_name"], row["biz_date"]) == mine:
                mark = Mark(row["status"], row["run_id"], row["fencing_token"], row["generation"])
        others = [row for row in ledger.runs if (row["job_name"], row["biz_date"]) != mine]
        said = case.noted("said") + ["itself"] * len(ledger.effects)
        return Seen(mark, case.noted("eff") + ledger.effects, case.noted("starts"),
                    case.noted("ends"), said, others, case.read(case.st), ledger.attempts,
                    ledger.integrity)

    def _mark_of_state(self):
        """What the state file says that stands alone."""
        try:
            document = self._case.state() or {}
        except ValueError:
            return None  # state_whole says that it is torn
        if document.get("pendingDate") == self._case.date:
            status = "ready" if document.get("ready") else document["status"]
            return Mark(status, document.get("runId"), document.get("token"),
                        document.get("generation", 1))
        if document.get("lastPublishedDate") == self._case.date:
            return Mark("done", document.get("runId"), document.get("token"),
                        document.get("generation", 1))
        if document.get("skippedDate") == self._case.date:
            return Mark("skipped", document.get("runId"), document.get("token"), 1)
        return None

    # Always

    def always(self, before):
        """What must hold at every moment; `before` is what was seen before the strike."""
        now = self.look()
        self.one_live_tree()
        self.pending_before_start(now)
        self.tokens_grow(now)
        self.integrity(now)
        self.other_rows_untouched(before, now)
        return now

    def at_the_kill(self, before):
        """What must hold when oncerun has just died and nothing that it started lives."""
        now = self.always(before)
        self.no_claim_no_start(before, now)
        self.done_only_after_success(before, now)
        self.state_whole()
        return now

    def one_live_tree(self):
        overlaps = self._case.noted("overlaps")
        self._must(not overlaps, "one live command tree per run", f"overlapping runs {overlaps}")

    def pending_before_start(self, now):
        for line in now.starts:
            run_id, token, date, row, state = line.split("|", 4)
            if self._case.marks != "state file":
                self._must(row == f"pending {run_id} {token}",
                           "every start has a durable pending with its token before it",
                           f"run {run_id} with token {token} saw the row: {row}")
            if self._case.marks != "ledger":
                document = json.loads(state) if state.startswith("{") else {}
                self._must(document.get("status") == "pending" and document.get("pendingDate") == date,
                           "every start has a durable pending with its token before it",
                           f"run {run_id} of {date} saw the state file: {state}")
            if self._case.marks == "state file":
                self._must((document.get("runId"), str(document.get("token"))) == (run_id, token),
                           "every start has a durable pending with its token before it",
                           f"run {run_id} with token {token} saw the state file: {state}")

    def tokens_grow(self, now):
        name = "tokens grow strictly"
        tokens = [int(line.split("|")[1]) for line in now.starts]
        self._must(all(a < b for a, b in zip(tokens, tokens[1:])), name, f"the commands saw {tokens}")
        jobs = collections.defaultdict(list)
        for row in now.attempts:
            jobs[row["job_name"]].append(row["fencing_token"])
        for job, tokens in jobs.items():
            self._must(all(a < b for a, b in zip(tokens, tokens[1:])), name, f"{job}: {tokens}")

    def integrity(self, now):
        self._must(now.integrity == "ok", "integrity_check is ok", now.integrity)

    def other_rows_untouched(self, before, now):
        self._must(before.others == now.others, "other rows are untouched",
                   f"\n{before.others}\nbecame\n{now.others}")

    # At the kill

    def no_claim_no_start(self, before, now):
        if now.mark == before.mark and (now.mark is None or now.mark.status != "pending"):
            self._must(now.starts == before.starts, "no claim, no start",
                       f"no new claim is recorded, but commands started: {now.starts}")

    def done_only_after_success(self, before, now):
        if now.mark and now.mark.status == "done" and now.mark != before.mark:
            proven = (str(now.mark.generation) in now.ends
                      or "present" in now.said or "itself" in now.said)
            self._must(proven, "done only after exit 0 was observed, or check, resolve or the command "
                       "said so", f"{now}")

    def state_whole(self):
        """The file is as it was, or as an undisturbed run writes it, to the byte."""
        text = self._case.read(self._case.st)
        self._must(_comparable(text) in self._usual, "the state file is wholly old or wholly new",
                   f"{text} is none of {self._usual}")

    # After the next invocation

    def after(self, before, result, at_kill):
        """What one plain invocation must come to, and what a second one must not change."""
        self.no_surgery_needed(result)
        now = self.always(before)
        self.done_only_after_success(before, now)
        if now.starts != at_kill.starts:
            self.no_temporary_files()
        self.exit_says_what_is_recorded(result, now)
        if self._column.checked:
            self.exactly_once(now, result)
        elif self._column.guarantee == "at-least-once":
            self.at_least_once(now, result)
        else:
            self.at_most_once(now, result)
        if at_kill.mark == before.mark and before.mark is None:
            self.nothing_claimed_nothing_held(now, result)
        if result.returncode == HELD:
            self._must(now.mark == at_kill.mark, "a hold changes nothing", f"{at_kill} {now}")
        return now

    def no_surgery_needed(self, result):
        self._must(result.returncode in (DONE, HELD),
                   "nothing needs SQL surgery: one later invocation ends done or held",
                   f"exit {result.returncode}: {result.stderr}")

    def exit_says_what_is_recorded(self, result, now):
        done = bool(now.mark) and now.mark.status == "done"
        self._must(done == (result.returncode == DONE), "exit 0 if and only if done is recorded",
                   f"exit {result.returncode}, {now.mark}")
        if done and self._case.marks != "ledger":
            document = self._case.state()
            self._must(document["lastPublishedDate"] == self._case.date
                       and document["status"] == "done" and not document.get("pendingDate"),
                       "exit 0 if and only if done is recorded", document)

    def at_least_once(self, now, result):
        wanted = f"e{now.mark.generation}" if now.mark else "e1"
        self._must(result.returncode == DONE and wanted in now.effects,
                   "at-least-once: effect >= 1, ends done", f"exit {result.returncode}, effects {now.effects}: {result.stderr}")

    def at_most_once(self, now, result):
        """Also of cautious here: nothing in these columns ends `failed` after its effect."""
        self._must(len(now.effects) == len(set(now.effects)), "at-most-once: effect <= 1", now.effects)
        if result.returncode == DONE:
            self._must(now.effects, "done only with its effect", now)

    def exactly_once(self, now, result):
        wanted = f"e{now.mark.generation}" if now.mark else "e1"
        self._must(result.returncode == DONE and now.effects.count(wanted) == 1
                   and len(now.effects) == len(set(now.effects)),
                   "with an honest check: effect exactly 1 and done",
                   f"exit {result.returncode}, effects {now.effects}: {result.stderr}")

    def nothing_claimed_nothing_held(self, now, result):
        self._must(result.returncode == DONE and now.effects == ["e1"],
                   "what was never claimed is not in doubt",
                   f"exit {result.returncode}, effects {now.effects}: {result.stderr}")

    def a_hold_can_be_ended(self, result):
        """By asking for it with another guarantee; by then nothing of the crash may be left."""
        self._must(result.returncode == DONE, "nothing needs SQL surgery",
                   f"exit {result.returncode}: {result.stderr}")
        self.no_temporary_files()

    def done_never_changes(self, earlier, result):
        """`earlier` was done; another plain invocation has just ended. What a check says that lived
        on changes nothing."""
        now = self.look()
        self._must(result.returncode == DONE and now == earlier._replace(said=now.said),
                   "done never changes but by --rerun or resolve",
                   f"exit {result.returncode}\n{earlier}\nbecame\n{now}")

    def busy(self, result, code, earlier):
        """Something of the command lives: nothing may start, nothing may change."""
        now = self.look()
        self._must(result.returncode == code and now.starts == earlier.starts
                   and now.mark == earlier.mark, "one live command tree per run",
                   f"exit {result.returncode} beside a living command: {now} {result.stderr}")

    def no_effect_is_held(self, now):
        self._must(not now.effects, "a command that finishes its own run: effect exactly 1",
                   f"the run is held, but its effect is committed: {now}")

    def lost_compare_and_set(self, now, statuses):
        """The row is as the owner claimed it, or as the robber left it; `statuses` may stand there."""
        if now.starts:
            run_id, token = now.starts[0].split("|")[:2]
            robbed = now.mark[1:3] == ("another", int(token) + 1) and now.mark.status in statuses
            self._must(robbed or now.mark[:3] == ("pending", run_id, int(token)),
                       "a lost compare-and-set changes nothing", now)

    def resolved_or_not(self, before, now, status):
        """Wholly or not at all; without `before`: wholly."""
        whole = now.mark and now.mark.status == status
        self._must(whole or (before and now.mark == before.mark),
                   "a subcommand does its work wholly or not at all", now.mark)

    def done_by_hand(self, result):
        self._must(result.returncode == DONE, "nothing needs SQL surgery",
                   f"said again, the subcommand ends with {result.returncode}: {result.stderr}")

    def untouched_runs(self, before):
        now = self.look()
        self._must((now.mark, now.others, now.attempts) == (before.mark, before.others,
                                                            before.attempts),
                   "other rows are untouched", f"\n{before}\nbecame\n{now}")

    def started(self, number, before, now):
        grown = len(now.starts) - len(before.starts)
        self._must(grown == number, "what was decided by hand is what happens",
                   f"{grown} starts instead of {number}: {now}")

    def no_temporary_files(self):
        left = set(os.listdir(self._case.w)) - LASTING
        self._must(not left, "no temporary file remains after the next run", sorted(left))


def _comparable(text):
    """A state document without what differs from run to run; None if there is no file."""
    if text is None:
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return "torn", text
    if "runId" not in document:
        return document
    return {key: bool(value) if key in OF_THE_RUN else value for key, value in document.items()}
