#!/usr/bin/env bash
# Prints a table of runs that shows which advisers were right. An adviser is an algorithm of a paper (MoNTA's Algorithms
# 1 to 3, Parm's Algorithm 1, EPS-MoE's number of groups, MPMoE's paradigms). The program asks the advisers in a run
# that has a schedule.profile and leaves choices of schedule.moe to `auto` (docs/auto-schedules.md).
#
#   tools/bench/papers/advisers.sh [--cases 'whole@200mbit ...'] [--trials 24] [--profile-seconds 30] [--output FOLDER]
#   tools/bench/papers/advisers.sh RUN...
#
# The first form trains each case in a run of its own, and the second form only reads runs: folders with metrics.jsonl
# in which the program chose a schedule. A case is RECIPE@RATE: a recipe of recipes/steps, and the rate of a node's
# link. The links of monta and parm-* are per rank, RECIPE@INTER:INTRA. --trials: number of steps that try schedules; a
# run has twice as many steps. --output: keeps profiles and rows in FOLDER. A later call with the same settings, for
# example after the first call was killed, runs only the cases that are missing. The first form needs root, iproute2 and
# openmpi-bin (otherwise exits with 77). Environment: HEXAD.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/tools/bench/common.sh"

table() { awk -f "$root/tools/bench/median.awk" -f "$root/tools/bench/papers/advisers.awk" "$1"; }
# advice_of RUN NAME: prints the rows of a run under the name NAME.
advice_of() { awk -v run="$2" -f "$root/tools/bench/papers/advice_rows.awk" "$1/metrics.jsonl"; }

if [ $# -gt 0 ] && [[ $1 != -* ]]; then
  for run in "$@"; do
    [ -f "$run/metrics.jsonl" ] && [ -r "$run/metrics.jsonl" ] ||
      usage "RUN is '$run', expected the folder of a run with a readable metrics.jsonl"
    advice_of "$run" "$run" >>"$scratch/rows"
  done
  [ -s "$scratch/rows" ] ||
    usage "no run has schedule_choice in metrics.jsonl; expected runs with schedule.profile and an auto key of schedule.moe"
  table "$scratch/rows"
  exit
fi

cd "$root"
cases='whole@100mbit whole@200mbit whole@500mbit monta@200mbit:1600mbit parm-gpt2@50mbit:400mbit mpmoe@100mbit
  mpmoe@800mbit eps-deepseek-v2@200mbit eps-deepseek-v2@800mbit'
trials=24 profile_seconds=30 output=
while [ $# -gt 0 ]; do
  case $1 in
  --cases) cases=${2:?} ;;
  --trials) trials=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need "$hexad" 'cmake --preset release && cmake --build --preset release'

# take_case CASE: sets `recipe`, `testbed`, `overrides` and `products`. `products` has the grouped products of a rank's
# experts, and those of smaller groups of experts. From both, EPS-MoE's adviser gets the time of products by the number
# of experts.
take_case() {
  local rate=${1#*@} ranks=1 links=two_nodes
  recipe=${1%%@*} overrides=()
  case $recipe in
  whole) ranks=4 products=(2x256x768) ;;
  monta) ranks=4 links=rank_nodes products=(1x512x448) ;;
  parm-bert-base | parm-gpt2) ranks=4 links=rank_nodes products=(1x256x256) ;;
  mpmoe) products=(1x768x3072) ;;
  eps-deepseek-v2)  # one MoE layer, with narrower experts, so that a training step takes about a second
    products=(20x512x512 10x512x512 4x512x512) overrides=(model.layers=2 model.moe.expert_hidden=512)
    ;;
  *) usage "--cases has '$1', expected a recipe of: whole, monta, parm-bert-base, parm-gpt2, mpmoe, eps-deepseek-v2" ;;
  esac
  testbed=("tools/testbed/$links.sh" --nodes 2 --ranks "$ranks")
  if [ $links = rank_nodes ]; then
    [[ $1 == *@*:* ]] || usage "--cases has '$1', expected $recipe@INTER:INTRA, such as $recipe@50mbit:400mbit"
    testbed+=(--inter "${rate%:*}" --intra "${rate#*:}")
  else
    [[ $1 == *@* && $1 != *:* ]] || usage "--cases has '$1', expected $recipe@RATE, such as $recipe@200mbit"
    testbed+=(--rate "$rate")
  fi
}
for name in $cases; do take_case "$name"; done  # checks all cases before the first run

# advise CASE: trains the case that take_case() has set, and prints the rows of its advice.
advise() {
  local run=$scratch/run
  rm -rf "$run"
  "${testbed[@]}" "$hexad" train "recipes/steps/$recipe.yaml" schedule.moe.{duplicates,overlap,chunk_by,chunks}=auto \
    schedule.moe.trial_share=0.5 schedule.profile="$kept/cluster-$1.yaml" train.steps=$((2 * trials)) \
    train.eval_every=0 checkpoint.every=0 checkpoint.resume=none checkpoint.at_end=false run.dir="$run" \
    "${overrides[@]}" >"$scratch/log" 2>&1 || {
    local status=$?
    cat "$scratch/log" >&2
    exit $status
  }
  advice_of "$run" "$1" | grep . || {
    echo "advisers.sh: the run of $1 chose no schedule in $((2 * trials)) steps; expected a choice" >&2
    exit 1
  }
}

kept=${output:-$scratch}
keep_settings "$kept" "trials $trials, profile $profile_seconds s"
machine
echo "testbed:   2 nodes of one core, with the ranks and links of each case"
echo "trials:    $trials steps of each run"
for name in $cases; do
  take_case "$name"
  keep_profile "$kept/cluster-$name.yaml" "$profile_seconds" "${testbed[@]}"
  has_rows "$kept/rows" "$name" || add_whole "$kept/rows" advise "$name"
done
print_runs "$kept/rows"
echo
table "$kept/rows"
printf '\ncase, step, adviser, verdict, extra time of the advised schedule as a share of the chosen one, true if it was\n'
printf 'measured, reason for no verdict. Lines "run": date, commit, machine, load\n'
cat "$kept/rows"
