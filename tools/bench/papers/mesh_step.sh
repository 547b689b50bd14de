#!/usr/bin/env bash
# Measures whole training steps of recipes/steps/mesh.yaml on 2 x 4 emulated ranks, each with its own link
# (tools/testbed/rank_nodes.sh). Expert, data and pipeline parallelism send at the same time: pp 2, dp 4, and ep 2 (each
# expert is on two ranks of its stage) or, with --experts 4, ep 4. The schedules include MPMoE's S4 in N chunks (s4nN),
# pairs of overlapping micro-batches, and S4 in such pairs (s4pairs). fifo and s4pairs-fifo are plain and s4pairs
# without priorities (distributed.priority: []). Each schedule runs on links of --rate, and again on links that take
# almost no time. The difference of the two times is the exposed communication of a step. Prints it also by class of
# traffic. The aim is at most 8% if communication and computation take equal times. Before each counted step, links rest
# until they can send their bursts again.
#
#   tools/bench/papers/mesh_step.sh [--rate 200mbit] [--rounds 2] [--experts 2] [--zero '0 1'] [--output FOLDER]
#
# --rate: rate of every rank's link, also inside its node. --experts: values of ep, --zero: levels of ZeRO; several
# values are separated by spaces. --output: keeps rows in FOLDER. A later call with the same settings, for example after
# the first call was killed, measures only the cases that are missing. Needs root, iproute2 and openmpi-bin (otherwise
# exits with 77). Environment: HEXAD, BENCH (build/release/bench/train_schedules).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rate=200mbit rounds=2 experts=2 zero='0 1' free=40gbit output=
while [ $# -gt 0 ]; do
  case $1 in
  --rate) rate=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --experts) experts=${2:?} ;;
  --zero) zero=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench train_schedules
rate_bits=$(bits "$rate")
kept=${output:-$scratch}
fifo=distributed.priority=[]
pairs=schedule.pipeline.overlap=micro_batches,chunk_by=tokens,chunks=2
schedules=(plain "fifo:$fifo" n4:chunk_by=tokens,chunks=4)
for n in 4 8; do schedules+=("s4n$n:chunk_by=tokens,chunks=$n,memory_reuse=s4"); done
schedules+=("pairs:$pairs" "s4pairs:$pairs,memory_reuse=s4" "s4pairs-fifo:$pairs,memory_reuse=s4,$fifo")
args=() names=()
for schedule in "${schedules[@]}"; do args+=(--schedule "$schedule") names+=("${schedule%%:*}"); done
keep_settings "$kept" "cases of ep and zero, rounds $rounds, $rate, schedules ${names[*]}"

machine
echo "testbed:   2 nodes of 4 ranks and one core, one link per rank: $rate, and $free for links that take almost no time"
echo "rounds:    $rounds"
for ep in $experts; do
  for level in $zero; do
    for links in "$rate" $free; do
      ! has_rows "$kept/rows" "ep$ep,zero$level,$links" || continue
      testbed=(tools/testbed/rank_nodes.sh --nodes 2 --ranks 4 --inter "$links" --intra "$links")
      rest=$(longest_burst "${testbed[@]}")
      add_whole "$kept/rows" prefixed "ep$ep,zero$level,$links" "${testbed[@]}" "$bench" recipes/steps/mesh.yaml \
        parallel.ep="$ep" parallel.zero="$level" "${args[@]}" --rounds "$rounds" --rest "$rest"
    done
  done
done
print_runs "$kept/rows"
echo
awk -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/mesh_step.awk -v rate="$rate" \
  -v free="$free" -v bits="$rate_bits" "$kept/rows"
print_steps "$kept/rows"
