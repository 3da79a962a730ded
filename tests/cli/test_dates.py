"""Which date a start means (cases D01 to D04, the labels of D06, and K01)."""

import datetime
import fcntl
import os
import time

from oncerun_test import BINARY, BLOCKED, CONFIG, DONE, USAGE, Case, main

NEW_YORK, LONDON, LOS_ANGELES = "America/New_York", "Europe/London", "America/Los_Angeles"
LORD_HOWE, BERLIN = "Australia/Lord_Howe", "Europe/Berlin"
SHOW = 'echo "$ONCERUN_BIZ_DATE"'


class DatesCase(Case):
    def label(self, when, at, *args, tz=None, env=None):
        """What --date means at that instant, as the command sees it; nothing is kept."""
        options = ["--lock", f"flock:{self.path('lock')}"] + (["--tz", tz] if tz else [])
        options += ["--scheduled-at", at] if at else []
        done = self.oncerun(*options, *args, date=when, ledger="none", state=None, command=SHOW,
                            env=env)
        self.assertExit(done, DONE)
        return done.stdout.rstrip("\n")

    def fire(self, at, *args, tz, when="this"):
        """One start of the job in the ledger; the run's label goes to $D/runs."""
        return self.oncerun("--tz", tz, "--scheduled-at", at, *args, date=when, state=None,
                            command=SHOW + ' >>"$D/runs"')


class Days(DatesCase):
    def test_D01_yesterday_in_new_york_after_the_clock_went_forward(self):
        # 00:30 in summer time, four hours behind.
        self.assertEqual(self.label("yesterday", "2024-03-11T04:30:00Z", tz=NEW_YORK), "2024-03-10")

    def test_D01_yesterday_in_new_york_on_the_day_the_clock_goes_back(self):
        # 23:30 in winter time, five hours behind.
        self.assertEqual(self.label("yesterday", "2024-11-03T23:30:00-05:00", tz=NEW_YORK),
                         "2024-11-02")

    def test_D01_yesterday_in_london_after_the_clock_went_forward(self):
        self.assertEqual(self.label("yesterday", "2024-04-01T00:30:00+01:00", tz=LONDON),
                         "2024-03-31")

    def test_D01_the_25_days_before_are_25_dates(self):
        # 23:16 in Los Angeles; a day back is not 24 hours back.
        last = datetime.date(2023, 11, 28)
        expected = [str(last - datetime.timedelta(days=n)) for n in range(25)]
        found = [self.label(f"this-{n}" if n else "this", "2023-11-29T07:16:00Z", tz=LOS_ANGELES)
                 for n in range(25)]
        self.assertEqual(found, expected)

    def test_the_zone_is_the_systems_and_TZ_is_heard(self):
        at = "2024-10-26T22:30:00Z"  # half past midnight of the 27th in Berlin
        self.assertEqual(self.label("today", at, env={"TZ": BERLIN}), "2024-10-27")
        self.assertEqual(self.label("today", at, env={"TZ": ":" + BERLIN}), "2024-10-27")
        self.assertEqual(self.label("today", at, tz="UTC", env={"TZ": BERLIN}), "2024-10-26")

    def test_an_unknown_zone_in_TZ_is_an_error_and_never_utc(self):
        done = self.oncerun(env={"TZ": "Mars/Olympus"})
        self.assertIn(done.returncode, (USAGE, CONFIG), done.stderr)
        self.assertIn("Mars/Olympus", done.stderr)
        self.assertEqual(self.runs(), 0)
        self.assertFalse(os.path.exists(self.led))

    def test_D02_the_repeated_hour_is_one_day(self):
        for at in ("2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z"):
            self.assertExit(self.fire(at, tz=NEW_YORK), DONE)
        self.assertEqual(self.lines("runs"), ["2024-11-03"])

    def test_D02_lord_howes_half_hour_is_one_day(self):
        for at in ("2024-04-06T14:45:00Z", "2024-04-06T15:15:00Z"):
            self.assertExit(self.fire(at, tz=LORD_HOWE), DONE)
        self.assertEqual(self.lines("runs"), ["2024-04-07"])


