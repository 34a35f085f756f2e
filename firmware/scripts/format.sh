#!/bin/sh
# Checks that the C is formatted as .clang-format says; `format.sh -i` formats it. Other versions than 14 format otherwise.
# Without clang-format 14: says so; with CI=true that is a failure.
set -eu
cd "$(dirname "$0")/../.."
CLANG_FORMAT=${CLANG_FORMAT:-clang-format-14}

if ! command -v "$CLANG_FORMAT" >/dev/null 2>&1; then
    echo 'clang-format-14 is not on this machine: the format of the C is not checked.' >&2
    [ "${CI:-}" != true ]
    exit
fi

# core_vectors.h is generated.
[ $# -gt 0 ] || set -- --dry-run --Werror
find firmware tests -name '*.[ch]' -not -name core_vectors.h -exec "$CLANG_FORMAT" "$@" {} +
