#!/usr/bin/env bash
# Measures whole steps for Parm's Table V: MoE versions of BERT-Base and GPT-2, scaled as described in
# recipes/steps/parm-{bert-base,gpt2}.yaml. N_MP = N_ESP = 4, with two experts. Runs on emulated nodes with one link per
# rank (tools/testbed/rank_nodes.sh). Compares the DeepSpeed-MoE schedule, S1, S2, and Parm's choice: S1 or S2,
# whichever is predicted to be faster. The predictions come from a profile of the same testbed.
#
#   tools/bench/papers/parm_step.sh [--inter 50mbit] [--intra 400mbit] [--rounds 3] [--models 'bert-base gpt2']
#                                   [--profile-seconds 30] [--output FOLDER]
#
# Runs on 2 nodes of 4 ranks. --output: keeps the profile and the rows in FOLDER. A later call with the same settings,
# for example after the first call was killed, measures only the models that are missing. Needs root, iproute2 and
# openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/train_schedules).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

inter=50mbit intra=400mbit rounds=3 models='bert-base gpt2' profile_seconds=30 output=
while [ $# -gt 0 ]; do
  case $1 in
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --models) models=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench train_schedules
kept=${output:-$scratch}
keep_settings "$kept" "$inter between nodes, $intra inside, rounds $rounds, profile $profile_seconds s"

machine
echo "testbed:   2 nodes of 4 ranks and one core, one link per rank: $inter between nodes, $intra inside"
echo "rounds:    $rounds"
products=(1x256x256)
testbed=(tools/testbed/rank_nodes.sh --nodes 2 --ranks 4 --inter "$inter" --intra "$intra")
keep_profile "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
for model in $models; do
  has_rows "$kept/rows" "$model" || add_whole "$kept/rows" prefixed "$model" "${testbed[@]}" "$bench" \
    "recipes/steps/parm-$model.yaml" --rounds "$rounds" --profile "$kept/cluster.yaml" \
    --schedule baseline:duplicates=baseline --schedule s1:duplicates=pause_before_gate,esp_exchange=direct \
    --schedule s2:duplicates=pause_after_gate,esp_exchange=direct,overlap=a2a_allgather,chunks=8
done
print_runs "$kept/rows"
echo
awk -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/parm_step.awk "$kept/rows"
print_steps "$kept/rows"
