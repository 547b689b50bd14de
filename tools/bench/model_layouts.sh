#!/usr/bin/env bash
# Compares the layouts of recipes/models with the layouts that `hexad plan` finds for a named cluster. Prints a line for
# each model: cluster, ranks, the predicted step of the unchanged recipe, the predicted step of the plan's best layout,
# and the ratio of the two steps.
#
#   tools/bench/model_layouts.sh [--only PATTERN]
#
# model_layouts.tsv has the clusters and numbers of ranks. --only: rows whose recipe matches an extended regular
# expression. Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

take_only "$@"
need "$hexad" 'cmake --preset release && cmake --build --preset release'
machine
printf '%-20s %-14s %6s %14s %14s %10s %s\n' recipe cluster ranks 'recipe, s' 'best, s' ratio 'recipe fits'
while IFS=$'\t' read -r recipe cluster ranks; do
  [ "$recipe" != recipe ] && [[ $recipe =~ $only ]] || continue
  if "$hexad" plan "recipes/models/$recipe.yaml" --cluster "recipes/clusters/$cluster.yaml" --ranks "$ranks" \
    --explain --json >"$scratch/out" 2>"$scratch/err"; then
    awk -v recipe="$recipe" -v cluster="$cluster" -v ranks="$ranks" -F '[:,]' '
      /"to_recipe_as_it_is"/ { own = 1 }
      /"step_seconds"/ && !own && !best { best = $2 }
      /"step_seconds"/ && own && !seconds { seconds = $2 }
      own && /"fits"/ { fits = $2 }
      own && /"error"/ { fits = "no: " $0 }
      END { printf "%-20s %-14s %6d %14.4f %14.4f %10.3f %s\n", recipe, cluster, ranks, seconds, best, seconds / best, fits }
    ' "$scratch/out" | tee -a "$scratch/planned"
  else
    echo "$recipe: $(tail -n 1 "$scratch/err")" >&2
    echo "$recipe" >>"$scratch/failed"
  fi
done <tools/bench/model_layouts.tsv
[ -s "$scratch/planned" ] || [ -e "$scratch/failed" ] ||
  usage "--only is '$only', expected a pattern that matches a row of tools/bench/model_layouts.tsv"
if [ -e "$scratch/failed" ]; then
  echo "$(wc -l <"$scratch/failed") recipes could not be planned; see above" >&2
  exit 1
fi
