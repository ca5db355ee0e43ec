#!/usr/bin/env bash
# Everything that a machine with a card can tell: builds from source, records
# what the vendor's own runtime sends the card and what we send it, runs the
# selftest, the conformance suite, random programs, a training and the
# benchmark. NVIDIA, AMD and Adreno. Installs nothing, needs no network and no root,
# changes no setting of the card and never resets it (AMD's last stage may make
# the kernel driver do that). A stage that fails or
# hangs is told, the card is probed, and the next one runs.
#
# usage: tests/hw/card.sh [first | kernels | speed | STAGE...]
#        tests/hw/card.sh --list       the stages and their limits in seconds
#
# first, the default: the vendor's runtime, the ways to the card's memory and
# doorbell, the selftest. docs/how-to/first-run.md says how to read
# what comes out.
#
# OUT       folder for what is left behind (default: build-hw/out):
#           card-LIST.tar.gz has all of it; a cassette that would make it larger
#           than MAX_MB lies beside it
# WORK      folder to build and run in (default: build-hw); kept, so that the
#           second list need not build again
# DEVICE    default: NV:0 where there is /dev/nvidiactl, AMD:0 where there is
#           /dev/kfd, else QCOM:0. NV@sim:sm_90, AMD@sim:gfx942 and QCOM@sim:a740
#           try the script without a card
# BUDGET    seconds for all stages together (default: 570)
# STAGE_SECONDS  what every stage gets instead of its own limit
# MODE_RUNS, REPEAT, PROGRAMS, SECONDS_PER_ROW   how long the stages take
# CARD_ARCH what the vendor's compiler is told: sm_90, gfx942; default: it is
#           asked of the vendor's driver
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

# List, backend, name, seconds. Those of one list and backend are 570 at most.
STAGES='
first   any machine       15
first   any build         180
first   any doctor        10
first   any vendor        65
first   NV  mode-rm-bar1  35
first   NV  mode-rm-bar0  35
first   NV  mode-uvm-bar1 35
first   NV  mode-uvm-bar0 35
first   AMD mode-default  60
first   QCOM mode-default 60
first   any selftest      90
first   any record        30
first   any replay        15
first   any two-processes 25
first   AMD bound-words   20
first   AMD waits         40
kernels any machine       15
kernels any build         180
kernels any cts           130
kernels any fuzz          150
kernels any mnist         90
speed   any machine       15
speed   any build         180
speed   any vendor-bench  90
speed   any bench         165
speed   any selftest-rate 120
'

if [ -z "${DEVICE:-}" ]; then
    DEVICE=QCOM:0
    [ ! -e /dev/kfd ] || DEVICE=AMD:0
    [ ! -e /dev/nvidiactl ] || DEVICE=NV:0
fi
BACKEND=${DEVICE%%[:@]*}

# The stages of this backend: all columns, each stage of a list once.
stages() {
    awk -v backend="$BACKEND" 'NF && ($2 == "any" || $2 == backend)' \
        <<<"$STAGES"
}

SOURCE=$PWD
SCRIPT=$SOURCE/tests/hw/card.sh
WORK=${WORK:-$SOURCE/build-hw}
OUT=${OUT:-$WORK/out}
BUDGET=${BUDGET:-570}
STAGE_SECONDS=${STAGE_SECONDS:-}
MODE_RUNS=${MODE_RUNS:-1000}
REPEAT=${REPEAT:-1000}
PROGRAMS=${PROGRAMS:-2000}
SECONDS_PER_ROW=${SECONDS_PER_ROW:-0.15}
MAX_MB=${MAX_MB:-15}
JOBS=${JOBS:-$(nproc)}

if [ "${1:-}" = --list ]; then
    stages
    exit
fi
mkdir -p "$OUT" "$WORK/results" "$WORK/cassettes" || exit 1
OUT=$(cd "$OUT" && pwd)
WORK=$(cd "$WORK" && pwd)
RESULTS=$WORK/results
CASSETTES=$WORK/cassettes
BUILD=$WORK/build
BELL=$BUILD/tools/doorbell
PATH=$PATH:/usr/local/cuda/bin:/opt/rocm/bin
unset BELL_DEVICE BELL_DEBUG BELL_MATH BELL_NV_VM BELL_NV_DOORBELL
unset BELL_AMD_BOUND BELL_AMD_WAIT

