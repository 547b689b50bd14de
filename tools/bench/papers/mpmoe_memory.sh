#!/usr/bin/env bash
# Measures MPMoE's Fig. 2 for several numbers of tokens: the parts of an MoE layer's memory in backward (model states,
# activations, temporary buffers), and the utilisation of the machine. Runs the layers of Table 3 forward and backward
# in sequence, on two ranks of this machine. Layers have their full width, one expert per rank, one expert per token (k
# = 1), and f32. Prints the predicted shares of equations 1 to 3 next to the measured ones.
#
#   tools/bench/papers/mpmoe_memory.sh [--layers '768,3072 1024,4096 2048,8192'] [--tokens '256 512 1024 2048 4096']
#                                      [--rounds 2] [--output FOLDER]
#
# --layers: M,H (hidden size, width of an expert). --tokens: tokens of a rank; the paper has up to 16384, which take 16
# times as long as 1024. --output: keeps the rows in FOLDER. A later call with the same settings, for example after the
# first call was killed, measures only the layers that are missing. Takes about three minutes, or a few seconds with
# --layers 768,3072 --tokens '256 1024' --rounds 1. Needs openmpi-bin. Environment: HEXAD, BENCH
# (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

layers='768,3072 1024,4096 2048,8192' tokens='256 512 1024 2048 4096' rounds=2 output=
while [ $# -gt 0 ]; do
  case $1 in
  --layers) layers=${2:?} ;;
  --tokens) tokens=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench moe_layer
kept=${output:-$scratch}
keep_settings "$kept" "layers $layers, tokens $tokens, rounds $rounds"

machine
echo "ranks:     2, on this machine"
echo "rounds:    $rounds"
for layer in $layers; do
  IFS=, read -r M H <<<"$layer"
  for B in $tokens; do
    measured="M=$M,H=$H,B=$B,E=2,ep=2"
    ! has_rows "$kept/rows" "$measured" || continue
    add_whole "$kept/rows" launched_rows 2 "$measured"$'\t' "$bench" --schedule fastmoe --layer "$measured" --memory \
      --rounds "$rounds"
  done
done
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/mpmoe_equations.awk \
  -f tools/bench/papers/mpmoe_memory.awk "$kept/rows"
printf '\nmemory, layer, round, schedule, peak bytes: parameters, gradients, activations, temporaries, communication; then'
print_rows "$kept/rows"
