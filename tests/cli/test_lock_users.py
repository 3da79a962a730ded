"""L05: files of one user in the way of another. Each call runs once or ends before its start."""

import os
import stat

from oncerun_test import AS_NOBODY, DATE, DONE, EARLIER, LATER, NEXT, UNWRITABLE, Case, main

NOBODY = 65534


class OtherUsers(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.need("setpriv")
        self.share_binary()
        # What the jobs write lies apart: only oncerun's own files are in question.
        self.write(self.path("runs"), "")
        os.chmod(self.path("runs"), 0o666)
        os.mkdir(self.path("f"))
        self.led = self.path("f/led.db")
        self.st = self.path("f/st.json")

    def owned_by(self, user, mode=0o755):
        os.chown(self.path("f"), user, user)
        os.chmod(self.path("f"), mode)

    def owners(self):
        """Owner and mode of every file in the folder, by path."""
        found = {}
        for folder, _, files in os.walk(self.path("f")):
            for name in files:
                info = os.lstat(os.path.join(folder, name))
                found[os.path.join(folder, name)] = (info.st_uid, stat.S_IMODE(info.st_mode))
        return found

    def call(self, date, prefix=(), *args):
        """One call; returns whether it ran, having seen that it ran once or refused aloud."""
        before = self.runs()
        result = self.oncerun(*args, date=date, prefix=prefix)
        ran = self.runs() - before
        if ran:
            self.assertExit(result, DONE)
            self.assertEqual(ran, 1)
        else:
            self.assertExit(result, UNWRITABLE)
            told = [line for line in result.stderr.splitlines() if self.path("f") in line]
            self.assertTrue(told, f"no line names the file: {result.stderr}")
            self.assertRegex(result.stderr, r"\b(root|nobody|uid 0|uid 65534)\b")
        return bool(ran)

    def kept(self, before):
        after = self.owners()
        for path, was in before.items():
            self.assertEqual(after.get(path), was, f"{path} changed its owner or mode")

    def test_L05_root_first_in_its_own_folder(self):
        self.owned_by(0)
        self.assertTrue(self.call(EARLIER))
        before = self.owners()
        for date in (DATE, NEXT):
            self.assertFalse(self.call(date, AS_NOBODY))
            self.kept(before)
        self.assertTrue(self.call(LATER))

    def test_L05_root_first_in_the_users_folder(self):
        self.owned_by(NOBODY)
        self.assertTrue(self.call(EARLIER))
        before = self.owners()
        self.call(DATE, AS_NOBODY)
        self.kept(before)
        self.assertTrue(self.call(NEXT))

    def test_L05_the_user_first_then_root_by_hand_then_the_user_again(self):
        self.owned_by(NOBODY)
        self.assertTrue(self.call(EARLIER, AS_NOBODY))
        before = self.owners()
        self.assertEqual({owner for owner, _ in before.values()}, {NOBODY})
        self.assertTrue(self.call(DATE), "root may")
        self.kept(before)
        self.assertTrue(self.call(NEXT, AS_NOBODY), "root's run by hand shut the user out")
        self.assertTrue(self.call(LATER, AS_NOBODY))
        self.assertEqual({owner for owner, _ in self.owners().values()}, {NOBODY})

    def test_L05_another_job_of_roots_beside_the_users(self):
        self.owned_by(NOBODY)
        self.assertTrue(self.call(EARLIER, AS_NOBODY))
        result = self.oncerun(job="roots own", state=None)
        self.assertExit(result, DONE)
        result = self.oncerun(job="roots own", date=NEXT, state=None, prefix=AS_NOBODY)
        self.assertExit(result, DONE)
        self.assertEqual({owner for owner, _ in self.owners().values()}, {NOBODY})

    def sticky(self, first, second):
        """/tmp's mode, and fs.protected_regular as it stands on this machine (0, 1 or 2)."""
        self.owned_by(0, 0o1777)
        self.assertTrue(self.call(EARLIER, first))
        before = self.owners()
        for date in (DATE, NEXT):
            self.call(date, second)
            self.kept(before)
        self.assertTrue(self.call(LATER, first))

    def test_L05_a_sticky_folder_root_first(self):
        self.sticky((), AS_NOBODY)

    def test_L05_a_sticky_folder_the_user_first(self):
        self.sticky(AS_NOBODY, ())

    def test_L05_a_lock_file_of_roots(self):
        self.owned_by(NOBODY)
        lock = self.path("f/lock")
        self.write(lock, "")
        os.chmod(lock, 0o600)
        self.assertFalse(self.call(DATE, AS_NOBODY, "--lock", "flock:" + lock))
        self.assertIsNone(self.row())

    def test_L05_a_state_file_of_roots_in_a_folder_of_roots(self):
        self.owned_by(NOBODY)
        os.mkdir(self.path("f/s"))
        self.st = self.path("f/s/st.json")
        self.assertTrue(self.call(EARLIER))
        os.chown(self.led, NOBODY, NOBODY)
        for folder, _, files in os.walk(self.path("f")):
            for name in files:
                if name != "st.json":
                    os.chown(os.path.join(folder, name), NOBODY, NOBODY)
            if not folder.endswith("/s"):
                os.chown(folder, NOBODY, NOBODY)
        before = self.owners()
        self.assertFalse(self.call(DATE, AS_NOBODY))
        self.kept(before)
        row = self.row()
        self.assertTrue(row is None or row["status"] == "failed", row)

    def test_files_are_for_their_owner_alone(self):
        self.owned_by(NOBODY)
        self.led = self.path("f/new/led.db")
        self.oncerun(prefix=["sh", "-c", 'umask 000; exec "$@"', "sh", *AS_NOBODY], state=None)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("f/new")).st_mode), 0o700)
        for path, (owner, mode) in self.owners().items():
            self.assertEqual((owner, mode), (NOBODY, 0o600), path)

    def test_a_link_that_another_user_planted_is_refused(self):
        self.owned_by(0, 0o1777)
        victim = self.path("victim")
        os.symlink(victim, self.led)
        os.lchown(self.led, NOBODY, NOBODY)
        result = self.oncerun(state=None)
        self.assertNotEqual(result.returncode, DONE)
        self.assertIn(self.led, result.stderr)
        self.assertEqual(self.runs(), 0)
        self.assertFalse(os.path.exists(victim))
        os.unlink(self.led)
        lock = self.path("f/lock")
        os.symlink(victim, lock)
        os.lchown(lock, NOBODY, NOBODY)
        result = self.oncerun("--lock", "flock:" + lock, state=None)
        self.assertNotEqual(result.returncode, DONE)
        self.assertIn(lock, result.stderr)
        self.assertEqual(self.runs(), 0)
        self.assertFalse(os.path.exists(victim))


if __name__ == "__main__":
    main()
