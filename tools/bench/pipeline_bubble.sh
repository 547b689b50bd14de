#!/usr/bin/env bash
# Measures the idle time of every pipeline schedule. Two stages train on one core each. With more stages, timed sleeps
# replace computation (tools/bench/pipeline_bubble.cpp), because real stages that share a core would use each other's
# idle time.
#
#   tools/bench/pipeline_bubble.sh [--rounds 2] [--steps 4] [--milliseconds 6] [--ranks '4 8']
#
# The real model is the model of recipes/bench-cpu.yaml with a small vocabulary and equally loaded experts, so that both
# stages have equal work. A step has 8 micro-batches of one sequence. "waiting": share of the step in which a rank's
# thread waits for messages, mean of both ranks. "lost": 1 - (step on one rank) / (2 x step on two ranks). Simulation
# and formula assume that forward, input gradient and weight gradient take the same time. --milliseconds: how long a
# rank sleeps for the forward of one micro-batch. Environment: HEXAD (program; build/release/bin/hexad), BENCH
# (build/release/bench/pipeline_bubble).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

rounds=2 steps=4 milliseconds=6 ranks='4 8'
while [ $# -gt 0 ]; do
  case $1 in
  --rounds) rounds=${2:?} ;;
  --steps) steps=${2:?} ;;
  --milliseconds) milliseconds=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
[ "$steps" -ge 2 ] || usage "--steps is '$steps', expected at least 2, because the first step is not counted"
bench=${BENCH:-build/release/bench/pipeline_bubble}
need "$hexad" 'cmake --preset release && cmake --build --preset release'
need "$bench" 'cmake --build --preset release --target pipeline_bubble'
[ "$(nproc)" -ge 2 ] || {
  echo "pipeline_bubble: skipped: this machine has one core, but two stages need two" >&2
  exit 77
}
kinds='gpipe 1f1b interleaved zb_h1 zb_v dualpipe_v'

# measure ROUND NAME RANKS OVERRIDE...: adds a row to $scratch/rows for each step except the first: round, name,
# seconds, seconds waited.
measure() {
  local run=$scratch/$1-$2
  launch "$3" bash -c 'exec taskset -c "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" "$@"' pinned \
    "$hexad" train recipes/bench-cpu.yaml model.vocab=512 model.moe.routing=balanced batch.micro=1 batch.global=8 \
    train.threads=1 train.steps="$steps" train.peak_flops=1e11 checkpoint.resume=none checkpoint.at_end=false \
    run.dir="$run" "${@:4}"
  tail -n +2 "$run/metrics.jsonl" | awk -v round="$1" -v name="$2" '{
    match($0, /"step_seconds": *[0-9.e+-]+/)
    seconds = substr($0, RSTART + 15, RLENGTH - 15) + 0
    match($0, /"comm_exposed_seconds": *\{[^}]*\}/)
    waited = 0
    for (n = split(substr($0, RSTART + 24, RLENGTH - 25), part, /[:,]/); n > 1; n -= 2) waited += part[n]
    printf "%s\t%s\t%.4f\t%.4f\n", round, name, seconds, waited
  }' >>"$scratch/rows"
}

machine
echo "rounds:    $rounds of $steps steps, the first not counted"
for ((round = 1; round <= rounds; round++)); do
  measure $round alone 1
  for kind in $kinds; do measure $round $kind 2 parallel.pp=2 schedule.pipeline.kind=$kind; done
done
"$bench" 1 2 >"$scratch/model"
awk -f tools/bench/median.awk -f tools/bench/pipeline_bubble.awk "$scratch/model" "$scratch/rows"
printf '\nStages that only sleep; ranks are threads\n'
"$bench" "$milliseconds" $ranks
printf 'round, schedule, seconds of a step, seconds waited (mean of the ranks)\n'
cat "$scratch/rows"
