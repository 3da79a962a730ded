#!/bin/sh
# Installs what the tests need, builds release, runs every suite. The last lines are ctest's summary
# and the exit code is ctest's.
#
#   sh tests/run.sh              everything that fits into ten minutes on two cores
#   sh tests/run.sh full         the long variants too (more rounds, more kill points), and then
#                                the suites under the sanitizers (tests/sanitize.sh)
#   sh tests/run.sh -R unit_     any further arguments are ctest's

set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/support/suite.sh"
scrub "$here/tests/run.sh" "$@"

full=
if [ "${1:-}" = full ]; then
  full=1
  shift
fi

# shellcheck disable=SC2086 # lists of words
install_packages $build_packages $test_packages
build_tests release -DCMAKE_BUILD_TYPE=Release

if [ -z "$full" ]; then
  run_tests "$@"
  exit
fi
export ONCERUN_TEST_FULL=1
code=0
run_tests "$@" || code=$?
unset ONCERUN_TEST_FULL
# Whoever names tests wants those and no others.
if [ $# -eq 0 ]; then
  sh "$here/tests/sanitize.sh" || code=$?
fi
exit "$code"
