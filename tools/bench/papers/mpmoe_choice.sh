#!/usr/bin/env bash
# Measures MPMoE's Fig. 15: the costs of the strategies S1 to S4, and the strategy that the program chooses
# (memory_reuse: auto). Costs are relative to n = 4 micro-batches that keep their activations. Trains
# recipes/steps/mpmoe.yaml, a block of GPT-S, on two emulated nodes of one rank and one core each
# (tools/testbed/two_nodes.sh). Varies the rate between the nodes and the number of tokens. In the paper, communication
# becomes the bottleneck with more GPUs, here with a lower rate. The program predicts the times of all four strategies
# from a profile of the same testbed, and then tries the strategies in training steps. Prints extra times relative to
# the fastest of S1 to S4: of the choice, of the simulator's choice without trials, and of each strategy.
#
#   tools/bench/papers/mpmoe_choice.sh [--rates '800mbit 100mbit'] [--tokens '512 1024'] [--rounds 3] [--trials 20]
#                                      [--profile-seconds 30] [--output FOLDER]
#
# --tokens: tokens of a rank. --trials: number of steps that try the strategies; with fewer than 16, not all are tried.
# --output: keeps profiles and rows in FOLDER. A later call with the same settings, for example after the first call was
# killed, measures only the missing rows. Takes about five minutes, or half a minute with --rates 200mbit --tokens 256
# --rounds 1 --trials 16 --profile-seconds 10. Needs root, iproute2 and openmpi-bin (otherwise exits with 77).
# Environment: HEXAD, BENCH (build/release/bench/train_schedules).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rates='800mbit 100mbit' tokens='512 1024' rounds=3 trials=20 profile_seconds=30 output=
while [ $# -gt 0 ]; do
  case $1 in
  --rates) rates=${2:?} ;;
  --tokens) tokens=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --trials) trials=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench train_schedules
parts=chunk_by=tokens,chunks=4
args=(--schedule "none:$parts" --rounds "$rounds" --trials "$trials")
for s in 1 2 3 4; do args+=(--schedule "s$s:$parts,memory_reuse=s$s"); done
# The limit is never reached. It only excludes memory_reuse: none from the choice.
args+=(--schedule "auto:$parts,memory_reuse=auto,memory_limit=64GiB")
kept=${output:-$scratch}
keep_settings "$kept" \
  "rates $rates, tokens $tokens, rounds $rounds, trials $trials, profile $profile_seconds s"

machine
echo "testbed:   2 nodes of one rank and one core"
echo "rounds:    $rounds; trials of open choices: $trials"
products=(1x768x3072)
for rate in $rates; do
  testbed=(tools/testbed/two_nodes.sh --nodes 2 --ranks 1 --rate "$rate")
  keep_profile "$kept/cluster-$rate.yaml" "$profile_seconds" "${testbed[@]}"
  for B in $tokens; do
    ! has_rows "$kept/rows" "$rate,$B" || continue
    add_whole "$kept/rows" prefixed "$rate,$B" "${testbed[@]}" "$bench" recipes/steps/mpmoe.yaml model.context="$B" \
      "${args[@]}" --profile "$kept/cluster-$rate.yaml"
  done
done
print_runs "$kept/rows"
echo
awk -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/mpmoe_choice.awk "$kept/rows"
print_steps "$kept/rows"
