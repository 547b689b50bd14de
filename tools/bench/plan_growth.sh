#!/usr/bin/env bash
# Measures the time and memory that `hexad plan` and `hexad simulate` need for Mixtral-8x7B with contexts of 32K tokens
# on DGX H100 nodes. Prints a line for each number of ranks. `hexad simulate` runs on the best layout of each plan.
#
#   tools/bench/plan_growth.sh [--svg FILE] [RANKS...]     default: 64, 256, 1024, 4096, 16384 and 65536 ranks
#
# --svg: also draws the CPU seconds over the number of ranks.
#
# Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

svg=
if [ "${1:-}" = --svg ]; then
  svg=${2:?}
  shift 2
fi
[ $# -gt 0 ] || set -- 64 256 1024 4096 16384 65536
for ranks; do
  [[ $ranks =~ ^[1-9][0-9]*$ ]] || usage "a number of ranks is '$ranks', expected a whole number above 0"
done
need "$hexad" 'cmake --preset release && cmake --build --preset release'
need /usr/bin/time 'apt-get install time'
machine

# timed COMMAND...: runs COMMAND on one core. Sets $cpu to its CPU seconds and $mib to its peak memory in MiB.
timed() {
  taskset -c 0 /usr/bin/time -o "$scratch/time" -f '%U %S %M' "$@"
  read -r cpu mib < <(awk '{ printf "%.2f %d\n", $1 + $2, $3 / 1024 }' "$scratch/time")
}

printf '\n%8s %13s %12s %10s %16s %14s %12s\n' ranks 'legal layouts' 'plan, CPU s' 'plan, MiB' 'simulate, CPU s' \
  'simulate, MiB' 'step, s'
for ranks; do
  nodes=cluster.machine.nodes=$(((ranks + 7) / 8))
  best=$scratch/best-$ranks.yaml
  timed "$hexad" plan recipes/models/mixtral-8x7b.yaml --cluster recipes/clusters/h100-dgx.yaml --ranks "$ranks" \
    --context 32K batch.global=$((ranks < 1024 ? 1024 : ranks)) "$nodes" --json --out "$best" >"$scratch/plan.json"
  plan_cpu=$cpu plan_mib=$mib
  timed "$hexad" simulate "$best" --cluster recipes/clusters/h100-dgx.yaml --world "$ranks" "$nodes" >/dev/null
  printf '%8d %13s %12s %10d %16s %14d %12.3f\n' "$ranks" "$(number legal "$scratch/plan.json")" "$plan_cpu" "$plan_mib" \
    "$cpu" "$mib" "$(number step_seconds "$scratch/plan.json" | head -n 1)" | tee -a "$scratch/table"
done
[ -z "$svg" ] || awk -f tools/bench/plan_growth_plot.awk "$scratch/table" >"$svg"
