#!/usr/bin/env bash
# Compares direct with hierarchical sending of rows between the ranks of an MoE layer (schedule.moe.all_to_all), for
# several message sizes. The nodes are emulated, and every rank has its own links.
#
#   tools/bench/all_to_all.sh [--shapes '2x4 4x2'] [--tokens '8 64 512 4096'] [--rounds 5] [--inter 25mbit]
#                             [--intra 200mbit] [--schedule KEY=VALUE,...]
#
# --shapes: nodes x ranks per node. --tokens: tokens per rank. Each rank has one expert, and each token is sent to one
# expert as a row of 1 KiB. --schedule: further keys of schedule.moe for both cases, such as chunk_by=tokens,chunks=4.
# Prints a table, then the raw rows. Environment: BENCH (program; build/release/bench/moe_layer). Needs root
# (tools/testbed/rank_nodes.sh); exits with 77 without it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

shapes='2x4 4x2' tokens='8 64 512 4096' rounds=5 inter=25mbit intra=200mbit schedule=
while [ $# -gt 0 ]; do
  case $1 in
  --shapes) shapes=${2:?} ;;
  --tokens) tokens=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --schedule) schedule=,${2:?} ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
bench=${BENCH:-build/release/bench/moe_layer}
need "$bench" 'cmake --build --preset release --target moe_layer'

machine
echo "links:     $inter per rank to other nodes, $intra inside its node; medians of $rounds rounds${schedule:+; $schedule}"
for shape in $shapes; do
  nodes=${shape%x*} ranks=${shape#*x}
  all=$((nodes * ranks))
  layers=()
  for count in $tokens; do layers+=(--layer "M=256,H=64,B=$count,E=$all,k=1,ep=$all"); done
  tools/testbed/rank_nodes.sh --nodes "$nodes" --ranks "$ranks" --inter "$inter" --intra "$intra" \
    "$bench" "${layers[@]}" --rounds "$rounds" --schedule "direct:all_to_all=direct$schedule" \
    --schedule "hierarchical:all_to_all=hierarchical$schedule" | sed "s/^/$shape\t/" >>"$scratch/rows"
done
awk -F "\t" -f tools/bench/median.awk -f tools/bench/all_to_all.awk "$scratch/rows"
printf '\nnodes x ranks, then'
print_rows "$scratch/rows"
