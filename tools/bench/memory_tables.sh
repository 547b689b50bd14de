#!/usr/bin/env bash
# Compares the memory of a rank with formulas: weights, gradients and optimizer states under ZeRO 0 to 3 (MoNTA's Table
# 3), and activations under recomputation and tensor parallelism (Table 4). Uses four ranks in bf16, with ep 2.
#
#   tools/bench/memory_tables.sh
#
# The model is derived from recipes/bench-cpu.yaml, but is narrower and has the shape of MoNTA's models. The model has
# equal numbers of heads and key heads, and equally loaded GELU experts of four times the hidden size. Measured
# activations are memory_peak_bytes in metrics.jsonl, of the rank that needs the most. Environment: HEXAD
# (build/release/bin/hexad), BENCH (folder; build/release/bench).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

[ $# -eq 0 ] || usage
bench=${BENCH:-build/release/bench}
need "$hexad" 'cmake --preset release && cmake --build --preset release'
for program in parameter_memory activation_memory; do
  need "$bench/$program" "cmake --build --preset release --target $program"
done

recipe=recipes/bench-cpu.yaml ranks=4
shape=(model.hidden=256 model.kv_heads=8 model.vocab=2048 model.context=512 model.moe.expert=gelu
  model.moe.expert_hidden=1024 model.moe.routing=balanced parallel.ep=2 batch.micro=1 batch.global=4
  train.precision=bf16)

peak() { number "$1" "$2" | tail -n 1; }  # peak CATEGORY FILE: prints the peak bytes of the last step
expected() { awk -F '\t' -v name="$1" '$1 == name {print $2}' "$scratch/expected"; }

# activations NAME OVERRIDE...: prints a line of the table.
activations() {
  local metrics=$scratch/$1/metrics.jsonl
  launch $ranks "$hexad" train $recipe "${shape[@]}" train.steps=2 train.threads=1 train.peak_flops=1e11 \
    checkpoint.resume=none checkpoint.at_end=false run.dir="$scratch/$1" "${@:2}"
  "$bench/activation_memory" $recipe $ranks "${shape[@]}" "${@:2}" >"$scratch/expected"
  awk -v name="$1" -v m="$(peak activation "$metrics")" -v f="$(expected formula)" -v t="$(expected table_4)" \
    -v temporary="$(peak temporary "$metrics")" 'BEGIN {
      printf "%-18s | %12.3f %12.3f %8.4f | %12.3f | %13.3f\n", name, m / 1e6, f / 1e6, m / f, t / 1e6, temporary / 1e6
    }'
}

machine
echo
"$bench/parameter_memory" $recipe $ranks "${shape[@]}"
printf '\n%-18s | %12s %12s %8s | %12s | %13s\n' recompute 'measured, MB' 'formula, MB' ratio 'Table 4, MB' 'temporary, MB'
for recompute in none norms attention block; do activations $recompute recompute=$recompute; done
for recompute in none block; do
  activations "$recompute, tp 2" recompute=$recompute parallel.tp=2
  activations "$recompute, tp 2, sp" recompute=$recompute parallel.tp=2 parallel.sp=true
done
