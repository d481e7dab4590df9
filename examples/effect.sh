#!/bin/sh
# One entry of the demo's crontabs: writes that it started and that it ended to a file that the scheduler does not know.
# Each line is one write(2) in append mode, so that lines of runs at the same time do not mix.
set -eu

name=$1
log=$EFFECTS_DIR/shell-$name.log

write() {
    printf '%s\n' "$1 $name $MAINSPRING_RUN_ID $MAINSPRING_ATTEMPT $MAINSPRING_TOKEN ${MAINSPRING_FIRE_AT:--} ${MAINSPRING_FIRE_AT:--} $(date +%s.%N)" >>"$log"
}

write start
sleep "${EFFECT_SECONDS:-0.05}"
write end
