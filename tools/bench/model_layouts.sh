#!/usr/bin/env bash
# Compares the layouts of recipes/models with the layouts that `hexad plan` finds for a named cluster. Prints a line for
# each model: cluster, ranks, predicted step of the unchanged recipe, predicted step of the best planned layout, and the
# ratio of the two steps. The plan ignores the recipe's own layout.
#
#   tools/bench/model_layouts.sh [--only PATTERN]
#
# model_layouts.tsv has the clusters and numbers of ranks. --only: uses only the rows whose recipe matches an extended
# regular expression. Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

# Resets the keys of a recipe's layout to their defaults, so that the search does not include the recipe's own layout.
no_layout=(parallel.tp=1 parallel.sp=false parallel.pp=1 parallel.cp=1 parallel.cp_kind=ring parallel.ep=1 parallel.etp=auto
  parallel.zero=0 parallel.order=auto schedule.pipeline.kind=1f1b schedule.pipeline.virtual_stages=2
  schedule.pipeline.overlap=none schedule.moe.chunk_by=none schedule.moe.chunks=auto distributed.bucket_bytes=auto
  batch.micro=1 recompute=none)

take_only "$@"
need "$hexad" 'cmake --preset release && cmake --build --preset release'
machine
printf '%-20s %-14s %6s %14s %14s %10s\n' recipe cluster ranks 'recipe, s' 'best, s' ratio
while IFS=$'\t' read -r recipe cluster ranks; do
  [ "$recipe" != recipe ] && [[ $recipe =~ $only ]] || continue
  if "$hexad" plan "recipes/models/$recipe.yaml" --cluster "recipes/clusters/$cluster.yaml" --ranks "$ranks" \
    --json "${no_layout[@]}" >"$scratch/out" 2>"$scratch/err" &&
    "$hexad" simulate "recipes/models/$recipe.yaml" --cluster "recipes/clusters/$cluster.yaml" --world "$ranks" --json \
      >"$scratch/own" 2>"$scratch/err"; then
    best=$(number step_seconds "$scratch/out" | head -n 1) own=$(number step_seconds "$scratch/own" | head -n 1)
    awk -v recipe="$recipe" -v cluster="$cluster" -v ranks="$ranks" -v own="$own" -v best="$best" \
      'BEGIN { printf "%-20s %-14s %6d %14.4f %14.4f %10.3f\n", recipe, cluster, ranks, own, best, own / best }' |
      tee -a "$scratch/planned"
  else
    echo "$recipe: $(tail -n 1 "$scratch/err")" >&2
    echo "$recipe" >>"$scratch/failed"
  fi
done <tools/bench/model_layouts.tsv
[ -s "$scratch/planned" ] || [ -e "$scratch/failed" ] ||
  usage "--only is '$only', expected a pattern that matches a row of tools/bench/model_layouts.tsv"
if [ -e "$scratch/failed" ]; then
  echo "recipes that could not be planned: $(wc -l <"$scratch/failed"); see above" >&2
  exit 1
fi
