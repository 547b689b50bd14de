#!/usr/bin/env bash
# Whether the recipes of recipes/ are the same training run under every schedule of their MoE layers, and under auto: trains
# each on four ranks (tp 2, etp 2, ep 2) in f64 for some steps, and prints the largest difference of the losses from those
# of the recipe as it is on one rank. Exit code 1 when one is above 1e-10, relatively, or a run fails.
#
#   tools/bench/schedule_losses.sh [--steps 8] [--recipes 'quickstart ...'] [--output FOLDER]
#
# Needs data/quickstart (tools/quickstart.sh prepares it). Batches are of eight sequences; those of long-context.yaml are of
# 512 tokens instead of 128K. Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

steps=8 recipes='quickstart arctic-like deepseek-like encoder long-context bench-cpu demo verify-moe' output=
while [ $# -gt 0 ]; do
  case $1 in
  --steps) steps=${2:?} ;;
  --recipes) recipes=${2:?} ;;
  --output) output=${2:?} ;;
  *) usage ;;
  esac
  shift 2
done
output=${output:-runs/schedule-losses/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
need "$hexad" 'cmake --preset release && cmake --build --preset release'
[ -d data/quickstart ] || usage 'data/quickstart is missing: tools/quickstart.sh prepares it'

# A name and keys of schedule.moe.
schedules=(
  'fastmoe'
  'deepspeed duplicates=baseline'
  'monta-baseline duplicates=replicated'
  'monta-o1 duplicates=drop'
  'monta-o2 duplicates=drop overlap=a2a_allgather parts=2'
  'monta-o3 duplicates=drop overlap=a2a_allgather_copy parts=2'
  'parm-s1 duplicates=pause_before_gate spread=direct'
  'parm-s2 duplicates=pause_after_gate spread=direct'
  'parm-s2-saa duplicates=pause_after_gate spread=direct overlap=a2a_allgather parts=2'
  'pipemoe cut=tokens parts=3'
  'tutel cut=tokens parts=2 order=returns_last'
  'weights-last cut=tokens parts=2 order=weights_last'
  'fastermoe cut=nodes parts=2 order=returns_last'
  'eps cut=experts parts=2 rows=token'
  'eps-whole rows=token'
  'mpmoe-s1 cut=tokens parts=2 restore=s1'
  'mpmoe-s2 cut=tokens parts=2 restore=s2'
  'mpmoe-s3 cut=tokens parts=2 restore=s3'
  'mpmoe-s4 cut=tokens parts=2 restore=s4'
  'limited cut=tokens parts=2 restore=s4 memory_limit=8388608'
  'auto duplicates=auto overlap=auto cut=auto parts=auto trial_share=0.5'
)
common=(train.steps="$steps" train.precision=f64 train.threads=1 train.eval_every=0 checkpoint.every=0
  checkpoint.at_end=false run.prompts=[] batch.global=8 parallel.cp=1)
mpi=(mpirun -np 4 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca btl_vader_single_copy_mechanism none)
if [ "$(id -u)" -eq 0 ]; then mpi+=(--allow-run-as-root); fi

losses() { number loss "$1/metrics.jsonl" | head -n "$steps"; }
difference() {  # difference FOLDER FOLDER: the largest over all steps, over the loss
  paste <(losses "$1") <(losses "$2") | awk -v n="$steps" '
    NF < 2 { exit }
    { d = ($2 - $1) / $1; if (d < 0) d = -d; if (d > m) m = d; rows++ }
    END { if (rows == n) printf "%.2g\n", m; else print "missing" }'
}

machine
echo "steps:     $steps, f64; relative difference of the losses from those of one rank"
failed=0
for recipe in $recipes; do
  of_recipe=("${common[@]}")
  case $recipe in
  long-context) of_recipe+=(model.context=512) ;;
  demo) of_recipe+=(data.dataset=data/quickstart) ;;
  esac
  one=$output/$recipe-one
  "$hexad" train "recipes/$recipe.yaml" "${of_recipe[@]}" batch.micro=2 parallel.tp=1 parallel.ep=1 parallel.etp=1 run.dir="$one" \
    >"$one.log" 2>&1 || { tail -n 3 "$one.log" && exit 1; }
  for schedule in "${schedules[@]}"; do
    read -r name settings <<<"$schedule"
    run=$output/$recipe-$name
    # shellcheck disable=SC2086  # words on purpose
    "${mpi[@]}" "$hexad" train "recipes/$recipe.yaml" "${of_recipe[@]}" batch.micro=2 parallel.tp=2 parallel.etp=2 parallel.ep=2 \
      run.dir="$run" $(printf 'schedule.moe.%s ' $settings | sed 's/schedule.moe. $//') >"$run.log" 2>&1 ||
      { printf '%-14s %-16s FAILED, see %s\n' "$recipe" "$name" "$run.log" && failed=1 && continue; }
    d=$(difference "$one" "$run")
    verdict=$(awk -v d="$d" 'BEGIN { print d != "missing" && d + 0 <= 1e-10 ? "ok" : "TOO LARGE" }')
    [ "$verdict" = ok ] || failed=1
    printf '%-14s %-16s %-9s %s\n' "$recipe" "$name" "$d" "$verdict"
  done
done
exit $failed
