#!/usr/bin/env bash
# In a step, the host reads from a device only the data that docs/devices.md lists.
. "$(dirname "$0")/cli.sh"

root=$CLI_TESTS/../..
export HEXAD_DEVICE=emulated

# Prints the names in the table of docs/devices.md, one per line.
listed() { sed -n '/^  | read |/,/^$/p' "$root/docs/devices.md" | cut -d'|' -f2 | grep -o '`[^`]*`' | tr -d '`'; }
# Prints the names in the metrics of RUN, one per line.
read_in() { sed -nE 's/.*"host_reads":\{([^}]*)\}.*/\1/p' "$1/metrics.jsonl" | grep -oP '"\K[^"]+(?=":)' | sort -u; }
# `expect_listed RUN NAME...`: expects all reads of the run to be listed, and to include each NAME.
expect_listed() {
  local found name
  found=$(read_in "$1")
  [ -n "$found" ] || failed "$1/metrics.jsonl has no host_reads, expected at least one name"
  listed >names
  while read -r name; do grep -qxF "$name" names || failed "'$name' is not listed in docs/devices.md"; done <<<"$found"
  for name in "${@:2}"; do grep -qxF "$name" <<<"$found" || failed "'$name' was not read, expected among: $found"; done
}
# Overrides for a short run.
small=(train.steps=2 train.peak_flops=1e9 train.threads=1 run.dir=run)

test_bench_cpu_has_only_listed_reads() {
  expect 0 "$HEXAD" train "$root/recipes/bench-cpu.yaml" "${small[@]}" batch.global=4 model.vocab=512 model.hidden=64 \
    model.moe.expert_hidden=64
  expect_listed run 'step: norm and loss' 'step: router counts'
  read_in run >found
  ! grep -q routing found || failed 'a rank with all experts reads its routing on the host'
}
test_verify_moe_has_only_listed_reads() {
  expect 0 ranks 2 train "$root/recipes/verify-moe.yaml" "${small[@]}" parallel.ep=2
  expect_listed run 'routing: counts'
  read_in run >found
  ! grep -q 'routing: ids' found || failed 'the host reads which expert a slot chose'
}
test_mesh_has_only_listed_reads() {
  expect 0 ranks 4 train "$root/recipes/steps/mesh.yaml" "${small[@]}" batch.global=8 batch.micro=1 model.vocab=512 \
    model.hidden=64 model.moe.expert_hidden=64 model.context=64 data.synthetic=true
  expect_listed run 'routing: counts'
  read_in run >found
  ! grep -q 'routing: ids' found || failed 'the host reads which expert a slot chose'
}
test_rows_of_tokens_have_only_listed_reads() {
  expect 0 ranks 2 train "$root/recipes/verify-moe.yaml" "${small[@]}" parallel.ep=2 schedule.moe.rows=token
  expect_listed run 'routing: ids'
}
# A step after an evaluation, a save and a replica check has the same reads as all other steps.
test_step_counts_only_its_own_reads() {
  local tiny=(train tiny.yaml train.steps=3 data.synthetic=false data.dataset=data model.vocab=0)
  local disturbed=(train.eval_every=1 train.eval_sequences=5 checkpoint.every=1 distributed.replica_check_every=1)
  reads_of_steps() { grep -oP '"host_reads":\{[^}]*\}' "$1/metrics.jsonl"; }
  seq -f "line %g of a text about the quick brown fox that jumps over the lazy dog" 500 >text.txt
  expect 0 "$HEXAD" prepare --input text.txt --output data --tokenizer bytes --heldout 0.1 --split-bytes 1024
  expect 0 ranks 2 "${tiny[@]}" run.dir=plain checkpoint.every=0 checkpoint.at_end=false
  expect 0 ranks 2 "${tiny[@]}" run.dir=disturbed "${disturbed[@]}"
  expect_equal "$(reads_of_steps plain | wc -l)" 3
  expect_equal "$(reads_of_steps disturbed)" "$(reads_of_steps plain)"
}
test_duel_has_only_listed_reads() {
  expect 0 ranks 2 train "$root/recipes/verify-moe.yaml" "${small[@]}" parallel.ep=2 model.moe.expert_bias=false \
    schedule.moe.fused=auto
  expect_listed run 'duel: norms'
}

run_tests "$@"
