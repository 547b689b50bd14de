#!/usr/bin/env bash
# Compares steps with and without schedule.pipeline.overlap, in which a micro-batch's backward overlaps the forward of
# the next micro-batch. Runs on two emulated nodes of one rank each (tools/testbed/rank_nodes.sh), with experts on both
# nodes.
#
#   tools/bench/micro_batch_overlap.sh [--rounds 2] [--steps 4] [--inter 200mbit] [KEY.PATH=VALUE ...]
#
# Uses the model of recipes/bench-cpu.yaml with a small vocabulary and equally loaded experts. Each rank has four
# micro-batches of two sequences per step. --inter: rate of the link between the ranks. At the default rate, the
# all-to-alls take about as long as the computation on two cores of a processor from 2020. The overrides KEY.PATH=VALUE
# apply to all runs. "waiting" is the number of seconds of a step for which a rank's thread waits for other ranks. Needs
# root, iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

rounds=2 steps=4 inter=200mbit
while [ $# -gt 0 ]; do
  case $1 in
  --rounds) rounds=${2:?} ;;
  --steps) steps=${2:?} ;;
  --inter) inter=${2:?} ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ "$steps" -ge 2 ] || usage "--steps is '$steps', expected at least 2, because the first step is not counted"
need "$hexad" 'cmake --preset release && cmake --build --preset release'

# measure ROUND OVERLAP OVERRIDE...: adds a row to $scratch/rows for every step except the first: overlap, seconds,
# seconds waited, loss.
measure() {
  local run=$scratch/$1-$2 status=0
  tools/testbed/rank_nodes.sh --nodes 2 --ranks 1 --inter "$inter" \
    "$hexad" train recipes/bench-cpu.yaml parallel.ep=2 model.vocab=512 model.moe.routing=balanced batch.micro=2 \
    batch.global=16 train.threads=1 train.steps="$steps" train.peak_flops=1e11 checkpoint.resume=none \
    checkpoint.at_end=false run.dir="$run" schedule.pipeline.overlap="$2" "${@:3}" >"$scratch/log" 2>&1 || status=$?
  [ $status -eq 0 ] || {
    cat "$scratch/log" >&2
    exit $status
  }
  tail -n +2 "$run/metrics.jsonl" | awk -v overlap="$2" '{
    match($0, /"step_seconds": *[0-9.e+-]+/)
    seconds = substr($0, RSTART + 15, RLENGTH - 15) + 0
    match($0, /"comm_exposed_seconds": *\{[^}]*\}/)
    waited = 0
    for (n = split(substr($0, RSTART + 24, RLENGTH - 25), part, /[:,]/); n > 1; n -= 2) waited += part[n]
    match($0, /"loss": *[0-9.e+-]+/)
    printf "%s\t%.3f\t%.3f\t%s\n", overlap, seconds, waited, substr($0, RSTART + 7, RLENGTH - 7)
  }' >>"$scratch/rows"
}

machine
echo "rounds:    $rounds of $steps steps, the first not counted; link $inter"
for ((round = 1; round <= rounds; round++)); do
  for overlap in none micro_batches; do measure $round $overlap "$@"; done
done
awk -f tools/bench/median.awk -f tools/bench/micro_batch_overlap.awk "$scratch/rows"
printf 'overlap, seconds of a step, seconds waited, loss\n'
cat "$scratch/rows"