class Hours(DatesCase):
    def test_D03_the_repeated_hour_is_two_hours(self):
        for at in ("2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z") * 2:
            self.assertExit(self.fire(at, "--every", "hour", tz=NEW_YORK), DONE)
        self.assertEqual(self.lines("runs"), ["2024-11-03T05:00Z", "2024-11-03T06:00Z"])

    def test_D03_the_hour_before_the_missing_one(self):
        # 03:10 in summer time; the hour before began at 01:00 in winter time.
        self.assertEqual(self.label("previous", "2024-03-10T07:10:00Z", "--every", "hour",
                                    tz=NEW_YORK), "2024-03-10T06:00Z")

    def test_D03_two_starts_in_one_hour_are_one_run(self):
        for at in ("2024-06-01T10:00:00Z", "2024-06-01T10:59:59Z"):
            self.assertExit(self.fire(at, "--every", "hour", tz=NEW_YORK), DONE)
        self.assertEqual(self.lines("runs"), ["2024-06-01T10:00Z"])

    def test_parts_of_the_day_are_cut_on_the_local_clock(self):
        # 13:07 in Berlin in winter: the slot of 12:00 there; in Kolkata 17:37, the slot of 12:00.
        at = "2024-01-15T12:07:00Z"
        self.assertEqual(self.label("this", at, "--every", "6h", tz=BERLIN), "2024-01-15T11:00Z")
        self.assertEqual(self.label("this", at, "--every", "6h", tz="Asia/Kolkata"),
                         "2024-01-15T06:30Z")
        self.assertEqual(self.label("this", at, "--every", "5m", tz=BERLIN), "2024-01-15T12:05Z")
        self.assertEqual(self.label("previous-2", at, "--every", "15m", tz=BERLIN),
                         "2024-01-15T11:15Z")


class LongerPeriods(DatesCase):
    def test_D04_the_previous_month_of_a_month_end(self):
        for day, month in (("2012-10-31", "2012-09"), ("2024-03-31", "2024-02"),
                           ("2023-03-29", "2023-02"), ("2024-01-01", "2023-12")):
            with self.subTest(day):
                self.assertEqual(self.label("previous", day + "T12:00:00Z", "--every", "month",
                                            tz="UTC"), month)

    def test_weeks_are_those_of_iso_8601(self):
        for day, week in (("2024-12-30", "2025-W01"), ("2021-01-03", "2020-W53"),
                          ("2026-10-26", "2026-W44")):
            with self.subTest(day):
                self.assertEqual(self.label("this", day + "T12:00:00Z", "--every", "week",
                                            tz="UTC"), week)
        self.assertEqual(self.label("previous", "2021-01-04T00:00:00Z", "--every", "week",
                                    tz="UTC"), "2020-W53")


class Labels(DatesCase):
    def assertRefused(self, label, *args, **kw):
        done = self.oncerun(*args, date=label, **kw)
        self.assertExit(done, USAGE)
        self.assertEqual(os.listdir(self.dir), ["hit"], "something was written")

    def test_D06_a_label_that_is_no_date_is_refused(self):
        for label in ("2023-02-29", "2024-13-01", "2024-5-1", "", "2024-05-01x", "2024-02-30",
                      "2024-00-10", "2024-01-00", " 2024-05-01", "2024-05-01 ", "20240501",
                      "2024/05/01", "24-05-01", "tomorrow", "today+1", "this-", "this--1",
                      "this-1x", "yesterday-99999999999999999999", "2024-W10", "2024-05",
                      "2024-05-01T00:00Z", "+2024-05-01", "２０２４-05-01"):
            with self.subTest(label):
                self.assertRefused(label)

    def test_a_label_of_another_period_is_refused(self):
        for every, label in (("hour", "2024-05-01"), ("hour", "2024-05-01T10:30Z"),
                             ("hour", "2024-05-01T10:00"), ("week", "2024-W54"),
                             ("week", "2023-W53"), ("week", "2024-W00"), ("month", "2024-13"),
                             ("month", "2024-05-01"), ("month", "today"), ("hour", "yesterday"),
                             ("15m", "2024-05-01T10:05Z")):
            with self.subTest(every=every, label=label):
                self.assertRefused(label, "--every", every, "--tz", "UTC")

    def test_a_period_that_has_not_begun_is_refused(self):
        tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)
        for label in (str(tomorrow.date()), "2999-01-01", "9999-12-31"):
            with self.subTest(label):
                self.assertRefused(label, "--tz", "UTC")
        self.assertRefused("2999-12", "--every", "month", state=None)

    def test_the_leap_day_is_a_date(self):
        self.assertExit(self.oncerun(date="2024-02-29"), DONE)
        self.assertStatus("done", date="2024-02-29")

    def test_a_key_is_any_text(self):
        for label in ("order 4711", "today", "a/b.csv", "süß", "'; DROP TABLE job_run; --", "x" * 512):
            with self.subTest(label):
                for _ in range(2):
                    self.assertExit(self.oncerun("--every", "key", date=label, state=None), DONE)
                self.assertStatus("done", date=label)
        self.assertEqual(self.runs(), 6)

    def test_a_key_has_its_limits(self):
        for label in ("", "x" * 513, "a\nb", "a\x7f", None):
            with self.subTest(label):
                self.assertRefused(label, "--every", "key", state=None)


