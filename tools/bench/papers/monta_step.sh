#!/usr/bin/env bash
# Measures whole steps of MoNTA with recipes/steps/monta.yaml, a scaled version of the 2x70B model. Runs on 2 emulated
# nodes of 4 tensor-parallel ranks (paper: 8) with one link per rank (tools/testbed/rank_nodes.sh), with experts across
# the nodes. Prints the times of the MoE forward and of the step for the baseline, O1 to O3 and MoNTA's choice (Figs. 16
# and 17). Also prints the share of all-to-alls, their bandwidth as in Fig. 13, and predictions from a profile of the
# same testbed.
#
#   tools/bench/papers/monta_step.sh [--inter 200mbit] [--intra 1600mbit] [--rounds 3] [--trials 12]
#                                    [--profile-seconds 30] [--output FOLDER]
#
# --inter, --intra: a rank's rate between nodes and inside them. Their ratio is 1:8 as in the paper. At the defaults,
# the baseline's all-to-alls have twice the paper's share of a step (44%, paper: 22%). --output: keeps the profile and the
# rows in FOLDER. A later call with the same settings prints the tables again, or measures the missing rows. Needs root,
# iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/train_schedules).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

inter=200mbit intra=1600mbit rounds=3 trials=12 profile_seconds=30 output=
while [ $# -gt 0 ]; do
  case $1 in
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --trials) trials=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench train_schedules
inter_bits=$(bits "$inter")
kept=${output:-$scratch}
keep_settings "$kept" "$inter between nodes, $intra inside, rounds $rounds, trials $trials, profile $profile_seconds s"

machine
echo "testbed:   2 nodes of 4 ranks and one core, one link per rank: $inter between nodes, $intra inside"
echo "rounds:    $rounds; trials of open choices: $trials"
products=(1x512x448)
testbed=(tools/testbed/rank_nodes.sh --nodes 2 --ranks 4 --inter "$inter" --intra "$intra")
keep_profile "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
args=(--schedule baseline:duplicates=replicated --schedule o1:duplicates=drop)
for n in 2 4; do
  args+=(--schedule "o2x$n:duplicates=drop,overlap=a2a_allgather,chunks=$n"
    --schedule "o3x$n:duplicates=drop,overlap=a2a_allgather_copy,chunks=$n")
done
args+=(--schedule monta:duplicates=drop,overlap=auto,chunks=auto)
add_once "$kept/rows" prefixed 2x70B "${testbed[@]}" "$bench" recipes/steps/monta.yaml "${args[@]}" --rounds "$rounds" \
  --trials "$trials" --profile "$kept/cluster.yaml"
print_runs "$kept/rows"
echo
awk -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/monta_step.awk -v inter="$inter_bits" \
  "$kept/rows"
print_steps "$kept/rows"
