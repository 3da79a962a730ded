#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer and runs the unit, component and cli
# suites. Whatever a sanitizer reports fails this script, also where a test did not notice. There is
# no ThreadSanitizer: oncerun is one thread (tests/cli/test_one_thread.py).
#
#   sh tests/sanitize.sh             all of them
#   sh tests/sanitize.sh -R cli_     any arguments are ctest's

set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/support/suite.sh"
scrub "$here/tests/sanitize.sh" "$@"

# shellcheck disable=SC2086 # lists of words
install_packages $build_packages $test_packages
build_tests sanitize -DCMAKE_BUILD_TYPE=Sanitize -DONCERUN_WERROR=ON

# Reports go to files: the stderr of a program under test is read by its test, or by nobody.
# Everybody may write there, since some tests run as another user.
reports=$build/reports
rm -rf "$reports"
mkdir -m 1777 "$reports"
chmod 1777 "$reports"
export ASAN_OPTIONS="log_path=$reports/report"
export UBSAN_OPTIONS="log_path=$reports/report:print_stacktrace=1"

code=0
run_tests -R '^(unit|component|cli)_' "$@" || code=$?
for report in "$reports"/*; do
  [ -e "$report" ] || continue
  echo "--- $report" >&2
  head -60 "$report" >&2
  code=1
done
echo "reports of the sanitizers: $(find "$reports" -type f | wc -l)"
exit "$code"
