#!/usr/bin/env bash
# A whole worker with curl and jq: examples/worker.sh 127.0.0.1:8620 FOLDER (docs/howto/write-a-worker.md)
# Each program in FOLDER is a function: payload on stdin, JSON on stdout is the result, stderr the output.
set -u
server=$1 folder=$2 draining=''
state=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$state"' EXIT
trap 'draining=yes' TERM

call() { # VERB BODY [PATIENCE]: the same call again, later and later, until it is answered: `answer`, `sent` when
    local code pause=1 # tenths of a second
    while kill -0 $$ 2>/dev/null && sent=$(now); do
        answer=$(curl -s --noproxy '*' -m "${3:-40}" -H 'content-type: application/json' -w '\n%{http_code}' \
            ${MAINSPRING_TOKEN:+-H "authorization: Bearer $MAINSPRING_TOKEN"} \
            --data-binary @- "http://$server/api/v1/worker/$1" <<<"$2")
        code=${answer##*$'\n'} answer=${answer%$'\n'*}
        case $code in
            2??) return ;;
            4??) echo "$1: $answer" >&2 && return 1 ;; # it would be refused again
        esac
        sleep "$((pause / 10)).$((pause % 10))"
        pause=$((pause * 2 > 50 ? 50 : pause * 2))
    done
    return 1
}

now() { # hundredths of a second, by a clock that nobody sets
    local up
    read -r up _ </proc/uptime
    echo "${up/./}"
}

put() { # NAME TEXT: what the worker and its heartbeat tell each other; never read half written
    echo "$2" >"$dir/$1.new" && mv "$dir/$1.new" "$dir/$1"
}

end() { # ATTEMPT WORD: stop an attempt; the word says what is to be reported
    [ -d "$dir/$1" ] && put "$1/word" "$2" && kill "$(cat "$dir/$1/pid")" 2>/dev/null
}

beat() { # a process of its own, which no job holds up; it sees to it that none outlives the worker
    local answered held attempt word
    while sleep "$period" && kill -0 $$ 2>/dev/null; do
        answered=$(cat "$dir/answered") held=$(cat "$dir/held") # in this order
        call beat "{\"session_id\":\"$session\",\"answered\":$answered,\"held\":[$held]}" "$period" || break
        [ "$(jq .is_session_live <<<"$answer")" = true ] || break
        put heard "$sent"
        jq -r '(.cancel[] | "\(.run_id).\(.token) stopped"), (.lost[] | "\(.run_id).\(.token) lost")' \
            <<<"$answer" | while read -r attempt word; do end "$attempt" "$word"; done
    done
    touch "$dir/dead"
    for attempt in "$dir"/run_*; do end "${attempt##*/}" lost; done
    kill -0 $$ 2>/dev/null || rm -rf "$state"
}

report() { # OBJECT: how the attempt ended; the files of the attempt are at hand
    call report "$(jq -nc --arg session "$session" --argjson key "$key" --arg status "$status" \
        --rawfile result <(head -c 70000 "$attempt/stdout") --rawfile output <(tail -c 20000 "$attempt/stderr") \
        "{session_id: \$session, reports: [\$key + $1]}")"
}

carry_out() { # of `answer`, which holds one lease
    local run token is_cancelled limit most function attempt key status='' word='' began ended pid
    IFS=$'\t' read -r run token is_cancelled limit most function < <(jq -r '.definitions[0].definition as $definition
        | .leases[0] | [.run_id, .token, .is_cancel_requested, $definition.timeout_seconds,
            ($definition.timeout_seconds * 100 | floor), $definition.target.function] | @tsv' <<<"$answer")
    attempt=$dir/$run.$token key="{\"run_id\":\"$run\",\"token\":$token}" began=$(now)
    mkdir "$attempt" && touch "$attempt/stdout" "$attempt/stderr"
    jq '.leases[0].payload' <<<"$answer" >"$attempt/stdin"
    put held "$key"
    put answered "$number"
    if [ "$draining" ] || [ -e "$dir/dead" ] || [ $((began - $(cat "$dir/heard"))) -ge "$silence" ]; then
        report '{outcome: "handed_back", was_started: false}'
    elif [ "$is_cancelled" = true ]; then
        report '{outcome: "stopped"}'
    else
        # `timeout` passes a signal on to all processes of the job, and kills what is left of them 5 s later.
        timeout -k 5 "$limit" "$folder/$function" <"$attempt/stdin" >"$attempt/stdout" 2>"$attempt/stderr" &
        pid=$!
        put "$run.$token/pid" "$pid"
        [ -e "$attempt/word" ] && kill "$pid" # told before there was anything to stop
        while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done # SIGTERM ends a wait, not the job
        wait "$pid"
        status=$? ended=$(now)
        [ -e "$attempt/word" ] && word=$(cat "$attempt/word")
        if [ "$word" = stopped ]; then
            report '{outcome: "stopped", $output}'
        elif [ "$word" != lost ] && [ "$status" = 0 ]; then
            report '{outcome: "success", $output, result: ($result | if . == "" then null else fromjson end)}' ||
                report '{outcome: "failure", $output, error: "stdout is no JSON, or too long"}'
        elif [ "$word" != lost ] && ((ended - began >= most)); then
            report '{outcome: "failure", $output, error: "took too long", is_timeout: true}'
        elif [ "$word" != lost ]; then
            report '{outcome: "failure", $output, error: "exit status \($status)"}'
        fi
    fi
    put held ''
    rm -r "$attempt"
}

functions=$(find "$folder" -maxdepth 1 -type f -perm -u+x -printf '%f\n' | jq -Rnc '[inputs]')
until [ "$draining" ]; do
    call register "{\"protocol\":2,\"name\":\"shell\",\"functions\":$functions}" || exit 1
    # Never two substitutions in a line: bash 5.2 loses a signal that comes between them.
    session=$(jq -r .session_id <<<"$answer")
    period=$(jq .beat_period_seconds <<<"$answer")
    silence=$(jq -n "$period * 300 | floor") dir=$state/$session number=1
    mkdir "$dir" && put heard "$sent" && put answered 0 && put held ''
    beat &
    until [ "$draining" ] || [ -e "$dir/dead" ]; do
        claim="\"number\":$number,\"limit\":1,\"wait_seconds\":5,\"is_idle\":true"
        call claim "{\"session_id\":\"$session\",$claim}" || exit 1
        [ "$(jq .is_session_live <<<"$answer")" = true ] || touch "$dir/dead"
        [ "$(jq '.leases | length' <<<"$answer")" = 0 ] || carry_out
        put answered "$number"
        number=$((number + 1))
    done
    call leave "{\"session_id\":\"$session\"}" || exit 1
done
