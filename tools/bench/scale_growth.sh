#!/usr/bin/env bash
# Measures how the costs of one rank grow with the number of ranks of the job. The other ranks do not run. Prints a
# table for each activity: messages of the rank, bytes of these messages, memory, milliseconds. growth_before.awk has
# costs of an older version, whose agreements did not use trees. The columns "before" show these costs where they are
# known. Also plots the messages before and now.
#
#   tools/bench/scale_growth.sh [--svg FILE] [RANKS...]
#
# The default is 64, 256, 1024, 4096, 16384 and 65536 ranks. Numbers must be powers of two of at least 64. --svg also
# draws the plot into FILE. Environment: BENCH (the measuring program; build/release/bench/scale_growth).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

svg=
if [ "${1:-}" = --svg ]; then
  [ $# -ge 2 ] || usage '--svg needs the name of a file'
  svg=$2
  shift 2
fi
[ $# -gt 0 ] || set -- 64 256 1024 4096 16384 65536
for ranks; do
  [[ $ranks =~ ^[1-9][0-9]*$ ]] || usage "a number of ranks is '$ranks', expected a power of two of at least 64"
done
bench=${BENCH:-build/release/bench/scale_growth}
need "$bench" 'cmake --build --preset release --target scale_growth'
machine

taskset -c 0 "$bench" "$@" >"$scratch/rows"
awk -F '\t' -f tools/bench/growth_before.awk -f tools/bench/growth_table.awk "$scratch/rows"
awk -F '\t' -v svg="$svg" -f tools/bench/growth_before.awk -f tools/bench/growth_plot.awk "$scratch/rows"
[ -z "$svg" ] || printf '\n%s\n' "$svg"
