#!/usr/bin/env bash
# Whether programs that were linked with the shared library of a commit run with
# this tree's.
#
# usage: tools/abi.sh COMMIT [abidiff options]
#
# Builds both, with debugging information, in build-check/abi. Exit code 0: they
# do; 1: the differences are printed; 2: it cannot be told.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -ge 1 ] || {
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
}
command -v abidiff >/dev/null || {
    echo "no abidiff: install abigail-tools" >&2
    exit 2
}
commit=$(git rev-parse --verify "$1^{commit}")
shift
mkdir -p build-check/abi

# library FOLDER BUILD: the shared library of the tree there
library() {
    [ -f "$2/build.ninja" ] ||
        meson setup "$2" "$1" --buildtype=debugoptimized -Dtests=disabled >/dev/null || exit 2
    target=$(ninja -C "$2" -t targets all |
        sed -n 's,^\(libdoorbell\.so\.[0-9.]*\):.*,\1,p') || exit 2
    ninja --quiet -C "$2" "$target" >&2 || exit 2
    find "$2" -maxdepth 1 -name 'libdoorbell.so.*.*' -not -name '*.symbols' -type f
}

tree=build-check/abi/tree-$commit
[ -d "$tree" ] || git worktree add --quiet --detach "$tree" "$commit"
trap 'git worktree remove --force "$tree"' EXIT
old=$(library "$tree" "build-check/abi/$commit")
new=$(library . build-check/abi/this)
code=0
abidiff --headers-dir1 "$tree/include" --headers-dir2 include --drop-private-types "$@" "$old" "$new" || code=$?
# abidiff: 1 error, 2 usage, 4 changed, 8 incompatible
[ $((code & 3)) -eq 0 ] || exit 2
[ $((code & 8)) -eq 0 ] || exit 1
exit 0
