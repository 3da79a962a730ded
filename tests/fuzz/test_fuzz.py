"""Fuzzing: the properties of the parsers and of what reads files, on kept and on new inputs.

The targets are built by clang with libFuzzer into build/fuzz; in the full form also with
AddressSanitizer and UndefinedBehaviorSanitizer, which double the time of the build, into
build/fuzz-full. Each replays its corpus (tests/fuzz/corpus) and then tries a fixed number of
mutations from a fixed seed. Without clang the corpora are replayed alone, and that is said.

A finding stays in the build's folder `found`; once mended, it goes into the corpus. By hand, for as
long as you like:

    python3 tests/fuzz/test_fuzz.py && cd build/fuzz && mkdir -p new &&
        tests/fuzz/fuzz_when -dict=../../tests/fuzz/when.dict new ../../tests/fuzz/corpus/when
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "fuzz"
FULL = bool(os.environ.get("ONCERUN_TEST_FULL"))
BUILD = ROOT / "build" / ("fuzz-full" if FULL else "fuzz")
FOUND = BUILD / "found"

# How many mutations the sample tries: some three seconds each. The full form tries 40 times that.
SAMPLE = {"argv": 4000, "when": 15000, "redact": 4000, "redis": 30000, "state": 3000, "spool": 200, "schema": 100}
TIMES_FULL = 40
SEED = 1


def compilers():
    """clang's where it is, with libFuzzer's runtime, which Debian packages apart; else the default."""
    if shutil.which("clang++") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        program = "extern \"C\" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }"
        result = subprocess.run(
            ["clang++", "-x", "c++", "-", "-fsanitize=fuzzer,address", "-o", f"{folder}/probe"],
            input=program, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return []
    return ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++"]


def call(*argv):
    result = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                            errors="replace")
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, argv))}:\n{result.stdout}")


def build():
    """Configures and builds; whether libFuzzer is there."""
    clang = compilers()
    cache = BUILD / "CMakeCache.txt"
    if cache.is_file() and ("clang" in cache.read_text(encoding="utf-8")) != bool(clang):
        shutil.rmtree(BUILD)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    call("cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DONCERUN_FUZZ=ON",
         "-DONCERUN_TESTS=OFF", f"-DONCERUN_FUZZ_SANITIZE={'ON' if FULL else 'OFF'}", *clang, *launcher)
    call("cmake", "--build", BUILD, "--target", "fuzz_planted", *(f"fuzz_{name}" for name in SAMPLE))
    return bool(clang)


class Fuzz(unittest.TestCase):
    has_fuzzer = False

    @classmethod
    def setUpClass(cls):
        cls.has_fuzzer = build()
        if not cls.has_fuzzer:
            print("fuzzing: no clang with libFuzzer here: the corpora are replayed and nothing is tried",
                  file=sys.stderr)
        FOUND.mkdir(exist_ok=True)

    def run_target(self, name, runs, corpus):
        """Runs a target on a corpus; returns its exit code and what it printed."""
        dictionary = HERE / f"{name}.dict"
        with tempfile.TemporaryDirectory() as new:
            argv = [BUILD / "tests" / "fuzz" / f"fuzz_{name}", f"-runs={runs}", f"-seed={SEED}", "-timeout=60",
                    "-print_final_stats=1", f"-artifact_prefix={FOUND}/{name}-",
                    *([f"-dict={dictionary}"] if dictionary.is_file() else []), new, corpus]
            environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
            result = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                    env=environment, cwd=new, stdin=subprocess.DEVNULL)
        return result.returncode, result.stdout.decode(errors="replace")

    def fuzz(self, name):
        corpus = HERE / "corpus" / name
        kept = len(list(corpus.iterdir()))
        self.assertGreater(kept, 0, f"{corpus} is empty")
        runs = kept + SAMPLE[name] * (TIMES_FULL if FULL else 1)
        code, text = self.run_target(name, runs, corpus)
        self.assertEqual(code, 0, f"{name}: a property does not hold; the input is in {FOUND}\n{text[-6000:]}")
        done = re.search(r"Done (\d+) runs", text)
        self.assertIsNotNone(done, text[-2000:])
        self.assertGreaterEqual(int(done.group(1)), runs if self.has_fuzzer else kept, text[-2000:])
        print(f"inputs of {name}: {kept} kept, {int(done.group(1)) - kept} tried"
              f" ({'full' if FULL else f'sample of {SAMPLE[name] * TIMES_FULL}'})", file=sys.stderr)

    def test_a_planted_fault_is_found(self):
        # A suite that finds nothing must be known to find something.
        with tempfile.TemporaryDirectory() as corpus:
            seed = pathlib.Path(corpus, "seed")
            seed.write_bytes(b"ba" if self.has_fuzzer else b"bad")
            code, text = self.run_target("planted", 1_000_000, corpus)
            self.assertNotEqual(code, 0, text[-2000:])
            self.assertIn("broken property: the planted fault is found", text)
        for path in FOUND.glob("planted-*"):
            path.unlink()

    def test_argv(self):
        self.fuzz("argv")

    def test_when(self):
        self.fuzz("when")

    def test_redact(self):
        self.fuzz("redact")

    def test_redis(self):
        self.fuzz("redis")

    def test_state(self):
        self.fuzz("state")

    def test_spool(self):
        self.fuzz("spool")

    def test_schema(self):
        self.fuzz("schema")


if __name__ == "__main__":
    unittest.main(verbosity=2)
