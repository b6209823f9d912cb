#!/bin/bash
# Run as much of the study as fits into a limited time on a GPU:
#
#     scripts/gpu_campaign.sh MINUTES OUT [key=value ...]
#
# First checks of 50 updates in fp32 and bf16, then the benchmark (a third of the time at most), then the grids, the most
# decisive first; everything runs in fp32 if bf16 does not work. The same command with the same LN_REPRO_RUNS resumes,
# also the benchmark, row by row. Records, events, hypotheses and the benchmark are collected in OUT; what all runs have
# so far, except weights, is packed there every minute, and the last 100 seconds are left for that. Where a call ends
# before the campaign, start it with `setsid`, and copy OUT in a later call. If torch cannot use the machine's GPU, it
# ends at once; a machine without a GPU runs it on the CPU. Relative paths are relative to the checkout.
#
# Corpora that are not prepared are read from DATA/tatoeba, DATA/multi30k and DATA/iwslt14 if DATA is set; those that are
# not found are left out. PYTHON is the interpreter (default: .venv's), MODEL the model (default: the paper's, iwslt),
# STACK the number of runs that are trained as one (default: as many as fit on a GPU, none on a CPU), JOBS_PER_GPU the
# number of stacks side by side (default: 2; a single one of eight runs left two thirds of an H200 idle), CORPORA the
# corpora to use (default: "iwslt14 tatoeba multi30k"); SKIP=yes leaves out runs whose records are in results/records;
# key=value goes to every run, such as eval.epochs=[1,3,5,9,12,15],
# since decoding is slow beside other runs. To rehearse on a CPU:
#
#     STACK=4 ROUNDS=1 UPDATES=30 MODEL=toy DATA=... scripts/gpu_campaign.sh 10 rehearsal train.max_epoch=null \
#         train.max_update=20 eval.beam=1
set -uo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?MINUTES OUT [key=value ...]} out=${2:?MINUTES OUT [key=value ...]}
shift 2
end=$((SECONDS + 60 * minutes))
PYTHON=${PYTHON:-.venv/bin/python} MODEL=${MODEL:-iwslt}
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
mkdir -p "$out"
exec > >(tee -a "$out/campaign.log") 2>&1

run() {  # COMMAND ...: in the background, so that a signal to the campaign ends it, too
    "$@" &
    child=$!
    wait "$child"
}
trap 'kill "${child:-}" 2>/dev/null; wait "${child:-}"; exit 130' HUP INT TERM
pack() {  # what is in the runs folder now, except weights and states; a file that grows meanwhile is no error
    tar --exclude='*.pt*' -C "${LN_REPRO_RUNS:-runs}" -czf "$out/runs.part" . 2>/dev/null
    mv "$out/runs.part" "$out/runs.tgz"
}
while sleep 60; do pack; done > /dev/null 2>&1 &
packing=$!
trap 'kill "$packing"' EXIT
ln_repro() { run "$PYTHON" -m ln_repro.cli "$@"; }
left() { echo $((end - SECONDS)); }
find_source() {  # CORPUS: set `source` to the option that names its archive, if DATA has it
    source=()
    if [ -n "${DATA:-}" ] && [ -e "$DATA/$1" ]; then source=("data.source='$(realpath "$DATA/$1")'"); fi
}
keep() { ln_repro collect --replace --records "$out/records" || true; }
sweep() {  # GRID CORPUS SEEDS FOLDER [key=value ...]
    [ "$(left)" -ge 180 ] || return 0
    echo "== $1 on $2, seeds=$3, $(left) s left"
    find_source "$4"
    run timeout -s TERM "$(($(left) - 100))" "$PYTHON" -m ln_repro.cli sweep ${SKIP:+--skip-recorded} \
        grid="$1" corpus="$2" seeds="$3" jobs_per_gpu="${JOBS_PER_GPU:-2}" ${STACK:+stack="$STACK"} "${source[@]}" "${@:5}"
    keep
}

check() {  # PRECISION [key=value ...]: 50 updates, outside the runs folder of the study
    LN_REPRO_RUNS="$out/check" ln_repro run exp=toy_preln_nowarm "${@:2}" tracker=none train.max_epoch=null \
        train.max_update=50 precision="$1"
}

ln_repro doctor
check fp32 "$@" || exit
check bf16 "$@"
case $? in
    0) ;;
    130) exit 130 ;;
    *) echo "== bf16 does not work here; everything runs in fp32" && set -- precision=fp32 "$@" ;;
esac
here=""
for corpus in ${CORPORA:-iwslt14 tatoeba multi30k}; do
    find_source "$corpus"
    if ln_repro data prepare data="$corpus" "${source[@]}"; then here="$here $corpus"; fi
done
central=postln_warm,postln_nowarm,postln_warm_encoder,postln_warm_decoder,preln_warm,preln_nowarm_anchored
read -r first _ <<< "$here"
if [ -n "$first" ] && [ ! -e "$out/bench.json" ] && [ "$(left)" -ge 120 ]; then
    find_source "$first"
    run timeout $(($(left) / 3)) "$PYTHON" -m benchmarks \
        --rounds "${ROUNDS:-1}" --updates "${UPDATES:-120}" --json "$out/bench.part.json" \
        exp="${first%14}_preln_nowarm_anchored" model="$MODEL" "${source[@]}" "$@" &&
        mv "$out/bench.part.json" "$out/bench.json"
fi
for corpus in $here; do  # the central comparison at the paper's two rates for Adam; Multi30k has far fewer pairs
    [ "$corpus" != multi30k ] || continue
    sweep rates "${corpus%14}" 1 "$corpus" rates=5e-4,1e-3 arms="$central" model="$MODEL" tracker=none \
        probe=collapse probe_batches=3 every=1000 "$@"
done
for seeds in 1 3; do
    for corpus in $here; do
        name=${corpus%14} paper=(model="$MODEL")  # the settings of IWSLT14 and Tatoeba have the paper's rates; Multi30k's get them here
        [ "$corpus" != multi30k ] || paper+=(reference.lr=5e-4 reference.lr_high=1e-3 reference.lr_sgd=5e-3
            reference.lr_sgd_low=1e-3 reference.lr_fixed=1e-4)
        for grid in section4 section3_2 design; do
            sweep $grid "$name" $seeds "$corpus" tracker=none "${paper[@]}" "$@"
        done
    done
done
keep
tar -czf "$out/records.tgz" -C "$out" records archive 2>/dev/null
echo "== done; the records and the benchmark are in $out"
