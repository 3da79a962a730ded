"""The Debian package: what is in it, and that its oncerun runs after installation in a clean folder."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = pathlib.Path(os.environ["ONCERUN_BINARY"])
BUILD = BINARY.parents[1]
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def run(*argv, **kw):
    result = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, **kw)
    if result.returncode != 0:
        raise AssertionError(f"{argv}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def skip(reason):
    print(f"skipped: package: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
            if shutil.which(tool) is None:
                skip(f"{tool} is not installed")
        if not (BUILD / "CPackConfig.cmake").is_file():
            skip(f"{BUILD} is no build folder")
        cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
        kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache, re.M).group(1)
        if kind != "Release":
            skip(f"only a release build is packaged, this is {kind}")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder / "cpack")
        debs = list((cls.folder / "cpack").glob("*.deb"))
        assert len(debs) == 1, debs
        cls.deb = debs[0]
        cls.tree = cls.folder / "tree"
        run("dpkg-deb", "-x", cls.deb, cls.tree)

    def field(self, name):
        return run("dpkg-deb", "-f", self.deb, name).strip()

    def test_control(self):
        self.assertEqual(self.field("Package"), "oncerun")
        self.assertRegex(self.deb.name, r"^oncerun_[\d.]+-1_\w+\.deb$")
        depends = [re.sub(r"[ (].*", "", word) for word in self.field("Depends").split(", ")]
        # Everything but libc is linked statically; a wrapper is paid for at every start.
        self.assertLessEqual(set(depends), {"libc6", "libm6"})

    def test_files(self):
        found = {str(path.relative_to(self.tree)) for path in self.tree.rglob("*") if path.is_file()}
        self.assertEqual(found, {
            "usr/bin/oncerun",
            "usr/lib/systemd/system/oncerun@.service",
            "usr/lib/systemd/system/oncerun@.timer",
            "usr/share/bash-completion/completions/oncerun",
            "usr/share/doc/oncerun/README.md",
            "usr/share/doc/oncerun/changelog.Debian.gz",
            "usr/share/doc/oncerun/changelog.gz",
            "usr/share/doc/oncerun/copyright",
            "usr/share/lintian/overrides/oncerun",
            "usr/share/man/man1/oncerun.1.gz",
            "usr/share/man/man7/oncerun-guarantees.7.gz",
        })
        for line in run("dpkg-deb", "-c", self.deb).splitlines():
            self.assertRegex(line, r"^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--) root/root ")

    def test_the_changelog_is_of_this_version(self):
        log = gzip.open(self.tree / "usr/share/doc/oncerun/changelog.Debian.gz", "rt").read()
        self.assertIn(f"oncerun ({self.field('Version')}) ", log)
        self.assertIn(f"## {self.field('Version').split('-')[0]}",
                      gzip.open(self.tree / "usr/share/doc/oncerun/changelog.gz", "rt").read())

    def test_compressed_without_name_and_time(self):
        for path in self.tree.rglob("*.gz"):
            head = path.read_bytes()[:10]
            self.assertEqual((head[3], head[4:8]), (0, b"\0\0\0\0"), path.name)  # RFC 1952, 2.3

    def test_it_runs_after_installation_in_a_clean_folder(self):
        if os.geteuid() != 0:
            skip("installing into a folder needs root")
        root = self.folder / "root"
        # dpkg's own data base, the shared libraries of libc and a shell: no more than the package
        # asks for, and /bin/sh.
        for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "tmp", "proc"):
            (root / name).mkdir(parents=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).write_text("")
        run("dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", "-i", self.deb,
            env={"PATH": PATH})
        self.assertIn("install ok installed", run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W",
                                                  "-f", "${Status}", "oncerun"))
        self.provide(root, "/bin/sh", root / "usr/bin/oncerun")
        inside = ["chroot", root, "/usr/bin/oncerun"]
        clean = {"PATH": PATH}
        self.assertRegex(run(*inside, "--version", env=clean), r"^oncerun \d")
        job = ["--tz", "UTC", "--job", "hello", "--date", "2024-10-26", "--", "/bin/sh", "-c",
               "echo ran $ONCERUN_BIZ_DATE"]
        # Nothing is given: root's default ledger, which did not exist.
        self.assertEqual(run(*inside, *job, env=clean), "ran 2024-10-26\n")
        self.assertEqual(run(*inside, *job, env=clean), "")
        self.assertTrue((root / "var/lib/oncerun/ledger.db").is_file())
        self.assertEqual((root / "var/lib/oncerun").stat().st_mode & 0o777, 0o700)
        self.assertIn("hello", run(*inside, "status", env=clean))
        # Removing it leaves the ledger, which is the user's.
        run("dpkg", f"--root={root}", "--force-script-chrootless", "-r", "oncerun", env={"PATH": PATH})
        self.assertFalse((root / "usr/bin/oncerun").exists())
        self.assertTrue((root / "var/lib/oncerun/ledger.db").is_file())

    def provide(self, root, program, other):
        """Copies a program, and the libraries that it and `other` need."""
        wanted = {program}
        for path in (program, other):
            wanted |= set(re.findall(r"(/\S+\.so\S*)", run("ldd", path)))
        for path in wanted:
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)

    def test_lintian_has_no_error(self):
        if shutil.which("lintian") is None:
            skip("lintian is not installed")
        result = subprocess.run(["lintian", "--fail-on", "error", self.deb], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
