#!/usr/bin/env bash
# Compares predicted steps with steps that users of other trainers have published (published_steps.tsv: settings, tokens
# per second or TFLOP/s of each GPU, grade of the source, reason why Hexad cannot predict a row). Simulates each row on
# the cluster that it names (hexad simulate). No value in the cluster files is fitted to these rows. Prints three
# tables: the gated rows (grade A, bf16, published in tokens/s, predicted), the rows with TFLOP/s or MFU alone, and all
# other rows. Then prints the errors by measure and grade and by GPU, and the aims with their values. Also prints the
# quantiles that limit the intervals around predictions (tools/plan/prediction_error.cpp).
#
#   tools/bench/published_steps.sh [--only PATTERN | --gate]
#
# --only: uses only the rows whose id matches an extended regular expression. --gate: exits with 1 if an aim is missed.
# For the gated rows, the aims are a median error of at most 15% and a worst error of at most 40%. For each model with
# five or more predicted rows, the aim is a Kendall's tau of at least 0.8.
#
# Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

# Defaults of the layout keys that a row does not give, because the recipes have their own layouts.
defaults=(parallel.cp_kind=ring parallel.order=auto schedule.pipeline.kind=1f1b schedule.pipeline.overlap=none
  schedule.pipeline.virtual_stages=2 schedule.moe.chunk_by=none schedule.moe.chunks=auto distributed.bucket_bytes=auto)

gate=0
if [[ " $* " = *' --gate '* ]]; then
  [ $# -eq 1 ] || usage "the options are '$*', expected --gate alone, because the aims are for all rows together"
  gate=1
  shift
fi
take_only "$@"
need "$hexad" 'cmake --preset release && cmake --build --preset release'
machine
while IFS=$'\t' read -r id model recipe cluster ranks overrides tokens tflops formula grade reason rest; do
  [ "$id" != id ] && [[ $id =~ $only ]] || continue
  predicted=-
  if [ "$recipe" != - ]; then
    # shellcheck disable=SC2086  # split into words on purpose
    if "$hexad" simulate "recipes/models/$recipe.yaml" --cluster "recipes/clusters/$cluster.yaml" --world "$ranks" \
      --json "${defaults[@]}" $overrides >"$scratch/out" 2>"$scratch/err"; then
      predicted=$(number tokens_per_second "$scratch/out")
    else
      echo "$id: $(tail -n 1 "$scratch/err")" >&2
      echo "$id" >>"$scratch/failed"
      reason=failed
    fi
  fi
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$id" "$model" "$cluster" "$ranks" "$overrides" "$tokens" \
    "$tflops" "$formula" "$grade" "$reason" "$predicted"
done <tools/bench/published_steps.tsv >"$scratch/rows"
[ -s "$scratch/rows" ] ||
  usage "--only is '$only', expected a pattern that matches a row of tools/bench/published_steps.tsv"
status=0
awk -v gate=$gate -f tools/bench/median.awk -f tools/bench/megatron_flops.awk -f tools/bench/published_steps.awk \
  tools/bench/published_models.tsv "$scratch/rows" || status=$?
if [ -e "$scratch/failed" ]; then
  echo "rows that could not be simulated: $(wc -l <"$scratch/failed"); see above" >&2
  exit 1
fi
exit $status
