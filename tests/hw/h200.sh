#!/usr/bin/env bash
# Everything that a machine with an NVIDIA card can tell, in one go: builds
# from source, records what CUDA sends the card and what we send it, runs the
# selftest, the conformance suite, random programs, a training, and the
# benchmark beside CUDA's own figures. Installs nothing, needs no network. A
# stage that fails is told and the next one runs.
#
# usage: tests/hw/h200.sh [STAGE...]      all of them without
#
# OUT       folder for what is left behind (default: build-hw/out): summary.txt,
#           results.tar.gz (logs, JSON), cassettes.tar.gz
# WORK      folder to build and run in (default: build-hw)
# DEVICE    default: NV:0. NV@sim:sm_90 tries the script without a card
# BUDGET    seconds for all stages together (default: 570)
# REPEAT, PROGRAMS, SECONDS_PER_ROW   how long selftest, fuzz and bench take
# CUDA_ARCH default: sm_90
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

SOURCE=$PWD
WORK=${WORK:-$SOURCE/build-hw}
OUT=${OUT:-$WORK/out}
DEVICE=${DEVICE:-NV:0}
BUDGET=${BUDGET:-570}
REPEAT=${REPEAT:-1000}
PROGRAMS=${PROGRAMS:-2000}
SECONDS_PER_ROW=${SECONDS_PER_ROW:-0.3}
CUDA_ARCH=${CUDA_ARCH:-sm_90}
JOBS=${JOBS:-$(nproc)}

mkdir -p "$OUT" "$WORK/results" "$WORK/cassettes" || exit 1
OUT=$(cd "$OUT" && pwd)
WORK=$(cd "$WORK" && pwd)
RESULTS=$WORK/results
CASSETTES=$WORK/cassettes
BUILD=$WORK/build
BELL=$BUILD/tools/doorbell
PATH=$PATH:/usr/local/cuda/bin
unset BELL_DEVICE BELL_DEBUG BELL_MATH BELL_NV_VM BELL_NV_DOORBELL
started=$SECONDS
n_passed=0
n_failed=0
n_skipped=0
summary=$WORK/summary.txt
[ "${1:-}" = --function ] || : >"$summary"

say() {
    echo "$*" | tee -a "$summary"
}

# What there is so far: the script may be cut off at any time.
pack() {
    cp "$summary" "$OUT/summary.txt"
    tar -C "$WORK" -czf "$OUT/results.tar.gz" results
    tar -C "$WORK" -czf "$OUT/cassettes.tar.gz" cassettes
}

left() {
    echo $((BUDGET - (SECONDS - started)))
}

# skip NAME REASON
skip() {
    n_skipped=$((n_skipped + 1))
    say "$(printf '%-16s skip           %s' "$1" "$2")"
}

# stage NAME SECONDS COMMAND...: its output goes to results/NAME.log. 0 if it
# passed.
stage() {
    local name=$1 limit=$2 begun=$SECONDS status verdict=ok
    shift 2
    [ "$limit" -le "$(left)" ] || limit=$(left)
    if [ "$limit" -lt 3 ]; then
        skip "$name" "no time left"
        return 1
    fi
    timeout -k 5 "$limit" "$@" >"$RESULTS/$name.log" 2>&1 </dev/null
    status=$?
    case $status in
    0) n_passed=$((n_passed + 1)) ;;
    77)
        skip "$name" "$(tail -n 1 "$RESULTS/$name.log")"
        return 1
        ;;
    *)
        n_failed=$((n_failed + 1))
        verdict="FAILED ($status)"
        [ "$status" -lt 124 ] || verdict="TIMEOUT"
        ;;
    esac
    say "$(printf '%-16s %-12s %4d s' "$name" "$verdict" $((SECONDS - begun)))"
    [ "$verdict" = ok ] || tail -n 12 "$RESULTS/$name.log" | sed 's/^/    /' |
        tee -a "$summary"
    pack
    [ "$verdict" = ok ]
}

