#!/usr/bin/env bash
# Measures how the costs of one rank grow with the number of ranks of the job, without the other ranks. Prints a table for
# each activity: messages of the rank, bytes of these messages, memory, milliseconds.
#
#   tools/bench/scale_growth.sh [RANKS...]     default: 64, 256, 1024, 4096, 16384 and 65536 ranks; powers of two
#
# Environment: BENCH (the measuring program; build/release/bench/scale_growth).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

[ $# -gt 0 ] || set -- 64 256 1024 4096 16384 65536
for ranks; do [[ $ranks =~ ^[1-9][0-9]*$ ]] || usage "a number of ranks is '$ranks', expected a whole number"; done
bench=${BENCH:-build/release/bench/scale_growth}
need "$bench" 'cmake --build --preset release --target scale_growth'
machine

taskset -c 0 "$bench" "$@" >"$scratch/rows"
awk -F '\t' '
  !($2 in seen) { seen[$2] = 1; order[++kinds] = $2 }
  { lines[$2] = lines[$2] sprintf("%8d %12d %16d %12.2f %12.2f\n", $1, $3, $4, $5 / 1048576, 1000 * $6) }
  END {
    for (k = 1; k <= kinds; ++k)
      printf "\n%s\n%8s %12s %16s %12s %12s\n%s", order[k], "ranks", "messages", "message bytes", "MiB", "ms", lines[order[k]]
  }' "$scratch/rows"
