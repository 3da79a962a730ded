# shellcheck shell=sh
# Sourced by tests/run.sh, sanitize.sh and coverage.sh, with `here` set: surroundings and build.

. "$here/packaging/packages.sh"

# scrub SCRIPT ARGUMENT…: begins the script again with nothing of the caller's surroundings that
# could decide a test: no ONCERUN_*, no TZ, no other python3. The second time it only returns.
scrub() {
  if [ "${ONCERUN_TESTS_SCRUBBED:-}" = yes ]; then
    unset ONCERUN_TESTS_SCRUBBED
    return 0
  fi
  set -- sh "$@"
  for name in http_proxy https_proxy no_proxy CCACHE_DIR TERM; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || set -- "$name=$value" "$@"
  done
  exec env -i ONCERUN_TESTS_SCRUBBED=yes HOME="${HOME:-/}" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# build_tests NAME OPTION…: configures and builds build/NAME with these options of CMake.
build_tests() {
  build=$here/build/$1
  shift
  launcher=
  command -v ccache >/dev/null && launcher=ccache
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  echo "configuring $build"
  if ! cmake -S "$here" -B "$build" -G Ninja -DONCERUN_TESTS=ON \
    -DPython3_EXECUTABLE=/usr/bin/python3 -DCMAKE_CXX_COMPILER_LAUNCHER=$launcher "$@" \
    >"$log" 2>&1; then
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
  rm -f "$log"
  trap - EXIT
}

# run_tests ARGUMENT…: ctest's, in the folder that was built. Most of a suite waits: for a job, a
# lock, a limit. Twice the processors keeps them busy.
run_tests() {
  (cd "$build" && exec ctest --no-tests=error --output-on-failure \
    --parallel "$((2 * $(processors)))" "$@")
}
