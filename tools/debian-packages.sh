#!/bin/sh
# The Debian packages that the project uses. Looks for what each provides; as root, installs what is missing;
# otherwise says what is left out and goes on. With CI=true, whatever is still missing then is a failure.
#
# To add a tool: one `need` line in look().
set -u
PYTHON=${PYTHON:-python3}

# need PACKAGES LEFT_OUT PROBE...: PROBE succeeds when PACKAGES are there; LEFT_OUT is what goes without them.
need() {
    packages=$1 left_out=$2
    shift 2
    "$@" >/dev/null 2>&1 && return
    missing="$missing $packages"
    report="$report
  $left_out (Debian: $packages)"
}

compiles_c() {
    echo '#include <stdint.h>' | gcc -fsyntax-only -x c -
}

look() {
    missing='' report=''
    need 'python3 python3-venv' 'everything: no Python environment can be made' "$PYTHON" -c 'import ensurepip, venv'
    need 'gcc libc6-dev' 'the tests that compile the generated C header' compiles_c
}

look
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Debian packages:$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # a list of words
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends $missing; } >&2
    look
    [ -z "$missing" ] && exit 0
fi

echo "Not on this machine, and not installed (that takes root and apt-get); left out:$report" >&2
if [ "${CI:-}" = true ]; then
    echo 'CI: a missing tool is a failure.' >&2
    exit 1
fi
exit 0
