"""The units, as far as they can be judged without a running systemd."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def settings(name):
    """{key: [values]} of a unit file."""
    found = {}
    for line in (ROOT / "systemd" / name).read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


class Units(unittest.TestCase):
    def test_what_the_service_promises(self):
        service = settings("oncerun@.service")
        self.assertEqual(service["Type"], ["oneshot"])
        self.assertEqual(service["KillMode"], ["mixed"])
        self.assertEqual(service["SuccessExitStatus"], ["75"])
        self.assertLessEqual({"80", "82"}, set(service["RestartPreventExitStatus"][0].split()))
        self.assertEqual(service.get("Restart", ["no"]), ["no"])
        self.assertEqual(service["EnvironmentFile"], ["/etc/oncerun/%i.env"])
        # oncerun finds orphans in /proc.
        self.assertNotIn("ProtectProc", service)
        self.assertNotIn("PrivateUsers", service)

    def test_the_stop_timeout_fits_the_defaults(self):
        # --kill-after 10s for the command, again for the rest of its tree, --record-timeout 30s.
        stop = settings("oncerun@.service")["TimeoutStopSec"][0]
        self.assertGreater(int(stop.removesuffix("s")), 10 + 10 + 30)

    def test_systemd_accepts_them(self):
        if shutil.which("systemd-analyze") is None:
            print("skipped: units: systemd-analyze is not installed", file=sys.stderr)
            self.skipTest("systemd-analyze is not installed")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("oncerun@.service", "oncerun@.timer"):
                text = (ROOT / "systemd" / name).read_text(encoding="utf-8")
                # The binary need not be installed here.
                text = text.replace("ExecStart=oncerun ", "ExecStart=/bin/true ")
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            result = subprocess.run(
                ["systemd-analyze", "--man=no", "verify", "oncerun@settle.service", "oncerun@settle.timer"],
                env={**os.environ, "SYSTEMD_UNIT_PATH": folder + ":"}, capture_output=True, text=True,
                check=False)
        ours = [line for line in result.stderr.splitlines() if "oncerun" in line]
        self.assertEqual((result.returncode, ours), (0, []), result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
