#!/usr/bin/env bash
# All checks and times of lazyt on a GPU, without a package index. Each step has a limit of its own,
# and none stops another.
#
#     bash bench/gpu/on_device.sh [--rehearse] [--seconds N] first|check|time|STEP ...
#
# Runs in the root of a copy of the tree. Results: $OUT/summary.txt, results.json, logs.tar.gz.
# --rehearse: the emulator stands for the GPU, at small sizes.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
cd "$ROOT" || exit 2
SECONDS=0
TOTAL=430
REHEARSE=0
PLAN=()
while [ $# -gt 0 ]; do
    case $1 in
        --rehearse) REHEARSE=1 ;;
        --seconds) TOTAL=$2; shift ;;
        *) PLAN+=("$1") ;;
    esac
    shift
done
[ ${#PLAN[@]} -gt 0 ] || PLAN=(first)

PY=${GPU_PYTHON:-python3}
WORK=${GPU_WORK:-${TMPDIR:-/tmp}/lazyt-gpu}
: "${OUT:=$WORK/out}"
export OUT
export GPU_OUT=$WORK/results
rm -rf "$GPU_OUT"
mkdir -p "$GPU_OUT" "$OUT" "$WORK/cache"
export LAZYT_CACHE_DIR=$WORK/cache TORCHINDUCTOR_CACHE_DIR=$WORK/inductor TRITON_CACHE_DIR=$WORK/triton
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
# Processes that the tests start get the root as their only PYTHONPATH, so what the machine lacks
# goes there: this tree is a copy.
export PYTHONPATH=$ROOT
for package in "$ROOT"/.gpu/site/*; do
    [ -e "$package" ] || continue
    name=$(basename "$package")
    "$PY" -c "import ${name%%.*}" 2>/dev/null || cp -rn "$package" "$ROOT/"
done
if [ "$REHEARSE" = 1 ]; then
    export LAZYT_EMULATE_CUDA=1 GPU_SMALL=1
    SHARE=40
else
    unset LAZYT_EMULATE_CUDA
    SHARE=1
fi

say() { echo "$@" | tee -a "$OUT/summary.txt"; }
collect() { "$PY" "$HERE/collect.py" "$GPU_OUT" "$OUT" || echo "collect failed"; }

# step NAME LIMIT COMMAND...: one line says how it ended.
step() {
    local name=$1 limit=$2 rc=0 begun=$SECONDS line state
    shift 2
    local rest=$((TOTAL - SECONDS - 4))
    if [ "$rest" -lt 12 ]; then
        say "LEFT OUT $name: no time"
        return 0
    fi
    [ "$REHEARSE" = 0 ] || limit=$((limit * 8))
    [ "$limit" -le "$rest" ] || limit=$rest
    GPU_STEP_SECONDS=$limit timeout -k 5 "$((limit + 2))" "$@" >"$GPU_OUT/$name.log" 2>&1 </dev/null || rc=$?
    line=$(grep -a '^SUMMARY' "$GPU_OUT/$name.log" | tail -1 | cut -c1-400)
    [ -n "$line" ] || line=$(grep -av '^[[:space:]]*$' "$GPU_OUT/$name.log" | tail -1 | cut -c1-300)
    state=PASS
    [[ $line != *" left out"* ]] || state=PART
    [ "$rc" = 0 ] || state="FAIL($rc)"
    [ "$rc" != 124 ] && [ "$rc" != 137 ] || state=TIME
    say "$state $name $((SECONDS - begun))s: ${line#SUMMARY }"
}

module() { # NAME LIMIT MODULE ARGUMENTS...
    local name=$1 limit=$2 module=$3
    shift 3
    step "$name" "$limit" "$PY" -m "bench.gpu.steps.$module" "$@"
}

tests() { # NAME LIMIT WORKERS ARGUMENTS...
    local name=$1 limit=$2 workers=$3
    shift 3
    step "$name" "$limit" "$PY" -m pytest -q -p xdist.plugin -p no:cacheprovider -n "$workers" \
        --dist worksteal -rfE --tb=short "$@" tests/cuda
}

METRICS=gpu__time_duration.sum,dram__bytes.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,\
sm__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active,\
smsp__inst_executed.sum,l1tex__data_bank_conflicts_pipe_lsu.sum,lts__t_sectors.sum
COUNTED=softmax_4096,layer_norm_16384,matmul_4096_fp32,matmul_4096_bf16

one() { # the step of a name
    case $1 in
        probe)
            module probe 50 probe
            collect
            [ ! -f "$GPU_OUT/ceilings.sh" ] || . "$GPU_OUT/ceilings.sh" ;;
        smoke) module smoke 75 smoke ;;
        nccl) module nccl 60 nccl ;;
        doctor) module doctor 30 doctor ;;
        tests) tests tests 150 4 -m gpu ;;
        tests_all) tests tests_all 300 12 ;;
        corpus) module corpus 110 corpus --share "$SHARE" ;;
        numerics) module numerics 110 numerics ;;
        stress) module stress 110 stress ;;
        limits) module limits 100 limits ;;
        tensor_cores) module tensor_cores 60 tensor_cores ;;
        gpt2) module gpt2.lazyt 100 gpt2 --profile ;;
        gpt2_16) module gpt2.lazyt.16 100 gpt2 --batch 16 ;;
        gpt2_torch) module gpt2.compile 130 gpt2 --framework compile ;;
        times) module times.lazyt 140 times ;;
        times_torch) module times.torch 50 times --framework torch ;;
        times_compile) module times.compile 110 times --framework compile ;;
        measure) step measure 200 "$PY" bench/gpu/measure.py --quick --folder "$GPU_OUT/measure" ;;
        sanitizer)
            if command -v compute-sanitizer >/dev/null; then
                for tool in memcheck racecheck; do
                    step "sanitizer.$tool" 60 compute-sanitizer --tool "$tool" --target-processes all \
                        --error-exitcode 9 "$PY" -m bench.gpu.steps.smoke
                done
            else
                say "LEFT OUT sanitizer: no compute-sanitizer"
            fi ;;
        ncu)
            if command -v ncu >/dev/null; then
                step ncu 80 ncu --clock-control none --csv --log-file "$GPU_OUT/ncu.csv" --launch-skip 20 \
                    --launch-count 24 -k "regex:lz_" --metrics "$METRICS" \
                    "$PY" -m bench.gpu.steps.times --only "$COUNTED"
            else
                say "LEFT OUT ncu: no ncu"
            fi ;;
        beside) # nothing of it is timed, so it goes side by side
            for name in tests corpus stress limits numerics; do one "$name" & done
            wait ;;
        *) say "FAIL(2) $1: there is no such step" ;;
    esac
}

STEPS=()
for word in "${PLAN[@]}"; do
    case $word in
        first) STEPS+=(probe doctor smoke nccl beside tensor_cores gpt2 times times_torch gpt2_torch sanitizer ncu) ;;
        check) STEPS+=(probe doctor smoke nccl beside tensor_cores) ;;
        time) STEPS+=(probe tensor_cores gpt2 times times_torch gpt2_torch times_compile gpt2_16 ncu) ;;
        *) STEPS+=("$word") ;;
    esac
done
say "begin $(date -u +%H:%M:%S): ${STEPS[*]}, $TOTAL s, rehearsal $REHEARSE"
for name in "${STEPS[@]}"; do
    one "$name"
    collect
done
say "end after ${SECONDS}s"
collect
grep -q '^PASS' "$OUT/summary.txt" && ! grep -qE '^(FAIL|TIME)' "$OUT/summary.txt"
