"""Rules of the repository: layers, single includers, sizes, banned calls, dead files, format."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"

# src/README.md: a file includes only its own folder and folders of lower levels.
LEVELS = {"core": 0, "os": 1, "child": 2, "state": 2, "ledger": 2, "lock": 2, "run": 3, "ops": 4, "cli": 5}

# Headers that one file of src/ may include.
SINGLE = [r"CLI/.*", r"sqlite3\.h", r"spdlog/.*", r"hiredis.*", r"libpq-fe\.h", r"mysql.*"]

# Calls that have no place here, and where they have one after all.
BANNED = {
    r"(?<![\w.>])(?:std::)?system\s*\(": [],
    r"(?<!\w)(?:str(?:cpy|cat)|v?sprintf|gets)\s*\(": [],
    r"(?<![\w.>])(?:std::)?s?rand\s*\(": [],
    r"std::j?thread\b|\bpthread_create\b|std::async\b": [],
    r"(?<![\w.>])u?sleep\s*\(|sleep_for\b": [],
    r"(?<![\w.>])v?fork\s*\(": ["child/", "os/helper_process.cpp"],
    r"std::regex\b": [],
    r"#include <iostream>": [],
    r"using namespace std;": [],
}

# What belongs to one developer's machine, not into the project.
FOREIGN = [
    r"/home/(?!\.)\w+", r"/Users/\w+", r"/root/\w",
]


def text_of(path):
    return path.read_text(encoding="utf-8")


def sources(folder=SRC):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".hpp"))


def without_comments_and_strings(text):
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.*?)\)\1"|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, lambda match: "\n" * match.group(0).count("\n"), text, flags=re.S)


def tracked():
    """Every file of the project: git's list, or the tree where there is no git."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
                                capture_output=True, check=True).stdout.decode().split("\0")
        paths = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for path in ROOT.rglob("*") if path.is_file()
                 and path.relative_to(ROOT).parts[0] not in (".git", "build", "out")
                 and "__pycache__" not in path.parts]
    return [path for path in paths if path.is_file()]


