"""The options of --help, of the manual page and of the bash completion are the same ones."""

import os
import re
import subprocess
import unittest

import manual
from bash_completion import complete

BINARY = os.environ["ONCERUN_BINARY"]


def help_of(*words):
    result = subprocess.run([BINARY, *words, "--help"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{words} --help: exit {result.returncode}: {result.stderr}")
    return result.stdout


def options_of(text):
    """{long name: (short letter or "", value's name or "")} of a --help."""
    line = re.compile(r"^  (?:-(\w), |    )--([\w-]+)(?: (\S+))?(?:  |$)", re.M)
    return {name: (short or "", value) for short, name, value in line.findall(text)}


def defaults_of(text):
    """{long name: default} of a --help, for defaults of one word."""
    entry = re.compile(r"^ +(?:-\w, )?--([\w-]+)(.*(?:\n {20,}.*)*)", re.M)
    found = {}
    for name, words in entry.findall(text):
        default = re.search(r"\[([^\]\s]+)\]$", words)
        if default:
            found[name] = default.group(1)
    return found


def subcommands_of(text):
    block = re.search(r"^Subcommands.*?:\n(.*?)\n\n", text, re.M | re.S).group(1)
    return re.findall(r"^  (\w[\w -]*?)(?:  +|$)", block, re.M)


class OptionsAgree(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.page = manual.source("oncerun.1")
        cls.help = help_of()
        cls.common = manual.options(manual.section(cls.page, "OPTIONS"))
        cls.subcommands = subcommands_of(cls.help)

    def test_the_options_of_a_run_are_in_the_manual(self):
        self.assertGreater(len(self.common), 30)
        self.assertEqual(options_of(self.help), self.common)

    def test_defaults_are_in_the_manual(self):
        text = manual.section(self.page, "OPTIONS")
        defaults = defaults_of(self.help)
        self.assertGreater(len(defaults), 12)
        for name, default in defaults.items():
            item = re.search(rf"^\.It [^\n]*Fl Fl {name}(?: |$).*?(?=^\.It |^\.El)", text, re.M | re.S)
            self.assertRegex(item.group(0), rf"Default:(?:\n\.(?:Li|Cm))? {re.escape(default)}\b",
                             f"--{name}")

    def test_the_subcommands_are_in_the_manual(self):
        described = manual.subsections(manual.section(self.page, "SUBCOMMANDS"))
        self.assertEqual(sorted(described), sorted(self.subcommands))

    def test_the_options_of_each_subcommand_are_in_the_manual(self):
        for name in self.subcommands:
            with self.subTest(name):
                here = manual.section(self.page, name, "Ss")
                described = {**self.common, **manual.options(here)}
                known = options_of(help_of(*name.split()))
                self.assertEqual({option: described.get(option) for option in known}, known)
                # What the manual says of it alone, and its synopsis, exist.
                named = set(manual.options(here))
                named |= set(re.findall(r"Fl Fl ([\w-]+)", here.split(".Pp")[0]))
                self.assertLessEqual(named, set(known))

    def test_the_completion_offers_them(self):
        offered = set(complete("oncerun --", BINARY)) - {"--"}
        self.assertEqual(offered, {f"--{name}" for name in options_of(self.help)})
        for name in self.subcommands:
            with self.subTest(name):
                known = options_of(help_of(*name.split()))
                self.assertEqual(set(complete(f"oncerun {name} --", BINARY)),
                                 {f"--{option}" for option in known})

    def test_the_completion_offers_the_subcommands(self):
        self.assertEqual(set(complete("oncerun ", BINARY)),
                         {name.split()[0] for name in self.subcommands})

    def test_the_exit_codes_are_in_the_manual(self):
        text = manual.section(self.page, "EXIT STATUS")
        described = set(re.findall(r"^\.It ([\w-]+) Ta (\d+) Ta ", text, re.M))
        block = self.help[self.help.index("Exit codes"):]
        listed = {(name, code) for code, name in re.findall(r"^  (\d+) +([\w-]+)", block, re.M)}
        self.assertGreater(len(listed), 14)
        self.assertEqual(described, listed)

    def test_the_help_fits_a_terminal(self):
        for words in [(), *(name.split() for name in self.subcommands)]:
            for line in help_of(*words).splitlines():
                self.assertLessEqual(len(line), 80, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