# Steps of the selftest: one that runs a kernel, one that runs several.
KERNEL_STEP=store KERNELS_STEP=across-queues
[ "$BACKEND" != QCOM ] || KERNEL_STEP=tensors KERNELS_STEP=tensors

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

# ---- what the kernel and the vendor say ------------------------------------

# The kernel's log as far as it tells of cards; nothing where it is not ours to
# read.
kernel_log() {
    { timeout 5 dmesg || timeout 5 journalctl -q -k -b --no-pager; } \
        2>/dev/null |
        grep -E 'NVRM|nvidia|amdgpu|kfd|kgsl|adreno|\[drm|AMD-Vi|DMAR|IOMMU|SMMU|doorbell'
}

# kernel_lines FILE: what is in the log that was not there the last time, to
# FILE; none, no file.
kernel_lines() {
    kernel_log >"$WORK/kernel.now"
    # Not NR == FNR: the first of the two may be empty.
    awk -v before="$WORK/kernel.before" '
        FILENAME == before { seen[$0] = 1; next } !($0 in seen)' \
        "$WORK/kernel.before" "$WORK/kernel.now" >"$1"
    mv "$WORK/kernel.now" "$WORK/kernel.before"
    [ -s "$1" ] || rm -f "$1"
}

# KFD's nodes that are cards: node, gfx_target_version as the kernel has it.
kfd_cards() {
    awk '$1 == "gfx_target_version" && $2 { print FILENAME, $2 }' \
        /sys/devices/virtual/kfd/kfd/topology/nodes/*/properties 2>/dev/null
}

# What the vendor's compiler is told: sm_90, gfx942.
card_arch() {
    local found
    if [ -n "${CARD_ARCH:-}" ]; then
        echo "$CARD_ARCH"
    elif [ "$BACKEND" = NV ]; then
        found=$(timeout 20 nvidia-smi --query-gpu=compute_cap \
            --format=csv,noheader 2>/dev/null | head -n 1 | tr -dc 0-9)
        echo "${found:+sm_}${found:-native}"
    else
        # 90402 is gfx942: the last two pairs of digits are hexadecimal ones.
        found=$(kfd_cards | awk 'NR == 1 { printf "gfx%d%x%x", $2 / 10000,
            $2 / 100 % 100, $2 % 100 }')
        echo "${found:-native}"
    fi
}

# Who has a card open, as far as we may see.
card_users() {
    find /proc/[0-9]*/fd \( -lname '/dev/nvidia*' -o -lname /dev/kfd \
        -o -lname '/dev/dri/render*' -o -lname '/dev/kgsl*' \) 2>/dev/null |
        cut -d/ -f3 | sort | uniq -c | while read -r n pid; do
        echo "process $pid ($(cat "/proc/$pid/comm" 2>/dev/null)): $n nodes"
    done
}

