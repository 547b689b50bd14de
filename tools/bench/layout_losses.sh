#!/usr/bin/env bash
# Compares recipes/quickstart.yaml on one rank with seven layouts of eight ranks: prints the largest difference of the
# losses over the steps, in f64 and in f32. The f64 limit is 1e-9. The f32 limit is twice the larger one of two
# differences on one rank. These differences result from a change of one unit in the last place: in every weight of the
# embedding, and in one weight of the head. Exits with code 1 if a limit is exceeded, or if a run fails.
#
#   tools/bench/layout_losses.sh [--steps 50] [--precisions 'f64 f32'] [--overrides 'key=value ...'] [--output FOLDER]
#
# Needs data/quickstart (tools/quickstart.sh prepares it). Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."

steps=50 precisions='f64 f32' overrides='' output=
while [ $# -gt 0 ]; do
  case $1 in
  --steps) steps=${2:?} ;;
  --precisions) precisions=${2:?} ;;
  --overrides) overrides=${2?} ;;
  --output) output=${2:?} ;;
  *)
    echo "layout_losses: unknown option '$1'" >&2
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
  esac
  shift 2
done
hexad=${HEXAD:-build/release/bin/hexad}
output=${output:-runs/layout-losses/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"

layouts=(
  'parallel.pp=2 parallel.tp=2 parallel.ep=2 parallel.cp=2 parallel.sp=true parallel.zero=1'
  'parallel.pp=2 parallel.cp=4 parallel.etp=4 schedule.pipeline.kind=dualpipe_v'
  'parallel.tp=4 parallel.ep=4 parallel.etp=2 parallel.zero=2'
  'parallel.cp=4 parallel.ep=4 parallel.cp_expansion=vertical parallel.cp_kind=all_gather'
  'parallel.pp=4 parallel.ep=2 schedule.pipeline.kind=zb_h1 parallel.zero=3'
  'parallel.pp=2 parallel.tp=2 parallel.sp=true parallel.etp=1 parallel.ep=4 schedule.pipeline.kind=zb_v'
  'parallel.tp=2 parallel.cp=2 parallel.cp_kind=ulysses parallel.ep=4 parallel.etp=1 recompute=block parallel.zero=1'
)
common=(recipes/quickstart.yaml train.steps="$steps" train.threads=1 train.eval_every=0 checkpoint.every=0
  checkpoint.at_end=false run.heldout_prompts=0)
# shellcheck disable=SC2206  # split into words on purpose
common+=($overrides)
. tools/launcher.sh
set_launcher 8 mpi_yield_when_idle 1 btl_vader_single_copy_mechanism none

losses() { sed -n 's/.*"loss": *\([0-9.eE+-]*\).*/\1/p' "$1/metrics.jsonl" | head -n "$steps"; }
difference() {  # difference FOLDER FOLDER: prints the largest difference over all steps
  paste <(losses "$1") <(losses "$2") |
    awk 'NF < 2 { print "missing"; exit 1 } { d = $1 - $2; if (d < 0) d = -d; if (d > m) m = d } END { printf "%.3g\n", m }'
}

echo "date:   $(date -u +%Y-%m-%dT%H:%M:%SZ)"
echo "commit: $(git rev-parse --short HEAD)"
echo "steps:  $steps${overrides:+, with $overrides}"
failed=0
for precision in $precisions; do
  one=$output/$precision-one
  "$hexad" train "${common[@]}" train.precision="$precision" run.dir="$one" >"$one.log" 2>&1
  if [ "$precision" = f64 ]; then
    limit=1e-9
    echo "f64: limit $limit"
  else
    spread=0
    for fault in ulp flip; do
      HEXAD_FAULT=$fault@0,1,step "$hexad" train "${common[@]}" train.precision="$precision" run.dir="$one-$fault" \
        >"$one-$fault.log" 2>&1
      spread=$(printf '%s\n' "$spread" "$(difference "$one" "$one-$fault")" | sort -g | tail -n 1)
    done
    limit=$(awk -v s="$spread" 'BEGIN { print 2 * s }')
    echo "$precision: a change of one unit in the last place changes the losses by up to $spread; limit for layouts: $limit"
  fi
  for i in "${!layouts[@]}"; do
    run=$output/$precision-layout-$i
    # shellcheck disable=SC2086  # split into words on purpose
    "${mpi[@]}" "$hexad" train "${common[@]}" train.precision="$precision" run.dir="$run" ${layouts[$i]} \
      >"$run.log" 2>&1 || { echo "failed: ${layouts[$i]}; see $run.log" && failed=1 && continue; }
    d=$(difference "$one" "$run")
    verdict=$(awk -v d="$d" -v l="$limit" 'BEGIN { print d <= l ? "ok" : "TOO LARGE" }')
    [ "$verdict" = ok ] || failed=1
    printf '%-4s %-10s %-9s %s\n' "$precision" "$d" "$verdict" "${layouts[$i]}"
  done
done
exit $failed