class Rules(unittest.TestCase):
    maxDiff = None

    def none(self, found, rule):
        if found:
            self.fail(rule + ":\n" + "\n".join(found))

    def test_layers(self):
        found = []
        for path in sources():
            folder = path.relative_to(SRC).parts[0]
            for included in re.findall(r'#include "([^"]+)"', text_of(path)):
                target = included.split("/")[0]
                if path.parent == SRC:
                    allowed = target == "cli"
                else:
                    allowed = target == folder or LEVELS.get(target, 99) < LEVELS.get(folder, -1)
                made = SRC / folder / (pathlib.Path(included).name + ".in")
                if not allowed or not ((SRC / included).is_file() or made.is_file()):
                    found.append(f"{path.relative_to(ROOT)} includes {included}")
        self.none(found, "a file includes only its own folder and folders below it, by path from src/")

    def test_every_folder_has_its_level(self):
        folders = {path.name for path in SRC.iterdir() if path.is_dir()}
        self.assertLessEqual(folders, set(LEVELS))

    def test_libraries_follow_the_layers(self):
        found = []
        for folder, level in LEVELS.items():
            lists = SRC / folder / "CMakeLists.txt"
            if not lists.is_file():
                continue
            for other in re.findall(r"\boncerun_(\w+)\b", text_of(lists)):
                if other in LEVELS and other != folder and LEVELS[other] >= level:
                    found.append(f"{folder} links {other}")
        self.none(found, "a library links only to the layers below it")

    def test_core_does_no_input_or_output(self):
        found = []
        banned = r"#include <(fstream|iostream|cstdio|filesystem|fcntl\.h|unistd\.h|sys/(?!types)[\w/]+\.h)>"
        for path in sources(SRC / "core"):
            found += [f"{path.relative_to(ROOT)}: {match.group(0)}"
                      for match in re.finditer(banned, text_of(path))]
        self.none(found, "core/ is pure")

    def test_single_includers(self):
        for header in SINGLE:
            users = [str(path.relative_to(ROOT)) for path in sources()
                     if re.search(rf"#include [<\"]{header}[>\"]", text_of(path))]
            self.assertLessEqual(len(users), 1, f"{header}: {users}")

    def test_sizes(self):
        found = []
        for path in sources() + sources(ROOT / "tests"):
            lines = text_of(path).count("\n")
            # A test may be one long table.
            if lines > (450 if SRC in path.parents else 700):
                found.append(f"{path.relative_to(ROOT)}: {lines} lines")
        self.none(found, "about 400 lines a file; ask which type is missing")

    def test_banned_calls(self):
        found = []
        for path in sources():
            name = str(path.relative_to(SRC))
            text = without_comments_and_strings(text_of(path))
            for pattern, allowed in BANNED.items():
                if any(name.startswith(folder) for folder in allowed):
                    continue
                for match in re.finditer(pattern, text):
                    line = text.count("\n", 0, match.start()) + 1
                    found.append(f"src/{name}:{line}: {match.group(0)}")
        self.none(found, "banned calls")

    def test_headers(self):
        found = []
        for path in sources():
            if path.suffix == ".hpp":
                text = text_of(path)
                if not text.startswith("#pragma once\n"):
                    found.append(f"{path.relative_to(ROOT)}: #pragma once is not the first line")
                if re.search(r"^\s*using namespace\b", text, re.M):
                    found.append(f"{path.relative_to(ROOT)}: using namespace")
        self.none(found, "headers")

    def test_descriptors_are_closed_on_exec_from_the_start(self):
        found = []
        calls = r"(?<![\w.>])(?:::)?(?:openat?|pipe2|memfd_create|signalfd|timerfd_create|mkostemp|socket|accept4)\s*\("
        for path in sources():
            text = without_comments_and_strings(text_of(path))
            for match in re.finditer(calls, text):
                # open() is also the name of functions of ours; those calls have no O_ flag.
                call = text[match.start():text.find(";", match.start())]
                if re.search(r"\bO_(RDONLY|RDWR|WRONLY|PATH|TMPFILE)\b", call) and "CLOEXEC" not in call:
                    line = text.count("\n", 0, match.start()) + 1
                    found.append(f"{path.relative_to(ROOT)}:{line}: {call.split(chr(10))[0]}")
            for match in re.finditer(r"(?<![\w.>])(?:::)?(?:pipe|creat|mkstemp|dup|dup2)\s*\(", text):
                line = text.count("\n", 0, match.start()) + 1
                if "child/" not in str(path):
                    found.append(f"{path.relative_to(ROOT)}:{line}: {match.group(0)}")
        self.none(found, "every descriptor is opened with O_CLOEXEC")

    def test_every_source_is_built(self):
        found = []
        for path in sources():
            if path.suffix != ".cpp":
                continue
            lists = path.parent / "CMakeLists.txt"
            if not lists.is_file() or not re.search(rf"(?<![\w/]){re.escape(path.name)}\b", text_of(lists)):
                found.append(str(path.relative_to(ROOT)))
        self.none(found, "not in its folder's CMakeLists.txt")

    def test_every_header_is_used(self):
        included = set()
        for path in sources() + sources(ROOT / "tests"):
            included |= set(re.findall(r'#include "([^"]+)"', text_of(path)))
        found = [str(path.relative_to(ROOT)) for path in sources()
                 if path.suffix == ".hpp" and str(path.relative_to(SRC)) not in included]
        self.none(found, "nobody includes")

    def is_in_fuzz_lists(self, path):
        lists = text_of(path.parent / "CMakeLists.txt")
        target = re.fullmatch(r"(\w+)_fuzz\.cpp", path.name)
        return (path.suffix == ".hpp" or path.name in lists
                or bool(target) and f"oncerun_fuzz_target({target.group(1)}" in lists)

    def test_every_test_of_cpp_is_globbed(self):
        found = []
        for path in sources(ROOT / "tests"):
            parts = path.relative_to(ROOT / "tests").parts
            known = parts[0] == "support" or (
                len(parts) == 3 and parts[0] in ("unit", "component") and parts[1] in LEVELS
                and (path.suffix == ".hpp" or path.name.endswith("_test.cpp"))) or (
                parts[0] == "fuzz" and self.is_in_fuzz_lists(path))
            if not known:
                found.append(str(path.relative_to(ROOT)))
        self.none(found, "no test program takes it in")

    def test_nothing_foreign(self):
        found = []
        for path in tracked():
            if path == pathlib.Path(__file__).resolve():
                continue
            if CORPUS in path.parents:
                continue  # any bytes, on purpose
            try:
                text = text_of(path)
            except UnicodeDecodeError:
                found.append(f"{path.relative_to(ROOT)}: not UTF-8")
                continue
            for pattern in FOREIGN:
                for match in re.finditer(pattern, text):
                    line = text.count("\n", 0, match.start()) + 1
                    found.append(f"{path.relative_to(ROOT)}:{line}: {match.group(0)}")
        self.none(found, "does not belong into the project")

    def test_corpora_are_small(self):
        sizes = {path: path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()}
        self.assertLess(len(sizes), 300, "a corpus is what matters, not all that was found")
        self.none([str(path.relative_to(ROOT)) for path, size in sizes.items() if size > 8192],
                  "too large for a corpus that is read by people")

    def test_no_trailing_blanks_and_a_last_newline(self):
        found = []
        for path in tracked():
            if path.suffix in (".cpp", ".hpp", ".py", ".sh", ".txt", ".cmake", ".md", ".1", ".7", ".bash"):
                text = text_of(path)
                if re.search(r"[ \t]+$", text, re.M) or (text and not text.endswith("\n")):
                    found.append(str(path.relative_to(ROOT)))
        self.none(found, "trailing blanks, or no newline at the end")

    def test_shell_scripts_parse(self):
        for path in tracked():
            first = path.read_bytes()[:64].split(b"\n")[0]
            if path.suffix == ".sh" or first.startswith((b"#!/bin/sh", b"#!/bin/bash")):
                shell = "bash" if b"bash" in first else "sh"
                result = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
        result = subprocess.run(["bash", "-n", ROOT / "completions" / "oncerun.bash"], check=False)
        self.assertEqual(result.returncode, 0)

    def test_the_two_commands_are_there(self):
        self.assertIn("tests/run.sh", text_of(ROOT / ".ci" / "run"))
        first_screen = "\n".join(text_of(ROOT / "README.md").splitlines()[:40])
        self.assertIn("sh packaging/quickstart.sh", first_screen)
        self.assertIn("sh tests/run.sh", first_screen)

    def test_the_map_names_every_folder(self):
        text = text_of(SRC / "README.md")
        for folder in LEVELS:
            self.assertIn(f"{folder}/", text)
        # Files it names are there.
        found = [name for name in re.findall(r"`((?:%s)/\w+\.[ch]pp)`" % "|".join(LEVELS), text)
                 if not (SRC / name).is_file()]
        self.none(found, "src/README.md names files that are gone")

    def test_format(self):
        tool = shutil.which("clang-format")
        if tool is None:
            print("skipped: format: clang-format is not installed", file=sys.stderr)
            self.skipTest("clang-format is not installed")
        version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
        if not re.search(r"version 14\.", version):
            print(f"skipped: format: laid out by clang-format 14, this is {version}", file=sys.stderr)
            self.skipTest("another clang-format")
        files = sources() + sources(ROOT / "tests")
        result = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True,
                                check=False, cwd=ROOT)
        names = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line})
        self.none([str(pathlib.Path(name).relative_to(ROOT)) for name in names],
                  "not as clang-format -i would lay it out")


if __name__ == "__main__":
    unittest.main(verbosity=2)
