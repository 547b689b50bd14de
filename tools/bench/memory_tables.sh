#!/usr/bin/env bash
# Memory of a rank beside formulas: weights, gradients and optimizer states under ZeRO 0 to 3 (MoNTA's Table 3), and
# activations under recomputation (Table 4). Four data-parallel ranks, experts over two of them, bf16.
#
#   tools/bench/memory_tables.sh [--ranks 4]
#
# Measured are the peaks of a step by category, of the rank with most (memory_peak_bytes in metrics.jsonl). The model is
# that of recipes/bench-cpu.yaml, narrower and in MoNTA's shape: as many key heads as heads, experts with GELU of four
# times the width, all equally loaded. Environment: HEXAD (build/release/bin/hexad), MODEL (build/release/bench/memory_model).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

ranks=4
while [ $# -gt 0 ]; do
  case $1 in
  --ranks) ranks=${2:?} ;;
  *) usage ;;
  esac
  shift 2
done
model=${MODEL:-build/release/bench/memory_model}
need "$hexad" 'cmake --preset release && cmake --build --preset release'
need "$model" 'cmake --build --preset release --target memory_model'

recipe=recipes/bench-cpu.yaml
shape=(model.hidden=256 model.kv_heads=8 model.vocab=2048 model.context=512 model.moe.expert=gelu
  model.moe.expert_hidden=1024 model.moe.routing=balanced parallel.ep=2 batch.micro=1 batch.global="$ranks"
  train.precision=bf16)

# measure NAME OVERRIDE...: measured and expected bytes, one line a category.
measure() {
  local run=$scratch/$1
  launch "$ranks" "$hexad" train $recipe "${shape[@]}" train.steps=2 train.threads=1 train.peak_flops=1e11 \
    checkpoint.resume=none checkpoint.at_end=false run.dir="$run" "${@:2}"
  "$model" $recipe "$ranks" "${shape[@]}" "${@:2}" >"$run/expected"
}
last() { number "$1" "$2" | tail -n 1; }
expected() { awk -F '\t' -v name="$1" '$1 == name {print $2}' "$2"; }

machine
printf '\n%-9s %4s | %32s | %32s | %32s | %10s | %10s %9s\n' gradients ZeRO 'weights, MB' 'gradients, MB' 'optimizer, MB' \
  communic. 'sum' 'Table 3'
printf '%14s |' ''
for _ in weights gradients optimizer; do printf ' %10s %10s %10s |' measured formula ratio; done
printf ' %10s | %10s %9s\n' 'MB' 'MB' 'MB'
for dtype in f32 bf16; do
  for zero in 0 1 2 3; do
    measure "zero-$dtype-$zero" parallel.zero=$zero optim.grad_dtype=$dtype
    at=$scratch/zero-$dtype-$zero
    {
      for pair in parameter,weights gradient,gradients optimizer,optimizer; do
        echo "$(last "${pair%,*}" "$at/metrics.jsonl") $(expected "${pair#*,}" "$at/expected")"
      done
      echo "$(last communication "$at/metrics.jsonl") $(expected monta_table_3 "$at/expected")"
    } | awk -v dtype=$dtype -v zero=$zero '
      BEGIN { printf "%-9s %4d |", dtype, zero }
      NR < 4 { printf " %10.3f %10.3f %10.4f |", $1 / 1e6, $2 / 1e6, $1 / $2; sum += $1 }
      NR == 4 { printf " %10.3f | %10.3f %9.3f\n", $1 / 1e6, sum / 1e6, $2 / 1e6 }'
  done
done

printf '\n%-22s | %12s %12s %8s | %12s %12s\n' activations 'measured, MB' 'formula, MB' ratio 'Table 4, MB' 'temporary, MB'
# activations NAME OVERRIDE...
activations() {
  measure "activations-$1" "${@:2}"
  local at=$scratch/activations-$1
  awk -v name="$1" -v m="$(last activation "$at/metrics.jsonl")" -v f="$(expected activations "$at/expected")" \
    -v t="$(expected monta_table_4 "$at/expected")" -v temporary="$(last temporary "$at/metrics.jsonl")" '
    BEGIN { printf "%-22s | %12.3f %12.3f %8.4f | %12.3f %12.3f\n", name, m / 1e6, f / 1e6, m / f, t / 1e6, temporary / 1e6 }'
}
for recompute in none norms attention block; do activations "recompute-$recompute" recompute=$recompute; done
for recompute in none block; do
  activations "tp-2-$recompute" recompute=$recompute parallel.tp=2
  activations "tp-2-sp-$recompute" recompute=$recompute parallel.tp=2 parallel.sp=true
done
