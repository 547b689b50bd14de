#!/usr/bin/env bash
# Measures MPMoE on two emulated nodes of one rank each (tools/testbed/two_nodes.sh): MoE layers of Table 3, forward and
# backward, with one expert per rank, k = 1, f32. Letters: M hidden size, H width of an expert, B tokens of a rank, k
# experts per token, n number of micro-batches. S1 to S4 are the strategies that restore activations in backward
# (schedule.moe.memory_reuse). Prints the speedup over FastMoE (sequential) and FasterMoE (divided by nodes, without its
# shadowing of experts) by B and n. Also prints:
# - max(communication, computation) divided by the time of the best n
# - Algorithm 1's n compared with the best n
# - peak bytes compared with equations 5 and 6
# - the costs of S1 to S4, and the simulator's predictions
# - the cost of cutting alone, with chunks that do not overlap (Fig. 16)
#
#   tools/bench/papers/mpmoe.sh [--rate 200mbit] [--rounds 3] [--layers '768,3072,1024 ...'] [--profile-seconds 40]
#                               [--pictures FOLDER] [--output FOLDER]
#
# --layers: M,H,B. --pictures: writes an SVG of each schedule and pass of the layer that is measured last, the
# measurement above the prediction. --output: keeps the profile and the rows in FOLDER. A later call with the same
# settings, for example after the first call was killed, measures only the layers that are missing; Algorithm 1 then
# does not know the earlier layers, and may measure more. Needs root, iproute2 and openmpi-bin (otherwise exits with
# 77). Environment: HEXAD, BENCH (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rate=200mbit rounds=3 layers='768,3072,1024 768,3072,2048 2048,8192,512 1024,4096,1024' profile_seconds=40
pictures= output=
while [ $# -gt 0 ]; do
  case $1 in
  --rate) rate=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --layers) layers=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench moe_layer

kept=${output:-$scratch}
keep_settings "$kept" "$rate, rounds $rounds, layers $layers, profile $profile_seconds s"
args=(--schedule fastmoe --schedule fastermoe:chunk_by=nodes,chunks=2,order=returns_last)
for n in 2 4 8 16; do args+=(--schedule "n$n:chunk_by=tokens,chunks=$n"); done
for n in 2 4 8 16; do args+=(--schedule "cut$n:chunk_by=tokens,chunks=$n,overlap=none"); done
for s in 1 2 3 4; do
  for n in 2 4 8; do args+=(--schedule "s${s}n$n:chunk_by=tokens,chunks=$n,memory_reuse=s$s"); done
done
texts=()
for layer in $layers; do
  IFS=, read -r M H B <<<"$layer"
  texts+=("M=$M,H=$H,B=$B,E=2,ep=2")
  [[ " ${products[*]} " == *" 1x${M}x$H "* ]] || products+=("1x${M}x$H")
done
[ -z "$pictures" ] || args+=(--pictures "$pictures")

machine
echo "testbed:   2 nodes of one rank and one core, $rate between them"
echo "rounds:    $rounds"
testbed=(tools/testbed/two_nodes.sh --nodes 2 --ranks 1 --rate "$rate")
if [ ! -e "$kept/alpha" ]; then
  profile_into "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
  sed -n '/^speed beside/,/^ *$/p' "$scratch/profile.log" >"$scratch/alpha"
  mv "$scratch/alpha" "$kept/alpha"
fi
keep_complete "$kept/rows" $((22 * 2 * rounds)) 5  # 22 schedules, two passes; 5 searches: without a strategy, S1 to S4
find_missing "$kept/rows" '' "${texts[@]}"
echo "measured:  $((${#texts[@]} - ${#missing[@]} / 2)) layers before"
[ ${#missing[@]} -eq 0 ] || add_rows "$kept/rows" "${testbed[@]}" "$bench" "${args[@]}" "${missing[@]}" \
  --rounds "$rounds" --search --profile "$kept/cluster.yaml"
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/mpmoe_equations.awk \
  -f tools/bench/papers/mpmoe.awk "$kept/rows"
printf '\nalpha(y, x), Fig. 3: speed of y (rows) while x (columns) runs; inter: between nodes\n'
cat "$kept/alpha"
print_rows "$kept/rows"
