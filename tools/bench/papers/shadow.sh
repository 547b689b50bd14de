#!/usr/bin/env bash
# Measures shadows of hot experts (schedule.moe.hot_experts: shadow), FasterMoE's remedy for skewed routing. Uses one
# layer on 2 nodes of 4 ranks each, with 2 experts per rank. Tokens choose experts with probabilities of Zipf's law.
# Compares a step with and without shadows, both whole and in chunks, for each exponent and number of tokens. Prints
# speedups, measured and predicted, and the bytes that a rank sends. Exponent 0 has no hot experts, so its speedup shows
# the cost of the decision.
#
#   tools/bench/papers/shadow.sh [--layer M=512,H=128] [--tokens '256 1024'] [--exponents '0 0.8 1.2'] [--inter 50mbit]
#                                [--intra 400mbit] [--rounds 3] [--profile-seconds 30] [--output FOLDER]
#
# --layer: hidden size and width of an expert; --tokens: tokens of a rank. --output: keeps the profile and the rows in
# FOLDER. A later call with the same settings, for example after the first call was killed, measures only the layers
# that are missing. Needs root, iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH
# (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

layer=M=512,H=128 tokens='256 1024' exponents='0 0.8 1.2' inter=50mbit intra=400mbit rounds=3 profile_seconds=30 output=
while [ $# -gt 0 ]; do
  case $1 in
  --layer) layer=${2:?} ;;
  --tokens) tokens=${2:?} ;;
  --exponents) exponents=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench moe_layer

chunks=chunk_by=tokens,chunks=4
args=(--schedule stay --schedule shadow:hot_experts=shadow --schedule "stay_chunks:$chunks"
  --schedule "shadow_chunks:$chunks,hot_experts=shadow" --rounds "$rounds")
layers=()
for exponent in $exponents; do
  for b in $tokens; do
    layers+=("$layer,B=$b,E=16,k=2,ep=8,model.moe.routing=zipf,model.moe.zipf_exponent=$exponent")
  done
done
kept=${output:-$scratch}
keep_settings "$kept" "layer $layer, tokens $tokens, exponents $exponents, $inter between nodes, $intra inside, rounds \
$rounds, profile $profile_seconds s"

machine
echo "testbed:   2 nodes of 4 ranks, one link per rank: $inter between nodes, $intra inside"
echo "rounds:    $rounds"
testbed=(tools/testbed/rank_nodes.sh --nodes 2 --ranks 4 --inter "$inter" --intra "$intra")
keep_profile "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
keep_complete "$kept/rows" $((8 * rounds))  # four schedules, two passes
find_missing "$kept/rows" '' "${layers[@]}"
[ ${#missing[@]} -eq 0 ] || add_rows "$kept/rows" "${testbed[@]}" "$bench" "${args[@]}" "${missing[@]}" \
  --profile "$kept/cluster.yaml"
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/shadow.awk "$kept/rows"
print_rows "$kept/rows"
