#!/usr/bin/env bash
# MoNTA's dispatch and combine under tensor parallelism, on emulated nodes with a link a rank (tools/testbed/rank_nodes.sh):
# the baseline, O1 (drop, all-to-all, all-gather), O2 and O3 (in chunks), by volume. Prints, for each t, part and volume,
# medians over the rounds of each schedule's time over the baseline's of the same round, the formula's value for O1, the
# baseline's share of the wire's rate, and the simulator's prediction from a profile of the same testbed.
#
#   tools/bench/papers/monta.sh [--nodes 2] [--ranks '2 4 8'] [--inter 25mbit] [--intra 200mbit]
#                               [--bytes 65536,524288,2097152,8388608] [--rounds 3] [--chunks 2,4,8]
#                               [--profile-seconds 30] [--pictures FOLDER]
#
# --ranks: t, tensor-parallel ranks a node. --pictures: an SVG of each schedule at the last t and volume. Needs root,
# iproute2 and openmpi-bin (77: skipped). Environment: HEXAD, BENCH (build/release/bench/moe_exchange).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

nodes=2 ranks='2 4 8' inter=25mbit intra=200mbit bytes=65536,524288,2097152,8388608 rounds=3 chunks=2,4,8
profile_seconds=30 pictures=
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --bytes) bytes=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --chunks) chunks=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage ;;
  esac
  shift 2
done
need_bench moe_exchange
inter_bits=$(bits "$inter") intra_bits=$(bits "$intra")

machine
echo "testbed:   $nodes nodes, a link a rank: $inter between nodes, $intra inside"
echo "rounds:    $rounds"
for t in $ranks; do
  testbed=(tools/testbed/rank_nodes.sh --nodes "$nodes" --ranks "$t" --inter "$inter" --intra "$intra")
  profile_into "$scratch/cluster-$t.yaml" "$profile_seconds" "${testbed[@]}"
  "${testbed[@]}" "$bench" --ranks "$t" --bytes "$bytes" --rounds "$rounds" --chunks "$chunks" \
    --profile "$scratch/cluster-$t.yaml" ${pictures:+--pictures "$pictures"} >>"$scratch/rows"
done
awk -f tools/bench/median.awk -f tools/bench/papers/monta.awk -v e="$nodes" -v inter="$inter_bits" -v intra="$intra_bits" \
  "$scratch/rows"
printf '\nround, part, t, bytes, schedule, seconds, predicted seconds\n'
cat "$scratch/rows"
