#!/usr/bin/env bash
# From text to a model that writes: what the quickstart does, in a second.
. "$(dirname "$0")/cli.sh"

prepared_and_trained() {
  local i
  mkdir texts
  for i in $(seq 20); do
    seq -f "line %g of text $i: the quick brown fox jumps over the lazy dog" $((i * 2)) >texts/$i.txt
  done
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bpe --vocab 300 --heldout 0.2
  expect_text out "vocabulary 300" "training" "held-out"
  cat >recipe.yaml <<'E'
include: tiny.yaml
model:
  vocab: 0
  context: 32
train:
  precision: f32
  steps: 20
  eval_every: 10
data:
  synthetic: false
  dataset: data
run:
  prompts: ["the quick"]
E
  expect 0 "$HEXAD" train recipe.yaml
}

test_prepare_train_eval_generate_inspect() {
  local heldout
  prepared_and_trained
  expect_text out "step 10: held-out loss" "step 20: held-out loss"
  expect_file run/report.html
  expect_file run/recipe.yaml
  expect_text run/recipe.yaml "vocab: 300"
  heldout=$(sed -n 's/^step 20: held-out loss \([0-9.]*\) .*/\1/p' out)

  expect 0 "$HEXAD" eval run
  expect_text out "step 20: held-out loss $heldout nats per token" "bits per byte" "forward only:"
  expect 0 "$HEXAD" eval run --step 20 --sequences 2
  expect 3 "$HEXAD" eval run --step 5
  expect_text err "no checkpoint of step 5; there are:"

  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 10 --seed 3
  expect_text out "the quick"
  cp out first
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 10 --seed 3
  cmp -s out first || failed "the same seed gave another text"
  expect 0 "$HEXAD" generate run --prompt "" --max-tokens 3
  expect 0 "$HEXAD" generate run --prompt "$(seq 500)" --max-tokens 3 --temperature 0

  expect 0 "$HEXAD" inspect run
  expect_text out "run/checkpoints/step-00000020" "step 20," "embedding.weight"
  expect 0 "$HEXAD" inspect run --json --verify
  expect_text out '"step": 20'
}

test_a_complete_run_says_so() {
  prepared_and_trained
  expect 0 "$HEXAD" train recipe.yaml
  expect_text out "no step was run: all 20 are done"
  expect 0 "$HEXAD" train recipe.yaml train.steps=25
  expect_text out "step 25/25"
}

test_prepare_does_not_do_it_twice() {
  prepared_and_trained
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bpe --vocab 300 --heldout 0.2
  expect_text out "was there already"
}

test_synthetic_runs_and_encoders_do_not_generate() {
  expect 0 "$HEXAD" train tiny.yaml
  expect 2 "$HEXAD" generate run --prompt x
  expect_text err "synthetic"
  expect 0 "$HEXAD" train tiny.yaml model.kind=encoder run.dir=encoder
  expect 2 "$HEXAD" generate encoder --prompt x
  expect_text err "encoder"
  expect 2 "$HEXAD" eval run
  expect_text err "held-out"
}

run_tests "$@"
