# shellcheck shell=sh disable=SC2034
# Sourced by quickstart.sh and tests/run.sh: which Debian packages are needed, and how to get them.
# Names are those of Debian 12 and 13.

build_packages='g++ cmake ninja-build libcli11-dev libsqlite3-dev nlohmann-json3-dev libspdlog-dev
  libfmt-dev uuid-dev libhiredis-dev'

# The demonstration reads the ledger with SQLite's own shell; zones come from tzdata.
demo_packages='sqlite3 tzdata procps'

test_packages='catch2 python3 sqlite3 tzdata procps util-linux mount strace cron mandoc faketime
  e2fsprogs bash-completion dpkg-dev file clang libclang-rt-dev spin tcc
  redis-server redis-sentinel iproute2'

# Prints those of its arguments that are not installed.
missing_packages() {
  for name; do
    case $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) in
    installed) ;;
    *) printf '%s ' "$name" ;;
    esac
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

# install_packages NAME…: only what is missing, so that a second call neither waits nor needs a
# network. On a system without apt the build itself will say what it cannot find.
install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "no apt here: make sure that these are installed: $*" >&2
    return 0
  fi
  wanted=$(missing_packages "$@")
  [ -n "$wanted" ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    echo "not installed: $wanted" >&2
    echo "hint: as root, apt-get install $wanted" >&2
    return 1
  fi
  echo "installing: $wanted"
  log=$(mktemp) || return 1
  # A stale list is no reason to give up: the packages may still be there.
  as_root apt-get -q update >"$log" 2>&1 || true
  # shellcheck disable=SC2086 # a list of words
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends \
    $wanted >>"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    echo "hint: the packages above could not be installed; the last lines say why" >&2
    return 1
  fi
  rm -f "$log"
}

processors() {
  getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1
}