class ScheduledAt(DatesCase):
    def test_every_form_of_an_instant(self):
        for at in ("2024-10-26T02:00:00Z", "2024-10-26t04:00:00+02:00", "@1729908000",
                   "2024-10-26T02:00:00.25Z"):
            with self.subTest(at):
                self.assertEqual(self.label("yesterday", at, tz="UTC"), "2024-10-25")

    def test_a_cronjobs_minutes_are_believed(self):
        minutes = int(time.time()) // 60 - 3 * 24 * 60
        day = datetime.datetime.fromtimestamp(minutes * 60, datetime.timezone.utc).date()
        at = f"k8s:settle-all-{minutes}"
        self.assertEqual(self.label("this", at, tz="UTC"), str(day))
        self.assertEqual(self.label("yesterday", at, tz="UTC"),
                         str(day - datetime.timedelta(days=1)))

    def test_the_environment_says_it_and_an_option_says_it_louder(self):
        env = {"ONCERUN_SCHEDULED_AT": "2024-10-26T02:00:00Z"}
        self.assertEqual(self.label("this", None, tz="UTC", env=env), "2024-10-26")
        self.assertEqual(self.label("this", "2024-10-20T02:00:00Z", tz="UTC", env=env), "2024-10-20")

    def test_what_is_no_instant_is_refused(self):
        now = int(time.time()) // 60
        for at in ("", "now", "2024-10-26", "2024-10-26T02:00:00", "2024-10-26T25:00:00Z", "@", "@x",
                   "@12x", "k8s:", "k8s:settle", "k8s:settle-", "k8s:settle-manual-7x",
                   f"k8s:settle-{now - 401 * 24 * 60}", f"k8s:settle-{now + 2 * 24 * 60}",
                   "k8s:settle-99999999999999999999", "2024-02-30T00:00:00Z"):
            with self.subTest(at):
                done = self.oncerun("--scheduled-at", at, date="this")
                self.assertExit(done, USAGE)
                self.assertEqual(os.listdir(self.dir), ["hit"], "something was written")
        self.assertExit(self.oncerun(date="this", env={"ONCERUN_SCHEDULED_AT": "soon"}), USAGE)


class Schedules(DatesCase):
    def test_K01_a_blocked_date_is_not_used_up(self):
        gate = self.gate()
        first = self.start(date="2024-10-26", command=gate.shell)
        gate.wait_started()
        self.assertExit(self.oncerun(date="2024-10-27"), BLOCKED)
        self.assertIsNone(self.row(date="2024-10-27"))
        self.assertEqual(self.runs(), 0)
        gate.go()
        self.assertExit(first.end(), DONE)
        self.assertExit(self.oncerun(date="2024-10-27"), DONE)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.state()["lastPublishedDate"], "2024-10-27")

    def test_K01_a_start_that_waits_past_midnight_keeps_its_date(self):
        self.need("faketime")
        with open(BINARY, "rb") as file:
            if b"__asan_init" in file.read():
                self.skip("a sanitizer's run time and libfaketime do not go together")
        lock = self.path("job.lock")
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            # Two seconds before midnight; the real clock's seconds pass as they do.
            argv = self.argv("--tz", "UTC", "--lock", f"flock:{lock}", "--wait", "30", date="this",
                             command=["env", "-u", "LD_PRELOAD", "sh", "-c", SHOW + ' >>"$D/runs"'])
            begin = time.monotonic()
            waiting = self.spawn(["faketime", "-f", "@2024-05-05 23:59:58", *argv],
                                 env={"TZ": "UTC"})
            self.wait_for(lambda: time.monotonic() - begin > 3, 10, "midnight")
            self.assertIsNone(waiting.poll(), waiting.err)
        self.assertExit(waiting.end(20), DONE)
        self.assertEqual(self.lines("runs"), ["2024-05-05"])
        self.assertStatus("done", date="2024-05-05")
        self.assertEqual([row["biz_date"] for row in self.query("SELECT biz_date FROM job_run")],
                         ["2024-05-05"])
        self.assertEqual(self.state()["lastPublishedDate"], "2024-05-05")


if __name__ == "__main__":
    main()