vendor_state() {
    if [ "$BACKEND" = NV ]; then
        timeout 20 nvidia-smi 2>&1
        timeout 20 nvidia-smi -q -d PERFORMANCE,ECC,PAGE_RETIREMENT 2>&1
    elif [ "$BACKEND" = QCOM ]; then
        head -v /sys/class/kgsl/kgsl-3d0/{gpu_model,gpuclk,max_gpuclk,temp} \
            /sys/class/devfreq/*gpu*/{cur_freq,max_freq} 2>/dev/null
    else
        timeout 20 rocm-smi 2>&1
        kfd_cards
        ls /sys/class/kfd/kfd/proc 2>&1
        head -v /sys/class/drm/card*/device/{mem_info_vram_used,gpu_busy_percent} \
            /sys/class/drm/card*/device/{ras/*_err_count,pp_dpm_sclk} 2>/dev/null
    fi
    card_users
}

# ---- stages: a function each, run below this script --function -------------

# 77: skipped, for the reason in the last line. A last line that starts with
# "result: " is told in the summary.

machine() {
    uname -srvm
    nproc
    head -n 1 /proc/meminfo
    grep -m 1 'model name' /proc/cpuinfo
    id
    ulimit -l
    cat /proc/sys/kernel/dmesg_restrict /proc/cmdline
    ls -l /dev/nvidia* /dev/kfd /dev/kgsl* /dev/dri 2>&1
    cat /proc/driver/nvidia/version /proc/driver/nvidia/gpus/*/information
    cat /sys/module/{nvidia,amdgpu}/version
    head -v /sys/devices/virtual/kfd/kfd/topology/nodes/*/{name,properties}
    for tool in nvidia-smi nvcc ptxas rocm-smi rocminfo hipcc gcc meson ninja \
        python3 llvm-config-19; do
        printf '%s: ' "$tool"
        command -v "$tool" || echo "not found"
    done
    nvcc --version
    git -C "$SOURCE" log -1 --oneline
    vendor_state
    echo "result: $(vendor_name)"
} 2>&1

vendor_name() {
    if is_simulated; then
        echo "a simulated card"
    elif [ "$BACKEND" = NV ]; then
        timeout 20 nvidia-smi --query-gpu=name,driver_version \
            --format=csv,noheader 2>/dev/null | head -n 1 ||
            head -n 1 /proc/driver/nvidia/version
    elif [ "$BACKEND" = QCOM ]; then
        echo "$(tr -d '\0' </sys/firmware/devicetree/base/model 2>/dev/null ||
            echo Adreno), Linux $(uname -r)"
    else
        echo "$(card_arch), Linux $(uname -r)"
    fi
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

doctor() {
    "$BELL" doctor
    "$BELL" devices "$DEVICE" &&
        echo "result: $("$BELL" devices "$DEVICE" | xargs)"
}

# The program to record: vendor_small by the vendor's compiler, else PyTorch.
# Its words are left in $program.
vendor_program() {
    local arch
    arch=$(card_arch)
    program=("$WORK/vendor_small")
    if [ "$BACKEND" = NV ] && command -v nvcc; then
        nvcc -O2 -std=c++17 -arch="$arch" -o "${program[0]}" \
            "$SOURCE/tests/hw/vendor_small.cu" && return 0
    elif [ "$BACKEND" = AMD ] && command -v hipcc; then
        hipcc -x hip -O2 --offload-arch="$arch" -o "${program[0]}" \
            "$SOURCE/tests/hw/vendor_small.cu" && return 0
    fi
    program=(python3 -c 'import torch
x = torch.arange(1024., device="cuda")
print((x * 2 + 1).sum().item(), "should be 1048576")')
    python3 -c 'import torch
raise SystemExit(not torch.cuda.is_available())' && return 0
    program=(rocminfo)
    [ "$BACKEND" = AMD ] && command -v rocminfo
}

vendor() {
    local program status n
    if is_simulated; then
        echo "a simulated card: no vendor's runtime"
        return 77
    elif ! vendor_program; then
        echo "no compiler of the vendor's and no PyTorch"
        return 77
    fi
    cd "$CASSETTES" || return 1
    "$BELL" trace record -o vendor.cas -- "${program[@]}"
    status=$?
    "$BELL" trace show vendor.cas >"$RESULTS/vendor-cassette.txt" || return 1
    n=$(wc -l <"$RESULTS/vendor-cassette.txt")
    echo "result: $(basename "${program[0]}") recorded: $n lines"
    return $status
}

# Open, load, launch, read, close, again and again: a loss in a thousand shows
# here and nowhere else. In batches of a process each, larger ones while they
# are quick, so that a slow card's count is told as well.
mode() {
    local n_done=0 n_wrong=0 batch=1 begun=$SECONDS start status
    local json=$RESULTS/$STAGE.json log=$RESULTS/$STAGE.batch
    while :; do
        start=$SECONDS
        "$BELL" selftest "$DEVICE" --only "$KERNEL_STEP" --repeat "$batch" \
            --save "$json" >"$log"
        status=$?
        if grep -q ' 1 skipped$' "$log"; then
            sed -n 's/.* skip  *[0-9.]* ms  //p' "$log"
            return 77
        fi
        [ "$status" -eq 0 ] || cat "$log"
        [ "$status" -le 1 ] || return "$status"
        n_done=$((n_done + $(count_of n_runs "$json")))
        n_wrong=$((n_wrong + $(count_of n_failed "$json")))
        echo "result: $((n_done - n_wrong)) of $n_done right, $((SECONDS - begun)) s"
        if [ "$n_done" -ge "$MODE_RUNS" ] || [ "$n_wrong" -ge 20 ] ||
            [ $((SECONDS - begun)) -ge $((LIMIT - 10)) ]; then
            break
        fi
        [ $((SECONDS - start)) -gt 1 ] || batch=$((batch < 40 ? batch * 2 : 50))
        [ "$batch" -le $((MODE_RUNS - n_done)) ] || batch=$((MODE_RUNS - n_done))
    done
    rm -f "$log"
    [ "$n_wrong" -eq 0 ]
}

# count_of NAME FILE: of a selftest's only step.
count_of() {
    sed -n "s/^ \{6,\}\"$1\": \([0-9]*\),*/\1/p" "$2" | head -n 1
}

# Few random programs: the list "kernels" has more of them.
selftest() {
    "$BELL" selftest "$DEVICE" --keep-going --programs 50 \
        --save "$RESULTS/selftest.json"
    local status=$?
    echo "result: $(sed -n 's/^  "n_\([a-z]*\)": \([0-9]*\).*/\2 \1/p' \
        "$RESULTS/selftest.json" | xargs)"
    return $status
}

selftest_rate() {
    "$BELL" selftest "$DEVICE" --keep-going --repeat "$REPEAT" --programs 1 \
        --save "$RESULTS/selftest-rate.json"
}

# Ours: a few selftest steps and two steps of a training. Each is tried,
# whatever becomes of the others.
record() {
    local status=0
    cd "$CASSETTES" || return 1
    "$BELL" selftest "$(above record:release.cas)" --only copy-release ||
        status=1
    "$BELL" selftest "$(above record:store.cas)" --only "$KERNEL_STEP" || status=1
    "$BELL" demo mnist --steps 2 --batch 32 \
        --device "$(above record:mnist.cas)" || status=1
    "$BELL" trace show store.cas >"$RESULTS/store-cassette.txt" || status=1
    tail -n 30 "$RESULTS/store-cassette.txt"
    return $status
}

# The driver makes the same calls and sends the same words once more, with
# nothing behind it. (What a card would compute is not in a cassette, so this
# is a step that only waits for a semaphore.)
replay() {
    cd "$CASSETTES" || return 1
    if [ ! -s release.cas ]; then
        echo "nothing was recorded"
        return 77
    fi
    "$BELL" selftest "${DEVICE%%@*}@replay:release.cas" --only copy-release
}

# Two processes on the card, one killed in the middle: the other's results
# stay right. Both are ours by their numbers.
two_processes() {
    local victim status round
    for round in 1 2 3; do
        "$BELL" selftest "$DEVICE" --from "$KERNEL_STEP" --repeat 200 --programs 1 \
            >/dev/null 2>&1 &
        victim=$!
        sleep 0.$((round * 3))
        "$BELL" selftest "$DEVICE" --only "$KERNELS_STEP" --repeat 20 &
        sleep 0.1
        kill -9 "$victim"
        wait "$victim"
        wait $!
        status=$?
        [ "$status" -eq 0 ] || return "$status"
    done
}

# Bound streams as words of AQL queues, which no card has run: whether they may
# be the default.
bound_words() {
    BELL_AMD_BOUND=pm4 "$BELL" selftest "$DEVICE" --only bound-launches
}

# Whether a queue that waits can be preempted, by either kind of wait. Where it
# cannot, the kernel driver resets the card after 9 s: the last of all stages.
waits() {
    local kind status=0
    for kind in preemptable plain; do
        if BELL_AMD_WAIT=$kind timeout 18 "$BELL" selftest "$DEVICE" \
            --only waits-yield; then
            echo "result: $kind waits are preempted"
        else
            echo "result: $kind waits are not"
            status=1
        fi
    done
    return $status
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
    ! is_simulated || more=(--steps 3 --batch 32)
    "$BELL" demo mnist --device "$DEVICE" --json "${more[@]}" \
        >"$RESULTS/mnist.json"
    local status=$?
    cat "$RESULTS/mnist.json"
    return $status
}

# The same rows by CUDA, without cuBLAS where that is missing.
vendor_bench() {
    local program=$WORK/cuda_peer source=$SOURCE/tests/hw/cuda_peer.cu
    local options=(-O2 -std=c++17 "-arch=$(card_arch)" -o "$program")
    if is_simulated || [ "$BACKEND" != NV ] || ! command -v nvcc; then
        echo "no NVIDIA card, or no nvcc"
        return 77
    fi
    nvcc "${options[@]}" "$source" -lcublas -lcublasLt ||
        nvcc "${options[@]}" -DNO_CUBLAS "$source" || return 1
    "$program" "$SECONDS_PER_ROW" >"$RESULTS/bench-vendor.json"
}

bench() {
    local more=()
    # A saved run is read with cJSON.
    { [ -s "$RESULTS/bench-vendor.json" ] && pkg-config --exists libcjson; } &&
        more=(--against "$RESULTS/bench-vendor.json")
    "$BELL" bench "$DEVICE" --seconds "$SECONDS_PER_ROW" \
        --save "$RESULTS/bench.json" "${more[@]}" | tee "$RESULTS/bench.txt"
    return "${PIPESTATUS[0]}"
}

# After a failure: is the card still there, and who says what of it?
probe() {
    local step verdict told=
    for step in copy-release "$KERNEL_STEP"; do
        verdict=ok
        timeout -k 2 10 "$BELL" selftest "$DEVICE" --only "$step" ||
            verdict=FAILED
        told="$told, $step $verdict"
    done
    vendor_state
    echo "result: ${told#, }"
}

if [ "${1:-}" = --function ]; then
    case $STAGE in
    mode-rm-* | mode-uvm-*)
        BELL_NV_VM=$(cut -d- -f2 <<<"$STAGE")
        BELL_NV_DOORBELL=$(cut -d- -f3 <<<"$STAGE")
        export BELL_NV_VM BELL_NV_DOORBELL
        ;;
    esac
    case $STAGE in
    mode-*) mode ;;
    *) "${STAGE//-/_}" ;;
    esac
    exit