# wants NAME: is this stage asked for?
chosen=("$@")
wants() {
    local name
    [ ${#chosen[@]} -gt 0 ] || return 0
    for name in "${chosen[@]}"; do
        [ "$name" != "$1" ] || return 0
    done
    return 1
}

is_simulated() {
    [[ $DEVICE == *@sim:* ]]
}

# The device with a form put in front of its interface: NV:0@record:FILE.
above() {
    case $DEVICE in
    *@*) echo "${DEVICE%%@*}@$1@${DEVICE#*@}" ;;
    *) echo "$DEVICE@$1" ;;
    esac
}

# CUDA needs a card, its driver and nvcc.
cuda_lacks() {
    if [ ! -e /dev/nvidiactl ]; then
        echo "no card"
    elif ! command -v nvcc >/dev/null; then
        echo "no nvcc"
    fi
}

# ---- stages ----------------------------------------------------------------

machine() {
    uname -a
    nproc
    head -n 1 /proc/meminfo
    ls -l /dev/nvidia* 2>&1
    cat /proc/driver/nvidia/version /proc/driver/nvidia/gpus/*/information 2>&1
    for tool in nvidia-smi nvcc ptxas gcc meson ninja python3; do
        printf '%s: ' "$tool"
        command -v "$tool" || echo "not found"
    done
    nvcc --version
    command -v nvidia-smi >/dev/null && nvidia-smi
    git -C "$SOURCE" log -1 --oneline
    true
}

# Where Python's packages put their programs: meson and ninja may be there.
python_programs() {
    python3 -c 'import site, sysconfig
print(sysconfig.get_path("scripts") + ":" + site.getuserbase() + "/bin")'
}

build() {
    local again=()
    [ ! -d "$BUILD/meson-private" ] || again=(--reconfigure)
    PATH=$PATH:$(python_programs)
    meson setup "${again[@]}" "$BUILD" "$SOURCE" --buildtype=release &&
        ninja -C "$BUILD" -j "$JOBS" tools/doorbell tests/cts/cts \
            tools/recorder/libdoorbell-recorder.so
}

build_cuda() {
    local name flags
    for name in cuda_small cuda_peer; do
        flags=()
        [ "$name" = cuda_small ] || flags=(-lcublas -lcublasLt)
        nvcc -O2 -std=c++17 \
            "-gencode=arch=compute_${CUDA_ARCH#sm_},code=$CUDA_ARCH" \
            -o "$WORK/$name" "$SOURCE/tests/hw/$name.cu" "${flags[@]}" ||
            nvcc -O2 -std=c++17 -DNO_CUBLAS \
                "-gencode=arch=compute_${CUDA_ARCH#sm_},code=$CUDA_ARCH" \
                -o "$WORK/$name" "$SOURCE/tests/hw/$name.cu" || return 1
    done
}

record_cuda() {
    cd "$CASSETTES" &&
        "$BELL" trace record -o cuda.cas -- "$WORK/cuda_small" &&
        "$BELL" trace show cuda.cas >"$RESULTS/cuda-cassette.txt" &&
        tail -n 3 "$RESULTS/cuda-cassette.txt"
}

# Ours: a few selftest steps and two steps of a training.
record_ours() {
    cd "$CASSETTES" &&
        "$BELL" selftest "$(above record:release.cas)" --only copy-release &&
        "$BELL" selftest "$(above record:store.cas)" --only store &&
        "$BELL" demo mnist --steps 2 --batch 32 \
            --device "$(above record:mnist.cas)" &&
        "$BELL" trace show store.cas >"$RESULTS/store-cassette.txt" &&
        tail -n 30 "$RESULTS/store-cassette.txt"
}

# The driver makes the same calls and sends the same words once more, with
# nothing behind it. (What a card would compute is not in a cassette, so this
# is a step that only waits for a semaphore.)
replay_ours() {
    cd "$CASSETTES" &&
        "$BELL" selftest "${DEVICE%%@*}@replay:release.cas" --only copy-release
}

selftest() {
    "$BELL" selftest "$DEVICE" --keep-going --save "$RESULTS/selftest.json"
}

selftest_rate() {
    "$BELL" selftest "$DEVICE" --keep-going --repeat "$REPEAT" --programs 1 \
        --save "$RESULTS/selftest-rate.json"
}

cts() {
    "$BUILD/tests/cts/cts" "$DEVICE"
}

fuzz() {
    "$BELL" fuzz "$DEVICE" --programs "$PROGRAMS" --seed 1 --json \
        >"$RESULTS/fuzz.json"
    local status=$?
    cat "$RESULTS/fuzz.json"
    return $status
}

mnist() {
    local more=()
    is_simulated && more=(--steps 3 --batch 32)
    "$BELL" demo mnist --device "$DEVICE" --json "${more[@]}" \
        >"$RESULTS/mnist.json"
    local status=$?
    cat "$RESULTS/mnist.json"
    return $status
}

# Two processes on the card, one killed in the middle: the other's results
# stay right. Both are ours by their numbers.
two_processes() {
    local victim status round
    for round in 1 2 3; do
        "$BELL" selftest "$DEVICE" --from store --repeat 200 --programs 1 \
            >/dev/null 2>&1 &
        victim=$!
        sleep 0.$((round * 3))
        "$BELL" selftest "$DEVICE" --only across-queues --repeat 50 &
        sleep 0.1
        kill -9 "$victim"
        wait "$victim"
        wait $!
        status=$?
        [ "$status" -eq 0 ] || return "$status"
    done
}

cuda_bench() {
    "$WORK/cuda_peer" "$SECONDS_PER_ROW" >"$RESULTS/bench-cuda.json"
}

bench() {
    local more=()
    [ ! -s "$RESULTS/bench-cuda.json" ] ||
        more=(--against "$RESULTS/bench-cuda.json")
    "$BELL" bench "$DEVICE" --seconds "$SECONDS_PER_ROW" \
        --save "$RESULTS/bench.json" "${more[@]}" | tee "$RESULTS/bench.txt"
    return "${PIPESTATUS[0]}"
}

# timeout runs programs, not functions: a stage is this script again.
if [ "${1:-}" = --function ]; then
    "$2"
    exit $?
fi
export OUT WORK DEVICE BUDGET REPEAT PROGRAMS SECONDS_PER_ROW CUDA_ARCH JOBS

# run NAME SECONDS FUNCTION
run() {
    wants "$1" || return 1
    stage "$1" "$2" "$SOURCE/tests/hw/h200.sh" --function "$3"
}

# A stage that needs CUDA.
run_cuda() {
    local lacks
    wants "$1" || return 1
    lacks=$(cuda_lacks)
    if [ -n "$lacks" ]; then
        skip "$1" "$lacks"
        return 1
    fi
    run "$@"
}

say "doorbell on $DEVICE, $(date -u +%Y-%m-%dT%H:%MZ)"
run machine 30 machine
if ! run build 240 build && [ ! -x "$BELL" ]; then
    say "nothing was built: the rest cannot run"
    pack
    exit 1
fi
run_cuda build-cuda 120 build_cuda
run selftest 150 selftest
run_cuda record-cuda 60 record_cuda
run record-ours 60 record_ours
run replay-ours 30 replay_ours
run cts 90 cts
run fuzz 120 fuzz
run mnist 60 mnist
wants llama && skip llama "this version has no llama demo"
run_cuda cuda-bench 60 cuda_bench
run bench 90 bench
run two-processes 60 two_processes
run selftest-rate 240 selftest_rate
say "$n_passed passed, $n_failed failed, $n_skipped skipped, $((SECONDS - started)) s"
pack
[ "$n_failed" -eq 0 ]
