"""The main job on real input: a real crontab under Debian's cron daemon. cron fires on whole minutes,
so this takes up to two of them.

The daemon runs in mount and pid namespaces of its own: the machine's crontabs are out of its sight,
its spool and pid file are its own, and /usr/sbin/sendmail is a script that keeps what is mailed.
"""

import json
import os
import signal
import subprocess

from oncerun_test import BINARY, BUSY, DONE, Case, main

# $1: the test's folder. Only what is mounted here differs from the machine.
SURROUNDINGS = r"""
set -e
mount -t tmpfs none /etc/cron.d
mount -t tmpfs none /var/spool/cron
mkdir -m 1730 /var/spool/cron/crontabs
mount --bind "$1/crontab" /etc/crontab
mkdir "$1/sbin" "$1/machine"
mount --bind /usr/sbin "$1/machine"
for program in "$1"/machine/*; do
    name=${program##*/}
    [ "$name" = sendmail ] || ln -s "$program" "$1/sbin/$name"
done
cp "$1/sendmail" "$1/sbin/sendmail"
mount --bind "$1/sbin" /usr/sbin
mount -t tmpfs none /run
exec /usr/sbin/cron -f
"""

# The job takes until the other start of the minute has been turned away.
JOB = r"""
echo run >>"$D/runs"
tries=0
until [ -s "$D/exits" ] || [ $tries -gt 400 ]; do sleep 0.05; tries=$((tries + 1)); done
"""


class UnderCron(Case):
    def test_a_job_fired_twice_in_a_minute_and_again_a_minute_later_runs_once(self):
        self.need_root()
        self.need("cron", "unshare")
        try:
            subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"],
                           check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            self.skip(f"no private namespaces: {error.stderr.decode().strip()}")

        job = self.script("job", JOB)
        self.script("sendmail", f"cat >>'{self.path('mail')}'; echo >>'{self.path('mail')}'\n")
        # An instant from the scheduler, so that a test about midnight means one date as well.
        line = (f"* * * * * root {BINARY} --job settle --date yesterday --tz UTC "
                f"--scheduled-at 2024-10-27T02:00:00Z --ledger {self.led} --state {self.st} "
                f"--report {self.dir}/report.%d -- {job}; echo $? >>{self.dir}/exits\n")
        self.write(self.path("crontab"), (
            f"SHELL=/bin/sh\nPATH=/usr/bin:/bin\nMAILTO=root\nD={self.dir}\n"
            + line.replace("%d", "1") + line.replace("%d", "2")
            # Mail arrives when there is something to mail.
            + "* * * * * root echo the control speaks\n"))
        os.chmod(self.path("crontab"), 0o644)

        cron = self.spawn(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
                           "sh", "-c", SURROUNDINGS, "sh", self.dir],
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "D": self.dir})
        self.addCleanup(self.stop, cron)

        def ended():
            self.assertIsNone(cron.poll(), cron.err)
            return len(self.lines("exits")) >= 4 and len(self.subjects()) >= 2

        self.wait_for(ended, 150, "four starts by cron")
        self.assertEqual(self.runs(), 1)
        codes = [int(code) for code in self.lines("exits")]
        self.assertEqual(sorted(codes[:2]), [DONE, BUSY], "of the first minute")
        self.assertEqual(codes[2:4], [DONE, DONE], "of the second minute")
        self.assertEqual([subject for subject in self.subjects() if "the control" not in subject], [],
                         "a start was mailed")
        self.assertStatus("done")
        self.assertEqual(self.row()["attempts"], 1)
        self.assertEqual(self.state()["lastPublishedDate"], "2024-10-26")
        for name in ("report.1", "report.2"):
            self.assertEqual(json.loads(self.read(self.path(name)))["outcome"], "done")

    def subjects(self):
        """One a mail: the line of the crontab that printed something."""
        return [line for line in self.lines("mail") if line.startswith("Subject: ")]

    @staticmethod
    def stop(cron):
        """Ends unshare, and with it by --kill-child the whole pid namespace."""
        if cron.poll() is None:
            cron.send_signal(signal.SIGKILL)
            cron.wait(10)


if __name__ == "__main__":
    main()
