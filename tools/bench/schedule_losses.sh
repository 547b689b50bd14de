#!/usr/bin/env bash
# Compares the losses of many schedules of MoE layers, and of auto, with the losses of one rank. Trains several recipes
# of recipes/ in f64 for --steps steps. The four ranks (tp 2, etp 2, ep 2) are configured as two nodes. The reference is
# the same recipe with its own schedule on one rank. Prints the largest relative difference between the losses of a
# schedule and of the reference. Exits with 1 if a relative difference is above 1e-10, or if a run fails.
#
#   tools/bench/schedule_losses.sh [--steps 16] [--recipes 'quickstart ...'] [--output FOLDER]
#
# Needs data/quickstart (tools/quickstart.sh prepares it), but not its held-out part. Batches always have eight
# sequences of 64 tokens. Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

steps=16 recipes='quickstart arctic-like deepseek-like encoder long-context bench-cpu demo verify-moe' output=
while [ $# -gt 0 ]; do
  case $1 in
  --steps) steps=${2:?} ;;
  --recipes) recipes=${2:?} ;;
  --output) output=${2:?} ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
output=${output:-runs/schedule-losses/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
need "$hexad" 'cmake --preset release && cmake --build --preset release'
[ -d data/quickstart ] || usage 'data/quickstart is missing: tools/quickstart.sh prepares it'

# Each line has a name, followed by keys of the recipe's section schedule.
schedules=(
  'fastmoe'
  'deepspeed moe.duplicates=baseline'
  'monta-baseline moe.duplicates=replicated'
  'monta-o1 moe.duplicates=drop'
  'monta-o2 moe.duplicates=drop moe.overlap=a2a_allgather moe.chunks=2'
  'monta-o3 moe.duplicates=drop moe.overlap=a2a_allgather_copy moe.chunks=2'
  'parm-s1 moe.duplicates=pause_before_gate moe.esp_exchange=direct'
  'parm-s2 moe.duplicates=pause_after_gate moe.esp_exchange=direct'
  'parm-s2-saa moe.duplicates=pause_after_gate moe.esp_exchange=direct moe.overlap=a2a_allgather moe.chunks=4'
  'pipemoe moe.chunk_by=tokens moe.chunks=3'
  'tutel moe.chunk_by=tokens moe.chunks=2 moe.order=returns_last'
  'weights-last moe.chunk_by=tokens moe.chunks=2 moe.order=weights_last'
  'fastermoe moe.chunk_by=nodes moe.chunks=2 moe.order=returns_last'
  'shadow moe.hot_experts=shadow moe.hot_load=1'
  'eps moe.chunk_by=experts moe.chunks=2 moe.rows=token moe.gemms=by_load'
  'eps-whole moe.rows=token moe.gemms=dense'
  'mpmoe-s1 moe.chunk_by=tokens moe.chunks=2 moe.memory_reuse=s1'
  'mpmoe-s2 moe.chunk_by=tokens moe.chunks=2 moe.memory_reuse=s2'
  'mpmoe-s3 moe.chunk_by=tokens moe.chunks=2 moe.memory_reuse=s3'
  'mpmoe-s4 moe.chunk_by=tokens moe.chunks=2 moe.memory_reuse=s4'
  'limited moe.chunk_by=tokens moe.chunks=2 moe.memory_reuse=s4 moe.memory_limit=8388608'
  'two-levels moe.esp_exchange=direct moe.all_to_all=hierarchical'
  'beside moe.shared=beside'
  'two-batches pipeline.overlap=micro_batches'
  'auto moe.duplicates=auto moe.overlap=auto moe.chunk_by=auto moe.chunks=auto moe.trial_share=0.5'
  'auto-all moe.duplicates=auto moe.overlap=auto moe.chunk_by=auto moe.chunks=auto moe.rows=auto moe.order=auto moe.memory_reuse=auto'
)
common=(train.steps="$steps" train.precision=f64 train.threads=1 train.eval_every=0 checkpoint.every=0
  train.peak_flops=1e9 checkpoint.at_end=false run.heldout_prompts=0 model.context=64 batch.global=8 parallel.cp=1)
set_launcher 4 mpi_yield_when_idle 1 btl_vader_single_copy_mechanism none
# shellcheck disable=SC2016  # each rank expands the variables
mpi+=(bash -c 'export HEXAD_NODE=$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} / 2)); exec "$0" "$@"')

losses() { number loss "$1/metrics.jsonl" | head -n "$steps"; }
difference() {  # difference FOLDER FOLDER: prints the largest relative difference over all steps
  paste <(losses "$1") <(losses "$2") | awk -v n="$steps" '
    NF < 2 { exit }
    { d = ($2 - $1) / $1; if (d < 0) d = -d; if (d > m) m = d; rows++ }
    END { if (rows == n) printf "%.2g\n", m; else print "missing" }'
}

mkdir "$scratch/data"
cp data/quickstart/{train.hxd,tokenizer.json} "$scratch/data"

machine
echo "steps:     $steps, f64; relative difference of the losses from those of one rank"
failed=0
for recipe in $recipes; do
  of_recipe=("${common[@]}")
  grep -q 'synthetic: true' "recipes/$recipe.yaml" || of_recipe+=(data.dataset="$scratch/data")
  one=$output/$recipe-one
  "$hexad" train "recipes/$recipe.yaml" "${of_recipe[@]}" batch.micro=2 parallel.tp=1 parallel.ep=1 parallel.etp=1 run.dir="$one" \
    >"$one.log" 2>&1 || { tail -n 3 "$one.log" && exit 1; }
  for schedule in "${schedules[@]}"; do
    read -r name settings <<<"$schedule"
    if [ "$name" = beside ] && ! grep -q '^ *shared_experts: *[1-9]' "recipes/$recipe.yaml"; then continue; fi
    run=$output/$recipe-$name
    # shellcheck disable=SC2086  # split into words on purpose
    "${mpi[@]}" "$hexad" train "recipes/$recipe.yaml" "${of_recipe[@]}" batch.micro=2 parallel.tp=2 parallel.etp=2 parallel.ep=2 \
      run.dir="$run" $(printf 'schedule.%s ' $settings | sed 's/schedule. $//') >"$run.log" 2>&1 ||
      { printf '%-14s %-16s FAILED, see %s\n' "$recipe" "$name" "$run.log" && failed=1 && continue; }
    d=$(difference "$one" "$run")
    verdict=$(awk -v d="$d" 'BEGIN { print d != "missing" && d + 0 <= 1e-10 ? "ok" : "TOO LARGE" }')
    [ "$verdict" = ok ] || failed=1
    printf '%-14s %-16s %-9s %s\n' "$recipe" "$name" "$d" "$verdict"
  done
done
exit $failed
