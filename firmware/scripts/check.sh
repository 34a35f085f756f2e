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

# check BOARD CHIP: what is common, and this board's own.
check() {
    include=.pio/check/$1
    mkdir -p "$include"
    "$PYTHON" -m packet_formats header "examples/$1.toml" -o "$include/causeway_layout.h"
    set -- "$1" firmware/core firmware/net firmware/apps firmware/boards/mica "firmware/boards/$1" "firmware/chips/$2"
    board=$1
    shift
    for folder; do
        shift
        [ ! -d "$folder" ] || set -- "$@" "$folder"
    done
    [ $# -gt 0 ] || { echo 'nothing to check yet' >&2; return 0; }
    # Suppressed: what one layout leaves unused another uses, and a bit that is 0 may still have a name.
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --platform=avr8 --max-configs=1 \
        --enable=warning,style,performance,portability --suppress=missingIncludeSystem \
        --suppress=unusedStructMember --suppress=unreadVariable --suppress=badBitmaskCheck \
        --cppcheck-build-dir="$include" -j 2 \
        -D__AVR__ -D__AVR_ATmega128__ -D__GNUC__=5 -DF_CPU=7372800UL -DCAUSEWAY_NODE_ID=1 \
        -I "$include" -I firmware -I firmware/core -i firmware/core/examples "$@"
    echo "cppcheck: $board is clean"
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
    check "$board" "$chip"
done
check_testbed