fi
export OUT WORK DEVICE MODE_RUNS REPEAT PROGRAMS SECONDS_PER_ROW JOBS

# ---- running them ----------------------------------------------------------

started=$SECONDS
n_passed=0
n_failed=0
n_skipped=0
n_kernel_lines=0
group=
trap 'end_group; exit 130' INT TERM HUP

say() {
    echo "$*" | tee -a "$RESULTS/summary.txt"
}

left() {
    echo $((BUDGET - (SECONDS - started)))
}

# What there is so far: the script may be cut off at any time. Small cassettes
# go first, as many as fit.
pack() {
    local file bytes room=$((MAX_MB * 1000000)) fitting=()
    while read -r bytes file; do
        room=$((room - bytes))
        if [ "$room" -gt 0 ]; then
            fitting+=("cassettes/$file")
        else
            cp -u "$CASSETTES/$file" "$OUT/card-$title-$file"
        fi
    done < <(cd "$CASSETTES" && stat -c '%s %n' -- *.cas 2>/dev/null | sort -n)
    tar -C "$WORK" -czf "$WORK/card.tar.gz" results "${fitting[@]}" &&
        mv "$WORK/card.tar.gz" "$OUT/card-$title.tar.gz"
}

# function NAME SECONDS FILE: runs a stage for so long at most, its output to
# FILE. timeout runs programs, not functions: a stage is this script again.
# What it started and did not end is killed: timeout looks at its own child
# alone, and is the leader of their process group. What the kernel does not let
# die is left behind.
function_() {
    local status
    STAGE=$1 LIMIT=$2 timeout -k 5 "$2" "$SCRIPT" --function \
        >"$3" 2>&1 </dev/null &
    group=$!
    wait "$group"
    status=$?
    end_group
    return "$status"
}

