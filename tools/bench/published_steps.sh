#!/usr/bin/env bash
# Compares predicted steps with steps that users of other trainers have published (published_steps.tsv: settings, tokens
# per second of each GPU or MFU, grade of the source). Simulates each row on the cluster that it names (hexad simulate).
# No value in the cluster files is fitted to these rows. Prints a line for each row, then the errors by measure and
# grade, and Kendall's tau for each model with at least five rows of the same measure.
#
#   tools/bench/published_steps.sh [--only PATTERN]
#
# Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

# Defaults of the layout keys that a row does not give, because the recipes have their own layouts.
defaults=(parallel.cp_kind=ring parallel.order=auto schedule.pipeline.kind=1f1b schedule.pipeline.overlap=none
  schedule.pipeline.virtual_stages=2 schedule.moe.chunk_by=none schedule.moe.chunks=auto distributed.bucket_bytes=auto)

take_only "$@"
need "$hexad" 'cmake --preset release && cmake --build --preset release'
machine
while IFS=$'\t' read -r id recipe cluster ranks overrides tokens mfu grade rest; do
  [ "$id" != id ] && [[ $id =~ $only ]] || continue
  # shellcheck disable=SC2086  # split into words on purpose
  if "$hexad" simulate "recipes/models/$recipe.yaml" --cluster "recipes/clusters/$cluster.yaml" --world "$ranks" \
    --json "${defaults[@]}" $overrides >"$scratch/out" 2>"$scratch/err"; then
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$id" "$recipe" "$ranks" "$grade" "$tokens" "$mfu" \
      "$(number tokens_per_second "$scratch/out")" "$(number mfu "$scratch/out")"
  else
    echo "$id: $(tail -n 1 "$scratch/err")" >&2
    echo "$id" >>"$scratch/failed"
  fi
done <tools/bench/published_steps.tsv >"$scratch/rows"
[ -s "$scratch/rows" ] || [ -e "$scratch/failed" ] ||
  usage "--only is '$only', expected a pattern that matches a row of tools/bench/published_steps.tsv"
awk -f tools/bench/median.awk -f tools/bench/published_steps.awk "$scratch/rows"
if [ -e "$scratch/failed" ]; then
  echo "$(wc -l <"$scratch/failed") rows could not be simulated; see above" >&2
  exit 1
fi
