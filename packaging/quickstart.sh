#!/bin/sh
# Builds oncerun on a fresh Debian and shows what it is for: three triggers and one run, a crash and
# the check that settles it, and the ledger behind it. Everything shown is also checked: the exit
# code is 0 only if each promise was kept. Run it again at will; the second time is fast.
#
#   sh packaging/quickstart.sh              as root, or as a user with sudo
#   ONCERUN=/usr/bin/oncerun sh packaging/quickstart.sh    show an installed one, build nothing

set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/packaging/packages.sh"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else
  bold='' dim='' plain=''
fi

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
say() { printf '  %s\n' "$*"; }
# A command as the reader would type it.
shown() { printf '  %s$ %s%s\n' "$dim" "$*" "$plain"; }
indent() { sed 's/^/  | /'; }
fail() {
  printf '\nNOT AS PROMISED: %s\n' "$*" >&2
  exit 1
}
expect() { # expect WHAT WANTED FOUND
  [ "$2" = "$3" ] || fail "$1: expected $2, found $3"
  printf '  ok: %s\n' "$1"
}

# ---- build -----------------------------------------------------------------------------------

if [ -z "${ONCERUN:-}" ]; then
  title 'Build'
  # shellcheck disable=SC2086 # lists of words
  install_packages $build_packages $demo_packages
  log=$(mktemp)
  say "into build/release (a few minutes the first time)"
  if ! { cmake -S "$here" -B "$here/build/release" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DONCERUN_TESTS=OFF && cmake --build "$here/build/release" --target oncerun; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
  ONCERUN=$here/build/release/src/oncerun
fi
say "$("$ONCERUN" --version | head -n 1)"

# ---- a job that must not happen twice --------------------------------------------------------

# Nothing of the caller's settings may change what is shown.
for name in $(env | sed -n 's/^\(ONCERUN_[A-Z_]*\)=.*/\1/p'); do
  unset "$name"
done

demo=$(mktemp -d)
trap 'rm -rf "$demo"' EXIT
PATH=$(dirname "$ONCERUN"):$PATH
cd "$demo"

cat >pay.sh <<'JOB'
#!/bin/sh
# The job: one payment for the day that oncerun names. It takes a moment, as jobs do.
[ -e stop-before ] && { echo $$ >job.pid; exec sleep 600; }
echo "$ONCERUN_BIZ_DATE paid 100.00 EUR" >>bank.txt
[ -e stop-after ] && { echo $$ >job.pid; exec sleep 600; }
sleep 1
JOB
cat >was-it-paid.sh <<'CHECK'
#!/bin/sh
# The check asks the bank. 0: it happened. 10: it did not. Anything else: not known.
grep -q "^$ONCERUN_BIZ_DATE paid" bank.txt
case $? in 0) exit 0 ;; 1) exit 10 ;; *) exit 2 ;; esac
CHECK
chmod +x pay.sh was-it-paid.sh
: >bank.txt

payments() { grep -c "^$1 paid" bank.txt || true; }
# run DATE [OPTION…]: sets code.
run() {
  date=$1
  shift
  code=0
  oncerun --ledger ledger.db --job pay --date "$date" "$@" -- ./pay.sh 2>said || code=$?
}

title '1. Three triggers at once: cron, a retry, and somebody by hand'
shown "oncerun --ledger ledger.db --job pay --date 2026-10-26 -- ./pay.sh   (three times)"
waiting=
for n in 1 2 3; do
  (
    run 2026-10-26
    echo $code >"code.$n"
  ) &
  waiting="$waiting $!"
done
for child in $waiting; do wait "$child"; done
for n in 1 2 3; do
  case $(cat code.$n) in
  0) say "trigger $n: exit 0   done" ;;
  75) say "trigger $n: exit 75  busy: somebody else is running this very date" ;;
  *) fail "trigger $n ended with exit $(cat code.$n)" ;;
  esac
done
shown 'cat bank.txt'
indent <bank.txt
expect 'one payment' 1 "$(payments 2026-10-26)"
run 2026-10-26
expect 'a fourth trigger, later: exit 0, nothing to do' 0 $code
expect 'still one payment' 1 "$(payments 2026-10-26)"

title '2. kill -9 in the middle of the next day: paid, but nobody noted it'
# crash DATE MARKER: starts a run that stops at MARKER, and kills oncerun and command there.
crash() {
  rm -f job.pid
  : >"$2"
  oncerun --ledger ledger.db --job pay --date "$1" -- ./pay.sh 2>said &
  owner=$!
  tries=0
  until [ -s job.pid ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ]; then
      kill -9 "$owner"
      fail "the job did not start: $(cat said)"
    fi
    sleep 0.1
  done
  child=$(cat job.pid)
  kill -9 "$owner" "$child"
  wait "$owner" 2>/dev/null || true
  # Death takes a moment, and a command that still lives is rightly called busy.
  while kill -0 "$child" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$child/status" 2>/dev/null; do
    sleep 0.1
  done
  rm -f "$2"
}
crash 2026-10-27 stop-after
shown 'oncerun --ledger ledger.db --job pay --date 2026-10-27 -- ./pay.sh'
run 2026-10-27
indent <said
expect 'exit 80, held: in doubt nothing is started' 80 $code
say 'Now with a check that can tell:'
shown "oncerun … --check ./was-it-paid.sh -- ./pay.sh"
run 2026-10-27 --check ./was-it-paid.sh
indent <said
expect 'the check found the payment: exit 0' 0 $code
expect 'one payment of that day' 1 "$(payments 2026-10-27)"

title '3. kill -9 again, this time before the payment'
crash 2026-10-28 stop-before
expect 'nothing paid yet' 0 "$(payments 2026-10-28)"
# In earnest the two questions are 30 seconds apart: a request may still be on its way.
shown "oncerun … --check ./was-it-paid.sh --check-settle 0 -- ./pay.sh"
run 2026-10-28 --check ./was-it-paid.sh --check-settle 0
indent <said
expect 'the check said twice that it did not happen: run, exit 0' 0 $code
expect 'one payment of that day' 1 "$(payments 2026-10-28)"

title '4. What an operator sees'
for what in status 'history --job pay'; do
  shown "oncerun $what --ledger ledger.db"
  # shellcheck disable=SC2086 # subcommand and options
  oncerun $what --ledger ledger.db >said || fail "oncerun $what ended with exit $?"
  indent <said
done
query='SELECT job_name, biz_date, status, attempts, exit_code FROM job_run ORDER BY biz_date'
if command -v sqlite3 >/dev/null; then
  shown "sqlite3 ledger.db '$query'"
  sqlite3 -header -column ledger.db "$query" | indent
  expect 'three days, three runs, all done' 3 \
    "$(sqlite3 ledger.db "SELECT count(*) FROM job_run WHERE status = 'done'")"
fi

title 'As promised.'
say "The binary: $ONCERUN"
say "Read on:    man $here/man/oncerun.1, README.md"