end_group() {
    [ -z "$group" ] || kill -KILL -- "-$group" 2>/dev/null
    group=
}

result_of() {
    sed -n 's/^result: //p' "$1" | tail -n 1
}

# run NAME SECONDS
run() {
    local name=$1 limit=${STAGE_SECONDS:-$2} begun=$SECONDS status verdict=ok told=
    local log=$RESULTS/$name.log
    [ "$limit" -le "$(left)" ] || limit=$(left)
    status=77
    if [ "$limit" -lt 2 ]; then
        echo "no time left" >"$log"
    elif [ "$name" != machine ] && [ "$name" != build ] && [ ! -x "$BELL" ]; then
        echo "nothing was built" >"$log"
    else
        function_ "$name" "$limit" "$log"
        status=$?
    fi
    case $status in
    0) n_passed=$((n_passed + 1)) ;;
    77)
        n_skipped=$((n_skipped + 1))
        verdict=skip
        told=$(tail -n 1 "$log")
        ;;
    124) verdict=TIMEOUT ;;
    *)
        verdict="FAILED ($status)"
        [ $((SECONDS - begun)) -lt "$limit" ] || verdict=TIMEOUT
        ;;
    esac
    say "$(printf '%-14s %-12s %4d s  %s' "$name" "$verdict" \
        $((SECONDS - begun)) "${told:-$(result_of "$log")}")"
    kernel_lines "$RESULTS/$name.kernel.txt"
    case $verdict in
    TIMEOUT | FAILED*)
        n_failed=$((n_failed + 1))
        tail -n 12 "$log" | sed 's/^/    /' | tee -a "$RESULTS/summary.txt"
        if [ "$name" != build ] && [ -x "$BELL" ] && [ "$(left)" -gt 5 ]; then
            function_ probe 30 "$RESULTS/$name.probe.txt"
            say "    probe: $(result_of "$RESULTS/$name.probe.txt")"
        fi
        ;;
    esac
    if [ -s "$RESULTS/$name.kernel.txt" ]; then
        n_kernel_lines=$((n_kernel_lines + 1))
        sed 's/^/    kernel: /' "$RESULTS/$name.kernel.txt" | head -n 4 |
            cut -c1-160 | tee -a "$RESULTS/summary.txt"
    fi
    pack
}

