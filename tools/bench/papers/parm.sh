#!/usr/bin/env bash
# Measures Parm on emulated nodes with one link per rank (tools/testbed/rank_nodes.sh). Takes MoE layers of Table III
# (parm_layers.awk) and runs them forward and backward under the DeepSpeed-MoE schedule (Fig. 3(a)), S1 and S2. Prints:
# - the speedups by (N_MP, N_ESP), which are tp and etp, next to Table IV
# - Algorithm 1's choices from collectives that `hexad profile` measured
# - the simulator's predictions
# - the shares of communication (Fig. 1), and Fig. 7
# - the alpha and beta of the measured collectives with the errors of the fits (Fig. 6)
#
#   tools/bench/papers/parm.sh [--layers 36] [--seed 1] [--inter 50mbit] [--intra 400mbit] [--rounds R]
#                              [--profile-seconds 60] [--pictures FOLDER] [--output FOLDER]
#
# Runs on 2 nodes of 4 ranks. --layers: number of the table's 1296 layers to measure, each at most once. All schedules
# send padding, as in the paper (capacity_padding), and use f32. s2 returns rows in N_EP x N_ESP = 8 phases (SAA); s2aas
# is S2 without SAA. --rounds: default 2, or 1 for more than 50 layers, because the table's means are over layers. 36
# layers take four minutes, 200 a quarter of an hour, all layers more than two hours. --pictures: writes an SVG of each
# schedule and pass of the last layer. --output: keeps the profile and the rows in FOLDER. A later call with the same
# settings, for example after the first call was killed, measures only the layers that are missing. Needs root, iproute2
# and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

count=36 seed=1 inter=50mbit intra=400mbit rounds= profile_seconds=60 pictures= output=
batch=45  # number of layers that one start of the measuring program measures
while [ $# -gt 0 ]; do
  case $1 in
  --layers) count=${2:?} ;;
  --seed) seed=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
[ "$count" -le 1296 ] || usage "--layers is '$count', expected at most 1296, the number of layers of Table III"
need_bench moe_layer
[ -n "$rounds" ] || rounds=$((count > 50 ? 1 : 2))

layers=$(awk -f tools/bench/random.awk -f tools/bench/papers/parm_layers.awk -v count="$count" -v seed="$seed" </dev/null)
padded=capacity_padding=full
args=(--schedule "baseline:duplicates=baseline,$padded"
  --schedule "s1:duplicates=pause_before_gate,esp_exchange=direct,$padded"
  --schedule "s2aas:duplicates=pause_after_gate,esp_exchange=direct,$padded"
  --schedule "s2:duplicates=pause_after_gate,esp_exchange=direct,overlap=a2a_allgather,chunks=8,$padded")
[ -z "$pictures" ] || args+=(--pictures "$pictures")

kept=${output:-$scratch}
keep_settings "$kept" \
  "layers $count, seed $seed, $inter between nodes, $intra inside, rounds $rounds, profile $profile_seconds s"

machine
echo "testbed:   2 nodes of 4 ranks, one link per rank: $inter between nodes, $intra inside"
echo "layers:    $count, seed $seed; rounds: $rounds"
testbed=(tools/testbed/rank_nodes.sh --nodes 2 --ranks 4 --inter "$inter" --intra "$intra")
keep_profile "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
for layer in $layers; do
  awk -f tools/bench/papers/parm_input.awk -v layer="$layer" "$kept/cluster.yaml" >"$scratch/parm.yaml"
  "$hexad" simulate --paper parm "$scratch/parm.yaml" >"$scratch/parm.json"
  printf 'choice\t%s\t%s\n' "$layer" "$(sed -n 's/.*"better": *"\(.*\)".*/\1/p' "$scratch/parm.json")"
done >"$scratch/choices"
keep_complete "$kept/rows" $((8 * rounds))  # four schedules, two passes
find_missing "$kept/rows" '' $layers
echo "measured:  $((count - ${#missing[@]} / 2)) layers before"
for ((i = 0; i < ${#missing[@]}; i += 2 * batch)); do
  add_rows "$kept/rows" "${testbed[@]}" "$bench" "${args[@]}" "${missing[@]:i:2 * batch}" --rounds "$rounds" \
    --profile "$kept/cluster.yaml"
done
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/parm.awk "$scratch/choices" "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/parm_fits.awk "$kept/cluster.yaml"
printf '\nlayer, choice by Algorithm 1\n'
cut -f 2- "$scratch/choices"
print_rows "$kept/rows"
