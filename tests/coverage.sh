#!/bin/sh
# Builds with counters, runs the unit, component and cli suites, and prints how much of src/ they
# reach: lines and branches, per folder and in total. A process that is killed by SIGKILL, runs as
# another user or in a read-only tree writes no counters, so that the figure is a lower bound.
#
#   sh tests/coverage.sh             the table
#   sh tests/coverage.sh -R unit_    any arguments are ctest's
#
# build/coverage/index.html shows each file.

set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/support/suite.sh"
scrub "$here/tests/coverage.sh" "$@"

# shellcheck disable=SC2086 # lists of words
install_packages $build_packages $test_packages gcovr
build_tests coverage -DCMAKE_BUILD_TYPE=Coverage

# Counters of earlier runs may be of another source.
find "$build" -name '*.gcda' -delete
# libgcov tells the stderr of the program about a file that it cannot write, and the tests that run
# as another user read that. One start makes the files.
"$build/src/oncerun" --version >/dev/null
find "$build" -name '*.gcda' -exec chmod a+rw {} +

code=0
run_tests -R '^(unit|component|cli)_' "$@" || code=$?

# Branches that only exceptions take, and those of code that the compiler made, say nothing.
gcovr --root "$here" --filter "$here/src/" --exclude-throw-branches --exclude-unreachable-branches \
  --gcov-ignore-parse-errors --html-details "$build/index.html" --json-summary "$build/summary.json" \
  "$build" >/dev/null
/usr/bin/python3 "$here/tests/support/coverage_table.py" "$build/summary.json"
[ "$code" -eq 0 ] || echo "not every test went through; the counters are those of what ran" >&2
exit "$code"
