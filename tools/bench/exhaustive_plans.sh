#!/usr/bin/env bash
# Compares the first choice of `hexad plan` with the best of all legal layouts. The cases are random small recipes that
# have 5 to 20 layouts. First, the script plans all cases and prints the hash of the table of layouts and predicted
# steps. Then it trains each layout for --steps steps. Runs that the output folder already contains are not repeated, so
# the same command continues after an interruption.
#
#   tools/bench/exhaustive_plans.sh [--seed 1] [--cases 40] [--place 1|2|4|8|nodes] [--rounds 2] [--steps 6]
#                                   [--cluster FILE] [--seconds 120] [--output runs/exhaustive-plans] [--predict-only]
#
# --place: number of ranks, each on its own core, or "nodes", two emulated nodes. The default is 4, or 2 on a machine
# with fewer than 4 cores. --rounds: runs of each layout. Odd rounds go forwards through the layouts of a case, even
# rounds backwards. --cluster: file for predictions; without it, `hexad profile` measures the place for --seconds.
# --predict-only: trains no case.
#
# random_small_recipe.awk draws the recipes. A recipe is skipped if it has fewer than 5 or more than 20 layouts. It is
# also skipped if a step has less than 1 or more than 16 GFLOP per rank (about 20 to 500 ms). Environment: HEXAD
# (program; build/release/bin/hexad). With a packed program, use:
#   HEXAD=hexad tools/gpu/with_libraries.sh tools/bench/exhaustive_plans.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh
. tools/bench/predictions.sh

least_layouts=5
# Maximum number of layouts of a case. hexad plan simulates 20 layouts by default, so its first choice for a case is the
# same with and without --layouts.
most_layouts=20
place='' rounds=2 steps=6 output=runs/exhaustive-plans
while [ $# -gt 0 ]; do
  case $1 in
  --place) place=${2:?} taken=2 ;;
  --rounds) rounds=${2:?} taken=2 ;;
  --steps) steps=${2:?} taken=2 ;;
  *) take_option "$@" || usage "unknown option '$1'" ;;
  esac
  shift $taken
done
check_options
[[ $rounds =~ ^[1-9]$ ]] || usage "--rounds is '$rounds', expected a whole number from 1 to 9"
place=${place:-$(($(cores) < 4 ? 2 : 4))}
is_place "$place" || usage "--place is '$place', expected 1, 2, 4, 8 or nodes"
begin "$place"

table=$output/layouts.tsv measured=$output/measured.tsv
ranks=$(ranks_of "$place")
refused=0 outsized=0 too_few=0 too_many=0

# plan NUMBER: draws recipes until the number of layouts and the size of the first choice are suitable. Prints a line of
# the table for each layout, beginning with the first choice: case/layout, place, predicted seconds of a step, settings
# of the recipe, settings of the layout.
plan() {
  local i settings legal status verdict=
  for ((i = 0; i < most_draws; i++)); do
    draw random_small_recipe "$place"
    status=0
    # shellcheck disable=SC2086  # split into words on purpose
    "$hexad" plan $recipe --cluster "$output/cluster.$place.yaml" --ranks "$ranks" --layouts $most_layouts --json \
      run.dir="$scratch/run" "${run_settings[@]}" $settings >"$scratch/plan" 2>"$scratch/err" || status=$?
    if [ $status -eq 2 ]; then
      refused=$((refused + 1))
      continue
    fi
    [ $status -eq 0 ] || break
    legal=$(number legal "$scratch/plan")
    if [ "$legal" -lt $least_layouts ]; then
      too_few=$((too_few + 1))
      continue
    elif [ "$legal" -gt $most_layouts ]; then
      too_many=$((too_many + 1))
      continue
    fi
    awk -f tools/bench/plan_layouts.awk "$scratch/plan" >"$scratch/layouts"
    # shellcheck disable=SC2046,SC2086
    judge "$ranks" $settings $(head -n 1 "$scratch/layouts" | cut -f2)
    [ "$verdict" != outsized ] || outsized=$((outsized + 1))
    [ "$verdict" = outsized ] || break
  done
  if [ "$verdict" != good ]; then
    cat "$scratch/err" >&2
    echo "$(basename "$0"): case $1 has no suitable recipe; the last was draw ${drawn[$place]}: $settings" >&2
    exit 1
  fi
  awk -F '\t' -v number="$1" -v place="$place" -v settings="$settings" \
    '{ printf "%02d/%d\t%s\t%s\t%s\t%s\n", number, NR, place, $1, settings, $2 }' "$scratch/layouts"
}

begin_table "$table" "seed $seed, $cases cases, place $place, $steps steps"
if [ ! -e "$table" ]; then
  {
    echo "$header"
    for ((number = 1; number <= cases; number++)); do plan $number; done
  } >"$table.new"
  mv "$table.new" "$table"
  echo "recipes drawn again: $refused without a legal layout, $too_few with fewer than $least_layouts layouts, $too_many" \
    "with more than $most_layouts, $outsized of an unsuitable size"
fi
print_hash "$table"
touch "$measured"
awk -F '\t' -v steps="$steps" -v rounds="$rounds" '/^#/ { next } FILENAME ~ /measured\.tsv$/ { done[$1]++; next }
  { split($1, name, "/"); cases += name[2] == 1; layouts++ }
  done[$1] < rounds { n += rounds - done[$1]; s += (rounds - done[$1]) * (steps * $3 + 2) }
  END { printf "%d cases, %d layouts; %d runs to measure, about %.0f minutes\n", cases, layouts, n, s / 60 }' \
  "$measured" "$table"

failed=0
# measure ROUND: reads lines of layouts from standard input. Trains the layouts that have not been trained in this
# round.
measure() {
  local layout predicted settings choices
  while IFS=$'\t' read -r layout _ predicted settings choices; do
    ! grep -q "^$layout"$'\t'"$1"$'\t' "$measured" || continue
    # shellcheck disable=SC2086
    if train "$place" "$steps" $settings $choices; then
      printf '%s\t%s\t%s\n' "$layout" "$1" "$step_seconds" >>"$measured"
      echo "$layout, round $1: predicted $predicted s, measured $step_seconds"
    else
      echo "$layout failed: $settings $choices" >&2
      failed=1
    fi
  done
}
[ $predict_only = yes ] || for ((number = 1; number <= cases; number++)); do
  grep "^$(printf %02d/ $number)" "$table" >"$scratch/layouts"
  for ((round = 1; round <= rounds; round++)); do
    if ((round % 2)); then measure $round <"$scratch/layouts"; else measure $round < <(tac "$scratch/layouts"); fi
  done
done
awk -v rounds="$rounds" -f tools/bench/median.awk -f tools/bench/exhaustive_plans.awk "$measured" "$table"
exit $failed
