#!/usr/bin/env bash
# Measures the memory of a rank when more ranks share a sequence (recipes/long-context.yaml). First uses one sequence
# length on 1, 2, 4 and 8 ranks. Then uses one number of tokens per rank, so the sequence grows with the number of
# ranks.
#
#   tools/bench/long_context.sh [--length 32768] [--ranks '1 2 4 8'] [--full]
#
# --full: also runs the unchanged recipe, 131,072 tokens on 8 ranks, which takes a few minutes on two cores. Each run is
# one step. Bytes are peaks over the step, on the rank that needs the most. Environment: HEXAD (program;
# build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

length=32768 ranks='1 2 4 8' full=false
while [ $# -gt 0 ]; do
  case $1 in
  --length) length=${2:?} && shift ;;
  --ranks) ranks=${2:?} && shift ;;
  --full) full=true ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift
done
need "$hexad" 'cmake --preset release && cmake --build --preset release'

# measure TITLE TOKENS RANKS: adds a row to $scratch/rows: title, tokens, ranks, seconds, peak bytes by category, loss.
measure() {
  local run=$scratch/$2-$3 peak=$scratch/$2-$3/metrics.jsonl
  # Sets train.peak_flops, because measuring it needs a product that would increase the peak memory.
  launch "$3" "$hexad" train recipes/long-context.yaml model.context="$2" parallel.cp="$3" parallel.ep="$3" \
    train.threads=1 train.peak_flops=1e11 checkpoint.resume=none checkpoint.at_end=false run.dir="$run"
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(number step_seconds "$peak")" \
    "$(number activation "$peak")" "$(number temporary "$peak")" "$(number communication "$peak")" \
    "$(number parameter "$peak")" "$(number loss "$peak")" >>"$scratch/rows"
}

machine
for n in $ranks; do measure "one length" "$length" "$n"; done
for n in $ranks; do measure "equal tokens per rank" $((length / 8 * n)) "$n"; done
if $full; then measure "the recipe" 131072 8; fi
awk -F '\t' '
  BEGIN { printf "%-22s %8s %6s %9s %11s %7s %10s %14s %11s %8s\n", "", "tokens", "ranks", "seconds", "activations", \
    "x ranks", "temporary", "communication", "parameters", "loss" }
  {
    if (NR == 1) first = $5 * $3 / $2
    printf "%-22s %8d %6d %9.1f %8.2f MB %7.3f %7.2f MB %11.2f MB %8.2f MB %8.4f\n", $1, $2, $3, $4, $5 / 1e6, \
      $5 * $3 / $2 / first, $6 / 1e6, $7 / 1e6, $8 / 1e6, $9
  }' "$scratch/rows"
echo 'x ranks: activations of a rank x ranks / tokens, relative to the first line'
