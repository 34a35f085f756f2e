#!/bin/sh
# cppcheck over the firmware as each board builds it, and over the testbed. Without cppcheck: says so; with CI=true that is a failure.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}

if ! command -v cppcheck >/dev/null 2>&1; then
    echo 'cppcheck is not on this machine: the check of the firmware is left out.' >&2
    [ "${CI:-}" != true ]
    exit
fi

# check DEPLOYMENT FILE...: as they are built for examples/DEPLOYMENT.toml.
# Suppressed: what one layout leaves unused another uses, and a bit that is 0 may still have a name.
check() {
    deployment=$1
    include=.pio/check/$1
    mkdir -p "$include"
    "$PYTHON" -m packet_formats header "examples/$1.toml" -o "$include/causeway_layout.h"
    shift
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --platform=avr8 --max-configs=1 \
        --enable=warning,style,performance,portability --suppress=missingIncludeSystem \
        --suppress=unusedStructMember --suppress=unreadVariable --suppress=badBitmaskCheck \
        --cppcheck-build-dir="$include" -j 2 \
        -D__AVR__ -D__AVR_ATmega128__ -D__GNUC__=5 -DF_CPU=7372800UL -DCAUSEWAY_NODE_ID=1 \
        -I "$include" -I firmware -I firmware/core -i firmware/core/examples "$@"
    echo "cppcheck: $deployment is clean"
}

check_testbed() {
    mkdir -p .pio/check/testbed
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --platform=unix64 --max-configs=1 \
        --enable=warning,style,performance,portability --suppress=missingIncludeSystem \
        --cppcheck-build-dir=.pio/check/testbed -j 2 firmware/testbed
    echo 'cppcheck: the testbed is clean'
}

boards=$("$PYTHON" -c 'from packet_formats.boards import BOARDS
for board in BOARDS.values(): print(board.name, board.radio.driver)')
echo "$boards" | while read -r board chip; do
    check "$board" firmware/core firmware/net firmware/apps firmware/boards/mica "firmware/boards/$board" \
        "firmware/chips/$chip" -i firmware/apps/alarm
done
# What a deployment without sensors leaves out.
check alarm firmware/apps/alarm firmware/apps/mote firmware/net/mote firmware/boards/mica
check_testbed
