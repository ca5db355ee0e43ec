#!/usr/bin/env bash
# Builds and runs the benchmarks and prints a table. The JSON documents stay
# in BUILD_DIR/bench.
#
# usage: run.sh [BUILD_DIR] [--threads N] [--seconds S] [--filter TEXT]
#        (default: build, configured as ./quickstart does)
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=build
if [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; then
    dir=$1
    shift
fi
[ -f "$dir/build.ninja" ] || tools/configure.sh "$dir" --buildtype=release
targets=$(ninja -C "$dir" -t targets all 2>/dev/null |
    sed -n 's,^\(tests/bench/bench_[a-z]*\): .*,\1,p')
# shellcheck disable=SC2086
ninja --quiet -C "$dir" $targets >/dev/null
# Settings that cripple the peer would flatter us.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS OMP_NUM_THREADS
unset BELL_DEBUG BELL_DEVICE BELL_FAIL_ALLOC BELL_MATH
export BELL_CACHE=off
export BENCH_START="$dir/tests/bench/bench_start"
mkdir -p "$dir/bench"
files=()
for program in bench_ops bench_compiler bench_jit; do
    "$dir/tests/bench/$program" "$@" >"$dir/bench/$program.json"
    files+=("$dir/bench/$program.json")
done
python3 tests/bench/table.py "${files[@]}"
python3 tests/bench/peers.py "$dir" "$@" || [ $? -eq 77 ]
