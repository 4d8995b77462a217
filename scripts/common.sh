# shellcheck shell=bash
# Messages, logs and stages, shared by ./demo and ./test. Sourced, never run.
#
# Owns: how these scripts talk (stderr; colour only on a terminal), where the output of
# long steps goes (a file under target/log, its end shown when the step fails), and the
# list of stages with its summary. Never installs anything: scripts/setup.sh does.
#
# The caller sets `root` (the folder of the clone) before sourcing.

target="${CARGO_TARGET_DIR:-$root/target}"
case $target in /*) ;; *) target="$root/$target" ;; esac
log_dir="$target/log"

bold='' red='' green='' yellow='' plain=''
if [ -t 2 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' plain=$'\e[0m'
fi

say() { printf '%s\n' "$*" >&2; }
heading() { printf '\n%s== %s ==%s\n' "$bold" "$*" "$plain" >&2; }
die() {
    printf '%serror:%s %s\n' "$red" "$plain" "$*" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# logged NAME COMMAND…: runs the command with no input and its output in
# target/log/NAME.log; says how long it took; on failure shows the end of that file.
logged() {
    local name=$1 log start status=0
    shift
    mkdir -p "$log_dir"
    log="$log_dir/$name.log"
    start=$SECONDS
    "$@" </dev/null >"$log" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
        say "   failed (exit status $status) after $((SECONDS - start)) s; end of $log:"
        tail -n 60 "$log" | sed 's/^/   | /' >&2
        return "$status"
    fi
    say "   done in $((SECONDS - start)) s (log: $log)"
}

# Stages. A stage that fails is counted and the next one runs all the same, so that one
# run shows everything; a stage that cannot run says why.
passed=0 failed=0 skipped=0
summary=()

# stage NAME COMMAND… (never call it where `set -e` is off, as in a condition)
stage() {
    local name=$1 start=$SECONDS status
    shift
    heading "$name"
    # A subshell with `set -e` of its own: as the condition of an `if` it would lose it.
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        summary+=("${green}passed${plain}   $name ($((SECONDS - start)) s)")
    else
        failed=$((failed + 1))
        summary+=("${red}FAILED${plain}   $name ($((SECONDS - start)) s)")
    fi
}

# skip NAME REASON
skip() {
    heading "$1"
    say "   skipped: $2"
    skipped=$((skipped + 1))
    summary+=("${yellow}skipped${plain}  $1: $2")
}

# Prints one line per stage and the closing line; fails if a stage failed.
finish() {
    heading summary
    printf '%s\n' "${summary[@]}" >&2
    printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped" >&2
    [ "$failed" -eq 0 ]
}