# What was asked for: a list, or stages by name, in this order. A function, so
# that the script is read before it runs: it may be updated meanwhile.
main() {
    local word name limit
    [ $# -gt 0 ] || set -- first
    title=$1
    [ $# -eq 1 ] || title=chosen
    for name in "$@"; do
        if ! stages | awk -v n="$name" '$1 == n || $3 == n { f = 1 } END { exit !f }'
        then
            echo "$SCRIPT: no list and no stage of $BACKEND: $name" >&2
            exit 2
        fi
    done

    rm -rf "$RESULTS" "$CASSETTES" "$OUT/card-$title"[.-]*
    mkdir -p "$RESULTS" "$CASSETTES"
    say "doorbell on $DEVICE, $title, $(date -u +%Y-%m-%dT%H:%MZ)"
    kernel_log >"$WORK/kernel.before"
    [ -s "$WORK/kernel.before" ] ||
        say "the kernel's log is not ours to read, or says nothing of cards"
    cp "$WORK/kernel.before" "$RESULTS/kernel-before.txt"
    while read -r name limit; do
        run "$name" "$limit"
    done < <(for word in "$@"; do
        stages | awk -v w="$word" '$1 == w || ($3 == w && !n++) { print $3, $4 }'
    done)
    say "$n_passed passed, $n_failed failed, $n_skipped skipped, $((SECONDS - started)) s"
    [ "$n_kernel_lines" -eq 0 ] ||
        say "the kernel wrote to its log in $n_kernel_lines stages"
    say "send: $OUT/card-$title.tar.gz$(cd "$OUT" && printf ' %s' "card-$title"-*.cas | grep -v '[*]')"
    pack
    [ "$n_failed" -eq 0 ]
}
main "$@"
