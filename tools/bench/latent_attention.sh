#!/usr/bin/env bash
# Compares the training steps of two models: a model with latent attention (MLA), and a model with grouped-query
# attention. Each model has one block, whose MLP and head are small, so that nearly all work is attention. The latent
# attention has the sizes of DeepSeek-V2-Lite. The head size of the grouped-query attention is the mean of the latent
# attention's key size and value size. Both models therefore do the same work for each pair of tokens. The number of key
# heads is chosen so that the FLOPs of the two models are as near as possible.
#
#   tools/bench/latent_attention.sh [--rounds 5] [--steps 5] [--core 0]
#
# Runs the models in turn, each with one rank and one thread, on the same core. The first step of a run is not counted.
# Prints for each dtype and context the median seconds of a step, and the ratio of the times per FLOP (aim: at most
# 1.10).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

rounds=5 steps=5 core=0
take_steps "$@"
need "$hexad" 'cmake --preset release && cmake --build --preset release'

cat >"$scratch/recipe.yaml" <<EOF
model: {layers: 1, hidden: 2048, heads: 16, vocab: 256, mlp_hidden: 16, moe: {experts: 0}}
train: {steps: $steps, threads: 1, peak_flops: 1.0e11}
checkpoint: {resume: none, at_end: false}
data: {synthetic: true}
EOF
latent=(model.attention=latent model.latent.kv_rank=512 model.latent.nope_size=128 model.latent.rope_size=64
  model.latent.value_size=128)
grouped=(model.head_size=160)

flops() {  # flops OVERRIDE...: prints the FLOPs of forward and backward for a token
  "$hexad" validate "$scratch/recipe.yaml" --json "$@" | number flops_per_token /dev/stdin
}

machine
echo "rounds:    $rounds of $steps steps, the first not counted; core $core"
printf '%-6s %8s %10s %12s %12s %12s %12s %8s\n' dtype context key-heads MLA-MFLOPs GQA-MFLOPs MLA-seconds GQA-seconds ratio
for case in f32:512:4 f32:2048:1 bf16:512:4 bf16:2048:1; do
  IFS=: read -r dtype context sequences <<<"$case"
  sizes=(train.precision="$dtype" model.context="$context" batch.global="$sequences" batch.micro="$sequences")
  of_latent=$(flops "${sizes[@]}" "${latent[@]}")
  key_heads=$(for n in 1 2 4 8 16; do
    echo "$n $(flops "${sizes[@]}" "${grouped[@]}" model.kv_heads=$n)"
  done | awk -v wanted="$of_latent" '{ d = $2 > wanted ? $2 - wanted : wanted - $2 } NR == 1 || d < least { least = d; best = $1 }
    END { print best }')
  of_grouped=$(flops "${sizes[@]}" "${grouped[@]}" model.kv_heads="$key_heads")
  for ((round = 1; round <= rounds; round++)); do
    for name in latent grouped; do
      declare -n model=$name
      overrides=("${sizes[@]}" "${model[@]}")
      [ $name = latent ] || overrides+=(model.kv_heads="$key_heads")
      run=$scratch/$dtype-$context-$round-$name
      taskset -c "$core" "$hexad" train "$scratch/recipe.yaml" "${overrides[@]}" run.dir="$run" >"$run.log" 2>&1 || {
        cat "$run.log" >&2
        exit 1
      }
      number step_seconds "$run/metrics.jsonl" | tail -n +2 | sed "s/^/$dtype\t$context\t$name\t/" >>"$scratch/rows"
    done
  done
  awk -F '\t' -v dtype="$dtype" -v context="$context" -v heads="$key_heads" -v f="$of_latent" -v g="$of_grouped" \
    -f tools/bench/median.awk -f tools/bench/latent_attention.awk "$scratch/rows"
done
printf '\ndtype, context, model, seconds of a step\n'
cat "$scratch/rows"
