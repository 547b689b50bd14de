#!/usr/bin/env bash
# Measures exposed communication by class of traffic. A class is exposed while a rank's own thread is blocked and a
# thread of the rank waits for the class. Trains on two emulated nodes of four ranks (tools/testbed/two_nodes.sh), at
# one level of ZeRO after the other. Experts are inside a node, and data parallelism is across nodes. Compares this
# program with priorities (now) and this program in order of arrival (fifo). --before adds a program of an earlier
# commit (before). Prints a table, and then the measured rows.
#
#   tools/bench/exposed.sh [--before PROGRAM] [--zero '0 1 2 3'] [--rate 200mbit] [--rounds 2] [--steps 8]
#                          [--rows FILE] [KEY.PATH=VALUE ...]
#
# --rows: stores the rows in FILE. If FILE exists, prints its table and measures nothing. The overrides KEY.PATH=VALUE
# apply to all runs. The first two steps of a run are not counted. Needs root, iproute2 and openmpi-bin (otherwise exits
# with 77). Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

before='' levels='0 1 2 3' rate=200mbit rounds=2 steps=8 rows=$scratch/rows
while [ $# -gt 0 ]; do
  case $1 in
  --before) before=${2:?} ;;
  --zero) levels=${2:?} ;;
  --rate) rate=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --steps) steps=${2:?} ;;
  --rows) rows=${2:?} ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ "$steps" -ge 3 ] || usage "--steps is '$steps', expected at least 3, because the first two steps are not counted"

# measure ROUND ZERO VARIANT PROGRAM OVERRIDE...: prints a row for each class of each step: ZeRO level, variant, round
# and step, class, exposed seconds, seconds of the step, loss.
measure() {
  local run=$scratch/$1-$2-$3 status=0
  tools/testbed/two_nodes.sh --nodes 2 --ranks 4 --rate "$rate" "$4" train recipes/bench-cpu.yaml parallel.ep=4 \
    parallel.zero="$2" model.vocab=512 model.moe.routing=balanced batch.micro=1 batch.global=32 train.threads=1 \
    train.steps="$steps" train.peak_flops=1e11 train.eval_every=0 checkpoint.every=0 checkpoint.resume=none \
    checkpoint.at_end=false run.dir="$run" "${@:5}" >"$scratch/log" 2>&1 || status=$?
  [ $status -eq 0 ] || {
    cat "$scratch/log" >&2
    exit $status
  }
  grep -F '{"kind":"step",' "$run/metrics.jsonl" | tail -n +3 | awk -v zero="$2" -v variant="$3" -v round="$1" '{
    match($0, /"step_seconds": *[0-9.e+-]+/)
    seconds = substr($0, RSTART, RLENGTH)
    sub(/.*: */, "", seconds)
    match($0, /"loss": *[0-9.e+-]+/)
    loss = substr($0, RSTART, RLENGTH)
    sub(/.*: */, "", loss)
    match($0, /"comm_exposed_seconds": *\{[^}]*\}/)
    classes = substr($0, RSTART, RLENGTH)
    gsub(/.*\{|\}|"| /, "", classes)
    for (n = split(classes, part, /[:,]/); n > 1; n -= 2)
      printf "%s\t%s\t%s.%d\t%s\t%s\t%s\t%s\n", zero, variant, round, NR, part[n - 1], part[n], seconds, loss
  }'
}

if [ ! -s "$rows" ]; then
  need "$hexad" 'cmake --preset release && cmake --build --preset release'
  [ -z "$before" ] || need "$before" 'build the earlier commit in a separate folder'
  machine >"$scratch/all"
  for ((round = 1; round <= rounds; round++)); do
    for zero in $levels; do
      [ -z "$before" ] || measure "$round" "$zero" before "$before" "$@" >>"$scratch/all"
      measure "$round" "$zero" now "$hexad" "$@" >>"$scratch/all"
      measure "$round" "$zero" fifo "$hexad" "$@" distributed.priority=[] >>"$scratch/all"
    done
  done
  cp "$scratch/all" "$rows.new"
  mv "$rows.new" "$rows"
fi
awk -f tools/bench/median.awk -f tools/bench/exposed.awk "$rows"
printf '\nZeRO level, variant, round.step, class, exposed seconds, seconds of the step, loss\n'
cat "$rows"
