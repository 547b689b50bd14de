#!/usr/bin/env bash
# Measures MoNTA's communication priority, EP > PP > CP > DP, on emulated nodes of one rank with one link each
# (tools/testbed/rank_nodes.sh). Runs the four conflicts of Fig. 11, EP with DP and PP together, and weights with
# gradients (ZeRO-3; not in the paper). Measures an operation that runs alone. Then measures the operation after
# operations of lower priority have started: with priorities, and in order of arrival. Also measures the time until all
# operations are done. Then runs training steps with and without distributed.priority, in turn.
#
#   tools/bench/papers/priority.sh [--rate 200mbit] [--rounds 5] [--bytes 4194304] [--others 16777216]
#                                  [--low-window '131072 262144'] [--runs 3] [--steps 8] [--train-rate 200mbit]
#                                  [--output FOLDER]
#
# --bytes: bytes that a rank sends in the measured operation. --others: bytes in each of the other operations.
# --low-window: maximum bytes in flight in each direction for each class of lower priority; several values give several
# tables. --runs: number of training runs with priorities, and without them; 0: none. --output: keeps rows in FOLDER. A
# later call with the same settings, for example after the first call was killed, measures only the missing rows. Needs
# root, iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH
# (build/release/bench/comm_priority).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rate=200mbit rounds=5 bytes=4194304 others=16777216 low_window='131072 262144' runs=3 steps=8 train_rate=200mbit output=
while [ $# -gt 0 ]; do
  case $1 in
  --rate) rate=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --bytes) bytes=${2:?} ;;
  --others) others=${2:?} ;;
  --low-window) low_window=${2:?} ;;
  --runs) runs=${2:?} ;;
  --steps) steps=${2:?} ;;
  --train-rate) train_rate=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench comm_priority
kept=${output:-$scratch}
keep_settings "$kept" \
  "$rate, rounds $rounds, bytes $bytes, others $others, runs $runs of $steps steps at $train_rate"
testbed() {  # testbed RATE: prints the command of a testbed with links of RATE
  echo tools/testbed/rank_nodes.sh --nodes 4 --ranks 1 --inter "$1" --intra "$1"
}

machine
echo "testbed:   4 nodes of one rank, $rate each"
echo "rounds:    $rounds; $bytes bytes of the measured operation, $others bytes of each of the other operations"
for window in $low_window; do
  printf '\nlow window: %s bytes\n' "$window"
  add_once "$kept/rows-$window" $(testbed "$rate") "$bench" --rounds "$rounds" --bytes "$bytes" --others "$others" \
    --low-window-bytes "$window"
  print_runs "$kept/rows-$window"
  awk -f tools/bench/median.awk -f tools/bench/papers/priority.awk "$kept/rows-$window"
done
for window in $low_window; do
  printf '\nlow window %s: round, conflict, order, seconds of the operation, seconds until all are done\n' "$window"
  cat "$kept/rows-$window"
done

# train RUN NAME OVERRIDE...: trains, and prints a line for each step except the first two: run, name, step seconds, and
# exposed seconds of ep, pp and dp.
train() {
  $(testbed "$train_rate") "$hexad" train recipes/papers/monta-priority.yaml train.steps="$steps" \
    run.dir="$scratch/$2-$1" "${@:3}" >"$scratch/log" 2>&1 || {
    cat "$scratch/log" >&2
    exit 1
  }
  awk -v run="$1" -v name="$2" '
    function exposed(traffic,    x) {
      x = $0
      sub(/.*"comm_exposed_seconds": *{/, "", x)
      sub(/}.*/, "", x)
      if (!sub(".*\"" traffic "\": *", "", x)) return 0
      return x + 0
    }
    /"step_seconds"/ && ++n > 2 {
      match($0, /"step_seconds": *[0-9.e-]+/)
      step = substr($0, RSTART, RLENGTH)
      sub(/.*: */, "", step)
      print run "\t" name "\t" step "\t" exposed("ep") "\t" exposed("pp") "\t" exposed("dp")
    }' "$scratch/$2-$1/metrics.jsonl"
}
# compete RUN NAME OVERRIDE...: adds the lines of a training run if they are not stored.
compete() { has_rows "$kept/steps" "$1"$'\t'"$2" || add_whole "$kept/steps" train "$@"; }

[ "$runs" -gt 0 ] || exit 0
printf '\ntraining:  recipes/papers/monta-priority.yaml (pp 2, ep 2), %s per rank, %s runs of %s steps for each setting\n' \
  "$train_rate" "$runs" "$steps"
for ((run = 1; run <= runs; run++)); do
  for zero in 0 2 3; do
    compete "$run" "zero$zero-priority" parallel.zero=$zero
    compete "$run" "zero$zero-fifo" parallel.zero=$zero distributed.priority=[]
  done
done
print_runs "$kept/steps"
awk -f tools/bench/median.awk -f tools/bench/papers/priority_steps.awk "$kept/steps"
