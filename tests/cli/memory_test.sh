#!/usr/bin/env bash
# Models that exceed the memory: `train` refuses them, and `validate` warns of them.
source "$(dirname "$0")/cli.sh"

# Overrides for models that need terabytes or more. Each list enlarges different keys.
too_wide=(model.hidden=65536 model.heads=64 model.layers=80 model.moe.expert_hidden=65536)
too_long=(model.context=67108864 model.hidden=256)
too_many_experts=(model.moe.experts=4096 model.hidden=4096 model.moe.expert_hidden=1048576)
too_much_at_once=(batch.global=1048576 batch.micro=1048576 model.hidden=4096 model.layers=32)

test_train_refuses_a_model_that_exceeds_the_memory() {
  local -n case
  for case in too_wide too_long too_many_experts too_much_at_once; do
    expect 4 timeout 20 "$HEXAD" train tiny.yaml "${case[@]}"
    expect_text err "the model does not fit: the rank on $(hostname) is estimated to need " \
      "is available (a rank: weights " "To start the run anyway, set memory.limit_bytes: none"
    expect_nothing_at run
  done
}

test_train_names_the_stage_that_exceeds_the_memory() {
  local stages='stages=[{steps: 2}, {steps: 4, context: 67108864}]'
  expect 4 timeout 20 "$HEXAD" train tiny.yaml model.hidden=256 "$stages"
  expect_text err "stage 2 of 2: steps 3 to 6: the model does not fit: the rank on $(hostname) is estimated to need "
  expect_nothing_at run
  expect 0 "$HEXAD" validate tiny.yaml model.hidden=256 "$stages"
  expect_text out "warning: stage 2 of 2: steps 3 to 6: the model does not fit on this machine: the rank on "
}

test_train_names_keys_that_reduce_memory() {
  expect 4 "$HEXAD" train tiny.yaml "${too_wide[@]}"
  expect_text err "a smaller model (model.layers, model.hidden, model.moe.experts)"
  expect 4 "$HEXAD" train tiny.yaml "${too_long[@]}"
  expect_text err "fewer tokens in a micro-batch (batch.micro, model.context)"
}

test_validate_warns_of_a_model_that_exceeds_the_memory() {
  expect 0 "$HEXAD" validate tiny.yaml "${too_wide[@]}"
  expect_text out "valid for 1 rank" \
    "warning: the model does not fit on this machine: the rank on $(hostname) is estimated to need "
  expect 0 "$HEXAD" validate tiny.yaml
  expect_no_text out "does not fit"
}

test_validate_needs_no_card_and_no_nccl_for_the_estimate() {
  expect 0 "$HEXAD" validate tiny.yaml --world 2 device=cuda distributed.device_collectives=nccl parallel.ep=2
  expect_text out "valid for 2 ranks" "memory" "connections"
}

test_explicit_limit_is_refused_by_validate() {
  expect 2 "$HEXAD" validate tiny.yaml "${too_wide[@]}" memory.limit_bytes=1GiB
  expect_text err "memory.limit_bytes is 1.00 GiB, but a rank is estimated to need"
}

test_none_disables_the_check() {
  expect 0 "$HEXAD" validate tiny.yaml "${too_wide[@]}" memory.limit_bytes=none
  expect_no_text out "does not fit"
  expect 0 "$HEXAD" train tiny.yaml memory.limit_bytes=none
  expect_text run/recipe.yaml "limit_bytes: none"
}

test_bench_predict_predicts_a_model_that_does_not_fit() {
  local widths=(model.hidden=8192 model.moe.expert_hidden=16777216)
  expect 4 timeout 60 "$HEXAD" bench predict tiny.yaml schedule.moe.chunk_by=auto "${widths[@]}"
  expect_text err "the model does not fit: "
  expect_text out "predictions in predictions.json" "predicted fastest: "
  expect 0 timeout 60 "$HEXAD" bench predict tiny.yaml --rounds 0 schedule.moe.chunk_by=auto "${widths[@]}"
  expect_text out "predicted fastest: "
}

run_tests "$@"
