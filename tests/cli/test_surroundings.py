"""Bare surroundings, as cron and containers give them (case C01)."""

import os
import subprocess

from oncerun_test import BINARY, CONFIG, DATE, DONE, USAGE, UNWRITABLE, Case, main

STRANGER = 54321  # a uid without a passwd entry


class Bare(Case):
    def explicit(self, *command, folder=None):
        folder = folder or self.dir
        return [BINARY, "--job", "settle", "--date", DATE, "--ledger", f"{folder}/led.db", "--state",
                f"{folder}/st.json", "--", *command]

    def bare(self, argv, env=None, **kw):
        """With this environment and nothing else; cron's working directory may be anything."""
        return subprocess.run(argv, env=env or {}, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False, **kw)

    def test_C01_an_empty_environment_with_explicit_paths(self):
        done = self.bare(self.explicit("/usr/bin/env"))
        self.assertExit(done, DONE)
        names = {line.split("=", 1)[0] for line in done.stdout.splitlines()}
        self.assertTrue(names)
        self.assertTrue(all(name.startswith("ONCERUN_") for name in names), names)
        self.assertExit(self.bare(self.explicit("/bin/sh", "-c", "exit 9")), DONE)
        self.assertStatus("done")

    def test_C01_the_environment_is_as_given(self):
        given = {"A": "1", "B": "", "PATH": "/bin"}
        done = self.bare(self.explicit("/usr/bin/env"), env=given)
        self.assertExit(done, DONE)
        others = dict(line.split("=", 1) for line in done.stdout.splitlines()
                      if not line.startswith("ONCERUN_"))
        self.assertEqual(others, given)

    def test_C01_a_uid_without_a_passwd_entry(self):
        self.need_root()
        self.need("setpriv")
        folder = self.path("strangers")
        os.mkdir(folder)
        os.chown(folder, STRANGER, STRANGER)
        prefix = ["/usr/bin/setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
        done = self.bare(prefix + self.explicit("/usr/bin/touch", f"{folder}/ran", folder=folder))
        self.assertExit(done, DONE)
        self.assertEqual(os.stat(f"{folder}/ran").st_uid, STRANGER)
        self.assertEqual(self.row(ledger=f"{folder}/led.db")["status"], "done")

    def test_C01_a_removed_working_directory(self):
        gone = self.path("gone")
        os.mkdir(gone)
        done = self.bare(["/bin/sh", "-c", f'cd {gone} && rmdir {gone} && exec "$@"', "sh",
                          *self.explicit("/usr/bin/touch", self.path("ran"))])
        self.assertExit(done, DONE)
        self.assertTrue(os.path.exists(self.path("ran")))
        self.assertStatus("done")

    def without_home(self, **env):
        """As a stranger without a ledger option, in a writable working directory."""
        self.need_root()
        self.need("setpriv")
        folder = self.path("cwd")
        os.mkdir(folder)
        os.chown(folder, STRANGER, STRANGER)
        done = self.bare(["/usr/bin/setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}",
                          "--clear-groups", BINARY, "--job", "settle", "--date", DATE, "--",
                          "/usr/bin/touch", f"{folder}/ran"], env=env, cwd=folder)
        return done, os.listdir(folder)

    def test_C01_no_home_and_no_path_is_an_error_that_names_the_option(self):
        done, written = self.without_home()
        self.assertIn(done.returncode, (USAGE, CONFIG), done.stderr)
        self.assertIn("--ledger", done.stderr)
        self.assertEqual(written, [])

    def test_C01_a_home_that_is_no_absolute_path_is_no_home(self):
        for home in ("", "~", "relative", "."):
            with self.subTest(home):
                done, written = self.without_home(HOME=home)
                self.assertIn(done.returncode, (USAGE, CONFIG), done.stderr)
                self.assertIn("--ledger", done.stderr)
                self.assertEqual(written, [])
                os.rmdir(self.path("cwd"))

    def test_C01_the_root_folder_as_home_is_never_written_to(self):
        done, written = self.without_home(HOME="/")
        self.assertIn(done.returncode, (USAGE, CONFIG, UNWRITABLE), done.stderr)
        self.assertEqual(written, [])
        self.assertFalse(os.path.exists("/.oncerun"))

    def test_C01_a_home_gives_the_documented_default(self):
        home = self.path("home")
        self.need_root()
        os.mkdir(home)
        os.chown(home, STRANGER, STRANGER)
        done, _ = self.without_home(HOME=home)
        self.assertExit(done, DONE)
        self.assertEqual(self.row(ledger=f"{home}/.local/state/oncerun/ledger.db")["status"], "done")
        self.assertEqual(os.listdir(home), [".local"])

    def test_C01_roots_documented_default(self):
        self.need_root()
        # A private /var/lib: the machine's stays as it is.
        probe = self.bare(["/usr/bin/unshare", "-m", "/bin/mount", "-t", "tmpfs", "none", "/var/lib"],
                          env={"PATH": "/usr/bin:/bin"})
        if probe.returncode != 0:
            self.skip(f"no private mounts: {probe.stderr.strip()}")
        done = self.bare(["/usr/bin/unshare", "-m", "/bin/sh", "-c",
                          "mount -t tmpfs none /var/lib && \"$@\" && "
                          "find /var/lib/oncerun -name ledger.db && stat -c %a /var/lib/oncerun",
                          "sh", BINARY, "--job", "settle", "--date", DATE, "--", "/bin/true"],
                         env={"PATH": "/usr/bin:/bin"})
        self.assertExit(done, DONE)
        self.assertEqual(done.stdout.split(), ["/var/lib/oncerun/ledger.db", "700"])


if __name__ == "__main__":
    main()
