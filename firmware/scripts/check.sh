#!/bin/sh
# cppcheck over the firmware as it is built for every kind of deployment, and over the testbed.
# Without cppcheck: says so; with CI=true that is a failure.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
OUT=.pio/check

if ! command -v cppcheck >/dev/null 2>&1; then
    echo 'cppcheck is not on this machine: the check of the firmware is left out.' >&2
    [ "${CI:-}" != true ]
    exit
fi

# check NAME OPTION...: cppcheck with these options; what it knows of unchanged files is kept in a folder of that name.
check() {
    name=$1
    shift
    mkdir -p "$OUT/$name/known"
    if cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --max-configs=1 \
        --enable=warning,style,performance,portability --suppress=missingIncludeSystem \
        --cppcheck-build-dir="$OUT/$name/known" -j 2 "$@"; then
        echo "cppcheck: $name is clean"
    else
        echo "cppcheck: $name is NOT clean" >&2
        return 1
    fi
}

# Suppressed: what one layout leaves unused another uses, and a bit that is 0 may still have a name.
check_image() {
    name=$1
    shift
    check "$name" --platform=avr8 \
        --suppress=unusedStructMember --suppress=unreadVariable --suppress=badBitmaskCheck \
        -D__AVR__ -D__AVR_ATmega128__ -D__GNUC__=5 -DF_CPU=7372800UL -DCAUSEWAY_NODE_ID=1 \
        -I "$OUT/$name" -I firmware -I firmware/core -i firmware/core/examples "$@"
}

mkdir -p "$OUT"
"$PYTHON" firmware/scripts/check_layouts.py "$OUT" > "$OUT/kinds"
faulty=0
while read -r name board chip; do
    set -- firmware/core
    if [ -n "$board" ]; then
        set -- "$@" firmware/net firmware/apps firmware/boards/mica "firmware/boards/$board" "firmware/chips/$chip"
    fi
    if [ "$name" != sensors ]; then # the app needs the values of its deployment
        set -- "$@" -i firmware/apps/alarm
    fi
    check_image "$name" "$@" || faulty=1
done < "$OUT/kinds"
check testbed --platform=unix64 firmware/testbed || faulty=1
exit $faulty
