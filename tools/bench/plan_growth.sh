#!/usr/bin/env bash
# Measures the time and memory that `hexad plan` and `hexad simulate` take for Mixtral-8x7B with contexts of 32K tokens
# on DGX H100 nodes. Prints a line for each number of ranks. The plan's best layout is the simulated one.
#
#   tools/bench/plan_growth.sh [RANKS...]     default: 64, 256, 1024, 4096, 16384 and 65536 ranks
#
# Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

[[ ${1:-1} =~ ^[0-9]+$ ]] || usage
[ $# -gt 0 ] || set -- 64 256 1024 4096 16384 65536
need "$hexad" 'cmake --preset release && cmake --build --preset release'
need /usr/bin/time 'apt-get install time'
machine
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
timed() { taskset -c 0 /usr/bin/time -o "$scratch/time" -f '%U %M' "$@"; }
printf '\n%8s %13s %12s %10s %16s %12s\n' ranks 'legal layouts' 'plan, CPU s' 'plan, MiB' 'simulate, CPU s' 'step, s'
for ranks; do
  nodes=cluster.machine.nodes=$((ranks < 8 ? 1 : ranks / 8))
  best=$scratch/best-$ranks.yaml
  timed "$hexad" plan recipes/models/mixtral-8x7b.yaml --cluster recipes/clusters/h100-dgx.yaml --ranks "$ranks" \
    --context 32K batch.global=$((ranks < 1024 ? 1024 : ranks)) "$nodes" --json --out "$best" >"$scratch/plan.json"
  read -r seconds kib <"$scratch/time"
  legal=$(sed -n 's/.*"legal": \([0-9]*\).*/\1/p' "$scratch/plan.json")
  step=$(sed -n 's/.*"step_seconds": \([0-9.e+-]*\),*/\1/p' "$scratch/plan.json" | head -n 1)
  timed "$hexad" simulate "$best" --cluster recipes/clusters/h100-dgx.yaml --world "$ranks" "$nodes" >/dev/null
  read -r simulated _ <"$scratch/time"
  printf '%8d %13s %12s %10d %16s %12.3f\n' "$ranks" "$legal" "$seconds" $((kib / 1024)) "$simulated" "$step"
done
