#!/usr/bin/env bash
# Prints a table of runs that shows which advisers were right. An adviser is an algorithm of a paper (MoNTA's Algorithms
# 1 to 3, Parm's Algorithm 1, EPS-MoE's number of groups, MPMoE's paradigms). The program asks the advisers in a run
# that has a schedule.profile and leaves choices of schedule.moe to `auto` (docs/auto-schedules.md). Measures nothing.
#
#   tools/bench/papers/advisers.sh RUN...
#
# RUN: folder of a run, with metrics.jsonl, in which the program chose a schedule.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/tools/bench/common.sh"

case ${1:-} in
'' | -*) usage ;;
esac
rows=$scratch/rows
for run in "$@"; do
  [ -f "$run/metrics.jsonl" ] && [ -r "$run/metrics.jsonl" ] ||
    usage "RUN is '$run', expected the folder of a run with a readable metrics.jsonl"
  awk -v run="$run" -f "$root/tools/bench/papers/advice_rows.awk" "$run/metrics.jsonl" >>"$rows"
done
[ -s "$rows" ] ||
  usage "no run has schedule_choice in metrics.jsonl; expected runs with schedule.profile and an auto key of schedule.moe"
cd "$root"
awk -f tools/bench/median.awk -f tools/bench/papers/advisers.awk "$rows"
