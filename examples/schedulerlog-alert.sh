#!/bin/sh
# Converts the scheduler log of a client or pod into one line and an exit code, for cron or monitoring. Needs curl and sed.
#
#   schedulerlog-alert.sh URL NAMESPACE NAME
#   schedulerlog-alert.sh http://127.0.0.1:8642 default chat
#
# 0  placed and running
# 1  pending or impossible, or its start failed; the line has the reason
# 2  the log could not be read; the line has the reason
# 3  placed and still starting
#
# If PLIMSOLL_TOKEN is set, it is sent as a bearer token.
set -eu

if [ $# -ne 3 ]; then
    echo "usage: $0 URL NAMESPACE NAME" >&2
    exit 2
fi
work="$2/$3"
url="$1/api/v1/namespaces/$2/pods/$3/schedulerlog"

# Pass the token on standard input, so that it does not appear in the process list.
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

# Some shells interpret backslashes in the arguments of echo; printf does not.
say() {
    printf '%s\n' "$1"
}

# Prints the JSON string after a pattern in the response, which is one line, with its escapes decoded.
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
