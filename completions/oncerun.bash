# bash completion for oncerun(1): options, their choices, jobs and dates of the ledger, and after --
# whatever completes the command itself. Needs nothing but bash; uses bash-completion if it is there.

# Replies with those of the given words that begin with $1; words may contain spaces.
_oncerun_match() {
    local begin=$1 word
    shift
    for word; do
        [[ $word == "$begin"* ]] && COMPREPLY+=("$word")
    done
}

# Replies with files that begin with $1.
_oncerun_files() {
    local name
    compopt -o filenames 2>/dev/null
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <(compgen -f -- "$1")
}

# The strings that stand under a key in JSON from standard input, each once. Enough for names and
# labels: of the escapes only those of quote and backslash are undone.
_oncerun_strings() {
    grep -oE "\"$1\" *: *\"([^\"\\\\]|\\\\.)*\"" |
        sed -e "s/^\"$1\" *: *\"//" -e 's/"$//' -e 's/\\\(["\\]\)/\1/g' | sort -u
}

# Asks oncerun itself, with the ledger and job that the line names already.
# $1: subcommand, $2: key of its JSON; replies with what begins with $3.
_oncerun_ask() {
    local -a asked=("${COMP_WORDS[0]}" "$1" --json)
    local word
    [[ -n $oncerun_ledger ]] && asked+=(--ledger "$oncerun_ledger")
    [[ -n $oncerun_state ]] && asked+=(--state "$oncerun_state")
    [[ $2 == biz_date && -n $oncerun_job ]] && asked+=(--job "$oncerun_job")
    while IFS= read -r word; do
        [[ $word == "$3"* ]] || continue
        # What is inserted must be one word again.
        printf -v word %q "$word"
        COMPREPLY+=("$word")
    done < <("${asked[@]}" 2>/dev/null </dev/null | _oncerun_strings "$2")
}

# The command after --: as if it stood alone.
_oncerun_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)); then
        local name
        while IFS= read -r name; do
            COMPREPLY+=("$name")
        done < <(compgen -c -- "$cur" | sort -u)
        _oncerun_files "$cur"
    else
        _oncerun_files "$cur"
    fi
}

# The value of an option; fails if the option takes none.
_oncerun_value() {
    case $1 in
    -j | --job) _oncerun_ask status job "$2" ;;
    -d | --date)
        _oncerun_match "$2" this previous today yesterday
        _oncerun_ask history biz_date "$2"
        ;;
    --every) _oncerun_match "$2" day hour week month 5m 15m 6h key ;;
    --tz)
        local zones=${TZDIR:-/usr/share/zoneinfo} zone
        while IFS= read -r zone; do
            _oncerun_match "$2" "$zone"
        done < <(echo UTC && grep -v '^#' "$zones/zone.tab" 2>/dev/null | cut -f3 | sort)
        ;;
    -l | --lock)
        [[ $2 == r* ]] && compopt -o nospace 2>/dev/null # a URL goes on
        _oncerun_match "$2" flock flock: none redis:// rediss:// redis+unix:// redis+sentinel://
        ;;
    --lock-renew) _oncerun_match "$2" on off ;;
    --lock-replicas) _oncerun_match "$2" all 0 1 2 ;;
    --lock-unavailable) _oncerun_match "$2" fail run ;;
    -L | --ledger)
        _oncerun_match "$2" none
        _oncerun_files "$2"
        ;;
    -g | --guarantee) _oncerun_match "$2" cautious at-least-once at-most-once ;;
    --lock-scope) _oncerun_match "$2" job date ;;
    --log-format) _oncerun_match "$2" text json journal ;;
    --exit)
        compopt -o nospace 2>/dev/null
        _oncerun_match "$2" done= busy= blocked= held= unmet= unavailable= unwritable= usage= config= \
            internal= unrecorded= lost= unconfirmed= timeout= not-executable= not-found=
        ;;
    -s | --state | --report | --spool | -c | --check | --on-lost | --lock-password-file)
        _oncerun_files "$2"
        ;;
    -w | --wait | -t | --timeout | -k | --kill-after | --retry-delay | --record-timeout | \
        --check-timeout | --check-settle | --check-absent | --check-present | --unknown-exit | \
        --retries | --scheduled-at | -n | --limit | --reason | --lock-key | --lock-ttl | \
        --lock-marks | --connect-timeout) ;;
    *) return 1 ;;
    esac
}

