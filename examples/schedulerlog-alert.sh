#!/bin/sh
# Turns the scheduler log of named work into one line and an exit code, for cron or a monitor. Needs curl and sed.
#
#   schedulerlog-alert.sh URL NAMESPACE NAME
#   schedulerlog-alert.sh http://127.0.0.1:8642 default chat
#
# 0  it was placed and runs
# 1  it was refused, or its start failed; the line says why
# 2  its log could not be read; the line says why
# 3  it was placed and is still starting
#
# PLIMSOLL_TOKEN, where it is set, is sent as a bearer token.
set -eu

if [ $# -ne 3 ]; then
    echo "usage: $0 URL NAMESPACE NAME" >&2
    exit 2
fi
work="$2/$3"
url="$1/api/v1/namespaces/$2/pods/$3/schedulerlog"

# The token goes in by the standard input, so that it does not stand in the list of processes.
options=''
if [ -n "${PLIMSOLL_TOKEN:-}" ]; then
    options="header = \"Authorization: Bearer $PLIMSOLL_TOKEN\""
fi
answer=$(printf '%s\n' "$options" | curl -sS -K - --max-time 10 -w '\n%{http_code}' "$url" 2>&1) || {
    printf '%s\n' "UNKNOWN $work: $(printf '%s\n' "$answer" | head -n 1)"
    exit 2
}
code=$(printf '%s\n' "$answer" | tail -n 1)
json=$(printf '%s\n' "$answer" | sed '$d')

# Some shells take a backslash in what echo is given for more than a backslash.
say() {
    printf '%s\n' "$1"
}

# The text after a pattern in the answer, which is one line, as people read it.
aside=$(printf '\001')
text_after() {
    say "$json" |
        sed -n -E 's/^'"$1"'"(([^"\\]|\\.)*)".*$/\1/p' |
        sed -e 's/\\\\/'"$aside"'/g' -e 's/\\[nrt]/ /g' -e 's/\\"/"/g' -e 's/'"$aside"'/\\/g'
}

if [ "$code" != 200 ]; then
    say "UNKNOWN $work: HTTP $code: $(text_after '.*"detail":')"
    exit 2
fi
case "$(text_after '\{"status":')" in
succeeded)
    say "OK $work: placed and running"
    ;;
failed)
    if [ "$(text_after '\{"status":"failed","filter":\{"status":')" = failed ]; then
        say "ALERT $work: $(text_after '\{"status":"failed","filter":\{"status":"failed","summary":')"
        exit 1
    fi
    if [ "$(text_after '.*"bind":\{"status":')" = failed ]; then
        say "ALERT $work: placed, but its start failed: $(text_after '.*"bind":\{"status":"failed","summary":')"
        exit 1
    fi
    say "STARTING $work: placed, and not seen running yet"
    exit 3
    ;;
*)
    say "UNKNOWN $work: $url did not answer with a scheduler log"
    exit 2
    ;;
esac
