#!/usr/bin/env bash
# Measures EPS-MoE's Tables 1 to 4, scaled: time to first token and tokens per second of prefill. The models are like
# DeepSeek-V2 (attention DP, experts EP), Mixtral and DBRX (attention TP; experts TP, or EP in groups) and Arctic
# (attention DP, a dense MLP parallel to the experts). Uses the recipes recipes/steps/eps-*.yaml, whose comments
# describe the scaling, on two emulated nodes of one rank each (tools/testbed/two_nodes.sh). Also measures chunked
# prefill of the longest prompts of DeepSeek-V2's shape. Prints each table next to the paper's, and the rows.
#
#   tools/bench/papers/eps_prefill.sh [--rate 200mbit] [--fast 1600mbit] [--rounds 3] [--output FOLDER]
#
# --rate: rate of the link between the nodes for DeepSeek-V2's shape, whose experts keep their width. --fast: rate for
# the other models. Their experts are about eight times as narrow as the published ones, so the faster link keeps the
# ratio of communication to computation. --output: keeps rows in FOLDER; a later call with the same settings measures
# only the missing rows. Needs root, iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rate=200mbit fast=1600mbit rounds=3 output=
while [ $# -gt 0 ]; do
  case $1 in
  --rate) rate=${2:?} ;;
  --fast) fast=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need "$hexad" 'cmake --preset release && cmake --build --preset release'
kept=${output:-$scratch}
keep_settings "$kept" "$rate for DeepSeek-V2, $fast for the others, rounds $rounds"

machine
echo "testbed:   2 nodes of one rank and one core; between them $rate for DeepSeek-V2's shape, $fast for the others"
echo "rounds:    $rounds"

# rows_of MODEL LAYOUT RATE ARGUMENT...: prints rows of a model under all schedules of the arguments.
rows_of() {
  tools/testbed/two_nodes.sh --nodes 2 --ranks 1 --rate "$3" "$hexad" bench prefill "recipes/steps/eps-$1.yaml" \
    --rounds "$rounds" --json "${@:4}" >"$scratch/prefill.json"
  awk -f tools/bench/papers/prefill_rows.awk -v model="$1" -v layout="$2" "$scratch/prefill.json"
}
# measure MODEL LAYOUT RATE ARGUMENT...: adds rows for a model under all schedules of the arguments if the rows are not
# stored.
measure() {
  has_rows "$kept/rows" "$1"$'\t'"$2" || add_whole "$kept/rows" rows_of "$@"
}

# groups PN...: sets the array `schedules`. The first schedule is the base: one group of experts, grouped products. The
# second is one group with EPS-MoE's products. A further schedule follows for each PN, the number of groups of experts.
groups() {
  local n
  schedules=(--schedule base:rows=token --schedule pn1:rows=token,gemms=by_load)
  for n in "$@"; do schedules+=(--schedule "pn$n:chunk_by=experts,chunks=$n,rows=token,gemms=by_load"); done
}
# prompts PROMPTSxTOKENS...: sets the array `prompts`.
prompts() { prompts=("${@/#/--prompts=}"); }

groups 5 20
prompts 16x64 8x128 4x256 2x512
measure deepseek-v2 dp+ep "$rate" "${schedules[@]}" "${prompts[@]}"
for chunk in 256 128 64; do
  measure deepseek-v2 "chunk$chunk" "$rate" "${schedules[@]}" --prompts=2x512 --chunk "$chunk"
done
all_tp=(parallel.etp=2 parallel.ep=1 parallel.sp=false --schedule base:duplicates=replicated,rows=token)
groups 2
prompts 2x64 2x128 2x256 2x512 4x64 4x128 4x256 8x64 8x128 16x64
measure mixtral tp+tp "$fast" "${prompts[@]}" "${all_tp[@]}"
measure mixtral tp+ep "$fast" "${schedules[@]}" "${prompts[@]}"
prompts 2x16 2x32 2x64 2x128 4x16 4x32 4x64 4x128 8x16 8x32 8x64
measure dbrx tp+tp "$fast" "${prompts[@]}" "${all_tp[@]}"
measure dbrx tp+ep "$fast" "${schedules[@]}" "${prompts[@]}"
groups 4 8
prompts 2x64 2x128 4x64 4x128
measure arctic dp+ep "$fast" "${schedules[@]}" "${prompts[@]}"

print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/eps_prefill.awk "$kept/rows"
printf '\nmodel, layout, data-parallel ranks, schedule, prompts of a data-parallel rank, tokens of a prompt, tokens of a prompt\n'
printf 'in a pass, round, seconds to the first tokens\n'
cat "$kept/rows"
