#!/usr/bin/env bash
# Configures a build directory, or configures it again with the same options;
# prints meson's output only when that fails.
#
# usage: configure.sh DIR [meson setup options]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$1
shift
stamp="$PWD $(meson --version) $*"
[ "$(cat "$dir/.configured" 2>/dev/null)" = "$stamp" ] && exit 0

log=$(mktemp)
trap 'rm -f "$log"' EXIT
wipe=()
[ ! -d "$dir/meson-private" ] || wipe=(--wipe)
if ! meson setup "${wipe[@]}" "$dir" "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
fi
awk '/^  User defined|^Found ninja/ { show = 0 } show && NF; /^doorbell [0-9]/ { show = 1 }' "$log"
echo "$stamp" >"$dir/.configured"
