#!/usr/bin/env bash
# Compares predicted step times and memory peaks (hexad simulate, hexad validate) with measured ones, for random small
# recipes and layouts. Uses 1, 2, 4 and 8 ranks, each on its own core, and two emulated nodes. All cases are predicted
# before the first step is measured. Then the script prints the hash of the table of predictions. Cases that the output
# folder already contains are not repeated, so the same command continues after an interruption.
#
#   tools/bench/predicted_steps.sh [--seed 1] [--cases 40] [--places '1 2 4 8 nodes'] [--steps 8] [--cluster FILE]
#                                  [--seconds 120] [--output runs/predicted-steps] [--predict-only]
#
# --cases: number of cases over all places, rounded up to the same number at each place. --cluster: file for predictions
# at all places; without it, `hexad profile` measures each place for --seconds. --predict-only: trains no case. Without
# --cluster, a short run of a fixed recipe shows the speed of the machine before and after each profile and each case.
# The emulated nodes have no such runs. Prints the errors of the times as measured. Where the speed is known, also
# prints the errors of the times scaled to the machine's speed during its profile. random_recipe.awk draws the recipes.
# A recipe is skipped if `hexad validate` refuses it. It is also skipped if a step has less than 1 or more than 16 GFLOP
# per rank (about 20 to 500 ms). Environment: HEXAD (program; build/release/bin/hexad). With a packed program, use:
#   HEXAD=hexad tools/gpu/with_libraries.sh tools/bench/predicted_steps.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh
. tools/bench/predictions.sh

places='1 2 4 8 nodes' steps=8 output=runs/predicted-steps
while [ $# -gt 0 ]; do
  case $1 in
  --places) places=${2:?} taken=2 ;;
  --steps) steps=${2:?} taken=2 ;;
  *) take_option "$@" || usage "unknown option '$1'" ;;
  esac
  shift $taken
done
check_options
seen=' '
for place in $places; do
  is_place "$place" || usage "--places has '$place', expected 1, 2, 4, 8 or nodes"
  [[ $seen != *" $place "* ]] || usage "--places has '$place' twice, expected each place once"
  seen+="$place "
done
# shellcheck disable=SC2086  # split into words on purpose
begin $places

predictions=$output/predictions.tsv measured=$output/measured.tsv
refused=0 outsized=0

# predict PLACE NUMBER: draws recipes until one is legal and has a suitable size. Prints the line of this recipe for the
# table: case, place, predicted seconds of a step, both limits of the interval around these seconds, peak bytes of the
# rank that needs the most, settings.
predict() {
  local ranks i settings verdict=
  ranks=$(ranks_of "$1")
  for ((i = 0; i < most_draws; i++)); do
    draw random_recipe "$1"
    # shellcheck disable=SC2086  # split into words on purpose
    judge "$ranks" $settings
    case $verdict in
    refused) refused=$((refused + 1)) ;;
    outsized) outsized=$((outsized + 1)) ;;
    good) break ;;
    esac
  done
  # shellcheck disable=SC2086
  if [ "$verdict" != good ] || ! "$hexad" simulate $recipe --cluster "$output/cluster.$1.yaml" --world "$ranks" --json \
    run.dir="$scratch/run" "${run_settings[@]}" $settings >"$scratch/simulated" 2>"$scratch/err"; then
    cat "$scratch/err" >&2
    echo "$(basename "$0"): case $2 of place $1 has no prediction after draw ${drawn[$1]}: $settings" >&2
    exit 1
  fi
  printf '%s.%02d\t%s\t%s\t%s\t%s\n' "$1" "$2" "$1" \
    "$(tr -d ' \n' <"$scratch/simulated" |
      sed 's/.*"step_seconds":\([^,]*\),"step_seconds_interval":\[\([^,]*\),\([^]]*\)\].*/\1\t\2\t\3/')" \
    "$(tr -d ' \n' <"$scratch/validated" | sed 's/.*"memory_bytes":{[^}]*"total":\([0-9]*\).*/\1/')" "$settings"
}

begin_table "$predictions" "seed $seed, $cases cases, places $places, $steps steps"
if [ ! -e "$predictions" ]; then
  count=$(wc -w <<<"$places")
  {
    echo "$header"
    for ((number = 1; number <= (cases + count - 1) / count; number++)); do
      for place in $places; do predict "$place" "$number"; done
    done
  } >"$predictions.new"
  mv "$predictions.new" "$predictions"
  echo "cases drawn again: $refused that hexad validate refuses, $outsized of an unsuitable size"
fi
print_hash "$predictions"
touch "$measured"
awk -F '\t' -v steps="$steps" '/^#/ { next } FILENAME ~ /measured\.tsv$/ { done[$1] = 1; next }
  !($1 in done) { n++; s += steps * $3 + 4 }
  END { printf "%d cases to measure, about %.0f minutes\n", n, s / 60 }' "$measured" "$predictions"

failed=0
[ $predict_only = yes ] || while IFS=$'\t' read -r case place predicted _ _ _ settings; do
  if [[ $case == \#* ]] || grep -qF "$case"$'\t' "$measured"; then continue; fi
  reference=-
  [ ! -e "$output/reference.$place" ] || reference "$place"
  before=$reference
  # shellcheck disable=SC2086
  if train "$place" "$steps" $settings; then
    of_case=$step_seconds peak_of_case=$peak
    [ "$before" = - ] || reference "$place"
    printf '%s\t%s\t%s\t%s\n' "$case" "$peak_of_case" "$of_case" "$(mean_of "$before" "$reference")" >>"$measured"
    echo "$case: predicted $predicted s, measured $of_case"
  else
    echo "$case failed: $settings" >&2
    failed=1
  fi
done <"$predictions"
awk -f tools/bench/median.awk -f tools/bench/predicted_steps.awk "$measured" "$predictions"
exit $failed
