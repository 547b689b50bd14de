#!/usr/bin/env bash
# Prints by simulation how much of the all-to-all time of Qwen3-30B-A3B on 16 H100 (recipes/clusters/h100-dgx.yaml) is
# hidden behind kernels. Compares two layouts, ep 8 inside nodes with two stages, and ep 16 over both nodes. Schedules
# are: sequence (nothing is hidden), two chunks of tokens, and pairs of overlapping micro-batches. Each schedule also
# runs with one row per token and rank (rows: token). The hidden share is 1 - exposed/all. `all` is the exposed time of
# the sequence with the same rows. Both times are means over the stages. Other trainers' best public share for this
# model and number of GPUs is 37%.
#
#   tools/bench/papers/hidden_exchange.sh [key.path=value ...]
#
# The arguments are further overrides of the recipe. Takes seconds, without root. Environment: HEXAD.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

need "$hexad" 'cmake --preset release && cmake --build --preset release'
for override in "$@"; do [[ $override == *=* ]] || usage "unknown argument '$override', expected key.path=value"; done

# simulate OVERRIDE...: prints the seconds of a step, and the mean over the stages of the exposed seconds of ep. Also
# prints "yes" if the layout fits the memory, otherwise the missing GiB.
simulate() {
  "$hexad" simulate recipes/models/qwen3-30b-a3b.yaml --cluster recipes/clusters/h100-dgx.yaml --world 16 --json \
    recompute=norms "$@" >"$scratch/step.json"
  awk '
    /"step_seconds":/ { sub(/,/, "", $2); step = $2 }
    /"exposed_seconds":/ { in_exposed = 1 }
    in_exposed && /"ep":/ { sub(/,/, "", $2); exposed += $2; stages++; in_exposed = 0 }
    /does not fit/ { match($0, /needs [0-9.]+/); needs = substr($0, RSTART + 6, RLENGTH - 6)
                     match($0, /the [0-9.]+ GiB that/); limit = substr($0, RSTART + 4, RLENGTH - 13) }
    END { print step, exposed / stages, needs == "" ? "yes" : sprintf("%.1f GiB more", needs - limit) }' "$scratch/step.json"
}

machine
printf '\n%-12s %-28s %9s %11s %8s  %s\n' layout schedule 'step s' 'exposed s' hidden 'fits 80 GB'
whole=(schedule.moe.chunk_by=none schedule.moe.chunks=1)
chunks=(schedule.moe.chunk_by=tokens schedule.moe.chunks=2)
pairs=schedule.pipeline.overlap=micro_batches
for layout in 'pp 2, ep 8' 'ep 16'; do
  sizes=(parallel.pp=2 parallel.ep=8)
  [ "$layout" = 'pp 2, ep 8' ] || sizes=(parallel.pp=1 parallel.ep=16)
  for rows in slot token; do
    for schedule in sequence chunks pairs; do
      case $schedule in
      sequence) choices=("${whole[@]}") ;;
      chunks) choices=("${chunks[@]}") ;;
      pairs) choices=("${whole[@]}" $pairs) ;;
      esac
      read -r step exposed fits < <(simulate "${sizes[@]}" "${choices[@]}" "schedule.moe.rows=$rows" "$@")
      [ $schedule != sequence ] || all=$exposed
      name="$schedule$([ $rows = slot ] || echo ', rows of tokens')"
      awk -v layout="$layout" -v name="$name" -v step="$step" -v exposed="$exposed" -v all="$all" -v fits="$fits" \
        'BEGIN { printf "%-12s %-28s %9.3f %11.3f %7.0f%%  %s\n", layout, name, step, exposed, 100 * (1 - exposed / all), fits }'
    done
  done
done
echo 'exposed s: time of all-to-alls that overlaps no kernel; hidden: share of the time in sequence with the same rows that is no longer'
echo 'exposed'
