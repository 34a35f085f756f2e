#!/bin/sh
# The Debian packages that the project uses; with the argument `firmware`, those that building it takes. Looks for what
# each provides; as root, installs what is missing; otherwise says what is left out and goes on. With CI=true, whatever
# is still missing then is a failure.
#
# To add a tool: one `need` line in look().
set -u
PYTHON=${PYTHON:-python3}
for_what=${1:-all}

# need PACKAGES LEFT_OUT PROBE...: PROBE succeeds when PACKAGES are there; LEFT_OUT is what goes without them.
need() {
    packages=$1 left_out=$2
    shift 2
    "$@" >/dev/null 2>&1 && return
    missing="$missing $packages"
    report="$report
  $left_out (Debian: $packages)"
}

install() {
    apt-get install -qq -y --no-install-recommends "$@"
}

compiles_c() {
    echo '#include <stdint.h>' | gcc -fsyntax-only -x c -
}

compiles_avr() {
    echo '#include <avr/io.h>' | avr-gcc -mmcu=atmega128 -fsyntax-only -x c -
}

fuzzes_c() {
    [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a")" ]
}

look() {
    missing='' report=''
    need 'python3 python3-venv' 'everything: no Python environment can be made' "$PYTHON" -c 'import ensurepip, venv'
    need 'gcc libc6-dev' 'the tests that compile C: the generated header, the firmware' compiles_c
    need 'gcc-avr avr-libc binutils-avr' 'the firmware images' compiles_avr
    need 'avrdude' 'programming motes' command -v avrdude
    need 'simavr' 'the firmware tests on an emulated ATmega128' command -v simavr
    [ "$for_what" = firmware ] && return
    need 'libsimavr-dev libelf-dev pkg-config' 'motes in the emulator' pkg-config --exists simavr libelf
    need 'tshark' 'reading the testbed'"'"'s captures' command -v tshark
    need 'cppcheck' 'make firmware-check' command -v cppcheck
    need 'clang-format-14' 'the check of the C'"'"'s format' command -v clang-format-14
    need 'arduino-core-avr' 'the test of the Arduino sketch' test -d /usr/share/arduino/hardware/arduino/avr
    need 'openjdk-17-jre-headless' 'the jobs on Spark' command -v java
    need 'chromium' 'the tests of the live page in a browser' command -v chromium
    need 'mosquitto' 'the tests with an MQTT broker' test -x /usr/sbin/mosquitto
    need 'prometheus' 'the tests with Prometheus' command -v prometheus
    need 'clang libclang-rt-14-dev' 'fuzzing the parsers' fuzzes_c
}

look
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Debian packages:$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    # One by one if all at once fails: a package that this release does not have must not keep the others out.
    # shellcheck disable=SC2086  # a list of words
    {
        apt-get update -qq
        install $missing || for package in $missing; do install "$package"; done
    } >&2
    look
    [ -z "$missing" ] && exit 0
fi

echo "Not on this machine, and not installed (that takes root and apt-get); left out:$report" >&2
if [ "${CI:-}" = true ]; then
    echo 'CI: a missing tool is a failure.' >&2
    exit 1
fi
exit 0
