#!/usr/bin/env bash
# Measures Parm's four placements (section IV). Which ranks of an MoE layer share a node determines which collectives
# load each link. Uses one layer, whose 8 ranks are 4 EP ranks x 2 ESP ranks, without tensor parallelism and with N_MP =
# 2. The placements are: (1) on one node; (2) ESP groups within nodes, which is the order of Hexad's own mesh; (3) EP
# groups within nodes; (4) neither. Prints the speedups of S1 and S2 (with SAA in 8 phases) over the DeepSpeed-MoE
# schedule, measured and predicted, and the share of each collective's traffic that leaves the node.
#
#   tools/bench/papers/parm_placements.sh [--layer M=512,H=256,B=256] [--inter 50mbit] [--intra 400mbit] [--rounds 3]
#                                         [--profile-seconds 30]
#
# --layer: hidden size, width of an expert, tokens of a data-parallel rank. Needs root, iproute2 and openmpi-bin
# (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

layer=M=512,H=256,B=256 inter=50mbit intra=400mbit rounds=3 profile_seconds=30
while [ $# -gt 0 ]; do
  case $1 in
  --layer) layer=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  *) usage ;;
  esac
  shift 2
done
need_bench moe_layer

args=(--schedule baseline:duplicates=baseline --schedule s1:duplicates=pause_before_gate,esp_exchange=direct
  --schedule s2:duplicates=pause_after_gate,esp_exchange=direct,overlap=a2a_allgather,chunks=8 --rounds "$rounds")
for tp in 1 2; do args+=(--layer "$layer,E=4,k=1,tp=$tp,etp=2,ep=4"); done

# compete CASE NODES RANKS_OF_A_NODE NODE_OF_EACH_RANK: prints rows of moe_layer. Each row begins with the case and the
# nodes.
compete() {
  tools/testbed/rank_nodes.sh --nodes "$2" --ranks "$3" --inter "$inter" --intra "$intra" --placement "$4" \
    "$bench" "${args[@]}" --profile "$scratch/cluster-$2.yaml" | sed "s/^/$1\t$4\t/" >>"$scratch/rows"
}

machine
echo "testbed:   8 ranks, one link per rank: $inter between nodes, $intra inside"
echo "rounds:    $rounds"
profile_into "$scratch/cluster-1.yaml" "$profile_seconds" \
  tools/testbed/rank_nodes.sh --nodes 1 --ranks 8 --inter "$inter" --intra "$intra"
profile_into "$scratch/cluster-2.yaml" "$profile_seconds" \
  tools/testbed/rank_nodes.sh --nodes 2 --ranks 4 --inter "$inter" --intra "$intra"
compete 1 1 8 0,0,0,0,0,0,0,0
compete 2 2 4 0,0,0,0,1,1,1,1
compete 3 2 4 0,1,0,1,0,1,0,1
compete 4 2 4 0,1,0,1,1,0,1,0
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/parm_placements.awk "$scratch/rows"
printf '\ncase, node of each rank, then'
print_rows "$scratch/rows"