# Sets words and where from COMP_WORDS, where bash has cut at = and :, which belong to words here
# (--lock=flock:x, 2026-10-26T18:00Z). `where` remembers each word's first place in COMP_WORDS.
_oncerun_rejoin() {
    local rest=$COMP_LINE word before i
    words=() where=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        before=${rest%%"$word"*}
        [[ -z $word && $rest == [[:blank:]]* ]] && before=' '
        if ((i > 0)) && [[ -z $before ]] && [[ $word == [=:]* || ${words[-1]} == *[=:] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
            where+=("$i")
        fi
        rest=${rest#*"$word"}
    done
}

_oncerun() {
    local -a words where
    local cur prev i oncerun_ledger='' oncerun_job='' oncerun_state='' sub=''
    COMPREPLY=()
    _oncerun_rejoin
    cur=${words[-1]}
    prev=${words[${#words[@]} - 2]}

    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        --)
            _oncerun_command $((where[i] + 1))
            return
            ;;
        -L | --ledger) oncerun_ledger=${words[i + 1]} ;;
        --ledger=*) oncerun_ledger=${words[i]#*=} ;;
        -s | --state) oncerun_state=${words[i + 1]} ;;
        --state=*) oncerun_state=${words[i]#*=} ;;
        -j | --job) oncerun_job=${words[i + 1]} ;;
        --job=*) oncerun_job=${words[i]#*=} ;;
        esac
    done
    # What was typed may be quoted.
    oncerun_ledger=$(_oncerun_unquoted "$oncerun_ledger")
    oncerun_state=$(_oncerun_unquoted "$oncerun_state")
    oncerun_job=$(_oncerun_unquoted "$oncerun_job")

    # A subcommand is the first word, or there is none.
    if ((${#words[@]} > 2)); then
        case ${words[1]} in
        status | history | show | check | resolve | still-mine | job | ledger) sub=${words[1]} ;;
        esac
    fi

    local before=''
    if [[ $cur == --*=* ]]; then
        before=${cur%%=*}=
        _oncerun_value "${cur%%=*}" "${cur#*=}"
    elif [[ $prev != -* ]] || ! _oncerun_value "$prev" "$cur"; then
        _oncerun_words "$sub"
    fi

    # Readline replaces only what stands behind its last word break.
    local breaks='' cut=''
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=':'
    [[ -n $breaks ]] && cut=${cur%"${cur##*["$breaks"]}"}
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=$before${COMPREPLY[i]}
        COMPREPLY[i]=${COMPREPLY[i]#"$cut"}
    done
}

_oncerun_unquoted() {
    local text=$1
    text=${text#[\"\']}
    text=${text%[\"\']}
    printf %s "${text//\\/}"
}

# Options and subcommands that may stand here.
_oncerun_words() {
    local -a options
    local -a about_date=(--date --every --tz --scheduled-at)
    local -a about_ledger=(--ledger --state --help --version)
    case $1 in
    '')
        options=(--job --date --every --tz --scheduled-at --lock --lock-scope --lock-key --lock-ttl
            --lock-renew --lock-replicas --lock-marks --lock-unavailable --lock-password-file
            --connect-timeout --on-lost --wait --replace --ledger --state --spool --record-timeout
            --guarantee --check --check-timeout --check-absent --check-present --check-settle
            --check-first --check-after --unknown-exit --rerun --timeout --kill-after --retries
            --retry-delay --exit --report --explain --verbose --quiet --log-format --json --help
            --version --)
        ((${#words[@]} == 2)) &&
            _oncerun_match "$cur" status history show check resolve still-mine job ledger
        ;;
    status) options=(--job --json "${about_ledger[@]}") ;;
    history) options=(--job --date --limit --json "${about_ledger[@]}") ;;
    show) options=(--job --json "${about_date[@]}" "${about_ledger[@]}") ;;
    check)
        options=(--job --check --check-timeout --check-absent --check-present --json
            "${about_date[@]}" "${about_ledger[@]}")
        ;;
    resolve)
        options=(--job --done --ready --skip --force --reason --json "${about_date[@]}"
            "${about_ledger[@]}")
        ;;
    job)
        if ((${#words[@]} == 3)); then
            _oncerun_match "$cur" set
            return
        fi
        options=(--job --every --tz "${about_ledger[@]}")
        ;;
    ledger)
        if ((${#words[@]} == 3)); then
            _oncerun_match "$cur" accept
            return
        fi
        options=("${about_ledger[@]}")
        ;;
    still-mine) options=(--verbose --help --version) ;;
    esac
    [[ -z $cur && $1 == '' && ${#words[@]} -eq 2 ]] || _oncerun_match "$cur" "${options[@]}"
}

complete -F _oncerun oncerun
