#!/bin/sh
# Installs what the tests need, builds release, runs every suite. The last lines are ctest's summary
# and the exit code is ctest's.
#
#   sh tests/run.sh              everything that fits into ten minutes on two cores
#   sh tests/run.sh full         the long variants too (more rounds, more kill points)
#   sh tests/run.sh -R unit_     any further arguments are ctest's

set -eu
here=$(cd "$(dirname "$0")/.." && pwd)

# Nothing of the caller's surroundings may decide a test: no ONCERUN_*, no TZ, no other python3.
if [ "${ONCERUN_TESTS_SCRUBBED:-}" != yes ]; then
  set -- sh "$here/tests/run.sh" "$@"
  for name in http_proxy https_proxy no_proxy CCACHE_DIR TERM; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || set -- "$name=$value" "$@"
  done
  exec env -i ONCERUN_TESTS_SCRUBBED=yes HOME="${HOME:-/}" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
fi
unset ONCERUN_TESTS_SCRUBBED

. "$here/packaging/packages.sh"

full=
if [ "${1:-}" = full ]; then
  full=1
  shift
fi

# shellcheck disable=SC2086 # lists of words
install_packages $build_packages $test_packages

launcher=
command -v ccache >/dev/null && launcher=ccache
build=$here/build/release
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "configuring $build"
if ! cmake -S "$here" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DONCERUN_TESTS=ON \
  -DPython3_EXECUTABLE=/usr/bin/python3 -DCMAKE_CXX_COMPILER_LAUNCHER=$launcher >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
echo "building"
if ! cmake --build "$build" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
# Warnings of a build that went through are worth reading too.
grep -E -A4 'warning:' "$log" || true

cd "$build"
[ -z "$full" ] || export ONCERUN_TEST_FULL=1
rm -f "$log"
trap - EXIT
# Most of a suite waits: for a job, a lock, a limit. Twice the processors keeps them busy.
exec ctest --no-tests=error --output-on-failure --parallel "$((2 * $(processors)))" "$@"
