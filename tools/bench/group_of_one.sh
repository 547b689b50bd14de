#!/usr/bin/env bash
# Measures the overhead of the mesh in a run that does not need it. Runs two builds of Hexad on recipes/bench-cpu.yaml
# with one rank and one thread, alternating on one core. OLD is a build without the mesh.
#
#   tools/bench/group_of_one.sh OLD NEW [--rounds 5] [--steps 4] [--core 0]
#
# OLD, NEW: programs. The first step of a run is not counted. Seconds of a step are the median of a run. Ratios are NEW
# to OLD in the same round. "least" compares the shortest steps of all rounds, which other programs disturb the least.
# "cpu" is the CPU time of whole runs in seconds.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

[ $# -ge 2 ] || usage
old=$1 new=$2 rounds=5 steps=4 core=0
shift 2
take_steps "$@"
need "$old" 'give the path of an old build of hexad'
need "$new" 'give the path of a new build of hexad'

measure() {  # measure ROUND NAME PROGRAM: adds the steps of a run to $scratch/rows
  local run=$scratch/$1-$2 TIMEFORMAT='%U %S'
  time taskset -c "$core" "$3" train recipes/bench-cpu.yaml train.precision=f32 train.threads=1 train.steps="$steps" \
    train.peak_flops=1e11 checkpoint.resume=none checkpoint.at_end=false run.dir="$run" >"$run.log" 2>&1 || return 1
  number step_seconds "$run/metrics.jsonl" | tail -n +2 | sed "s/^/$1\t$2\t/" >>"$scratch/rows"
  tail -n 1 "$run/metrics.jsonl" | number loss /dev/stdin >"$scratch/loss-$2"
}

machine
echo "rounds:    $rounds of $steps steps, the first not counted; core $core"
echo "programs:  $old (old), $new (new)"
for ((round = 1; round <= rounds; round++)); do
  if ((round % 2)); then order='old new'; else order='new old'; fi
  for name in $order; do
    if ! measure $round $name "${!name}" 2>"$scratch/cpu"; then
      cat "$scratch/$round-$name.log" >&2
      exit 1
    fi
    awk -v OFS='\t' -v round=$round -v name=$name '{print round, name " cpu", $1 + $2}' "$scratch/cpu" >>"$scratch/rows"
  done
done
echo "last loss: old $(cat "$scratch/loss-old"), new $(cat "$scratch/loss-new")"
awk -F '\t' -f tools/bench/median.awk -f tools/bench/group_of_one.awk "$scratch/rows"
printf '\nround, program, seconds of a step (or CPU seconds of the whole run)\n'
cat "$scratch/rows"
