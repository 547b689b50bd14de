#!/usr/bin/env bash
# Extreme numbers, tokens and shapes.
. "$(dirname "$0")/cli.sh"

train() { "$HEXAD" train tiny.yaml "$@"; }

test_nan_is_skipped_counted_and_ends_the_run_after_max_skipped() {
  HEXAD_FAULT=nan@0,2 expect 5 train train.max_skipped=3
  expect_count 3 err "skipped: loss"
  expect_text err "step 4: 3 steps in a row without a finite loss and gradient; expected fewer than 3 (train.max_skipped)"
  expect_text out "3 skipped"
  expect_text run/metrics.jsonl '"skipped_steps":3'
}

test_skipped_step_does_not_push_the_last_good_checkpoint_out() {
  HEXAD_FAULT=nan@0,3 expect 5 train checkpoint.every=1 checkpoint.keep=1
  expect 0 "$HEXAD" inspect run --verify
  expect_text out step-00000002
  expect 0 train
  expect_text out "resumed after step 2" "step 6/6"
}

# In every step, experts 0 and 1 get all tokens, and the other experts get none.
test_run_trains_on_if_all_tokens_choose_the_same_experts() {
  expect 0 train model.moe.routing=zipf model.moe.zipf_exponent=1000
  expect_text run/metrics.jsonl '"router_max_load":2.0'
}

test_tokens_beyond_capacity_are_counted_as_dropped() {
  expect 0 train model.moe.routing=zipf model.moe.zipf_exponent=1000 model.moe.top_k=1 model.moe.capacity_factor=1
  expect_text run/metrics.jsonl '"router_max_load":4.0' '"dropped_fraction":0.75'
}

test_routing_follows_a_trace() {
  printf '0 1\n2 3\n' >trace
  expect 0 train model.moe.routing=trace model.moe.trace=trace
  expect_text run/metrics.jsonl '"router_max_load":1.0'
  printf '3 1\n' >trace
  expect 0 train model.moe.routing=trace model.moe.trace=trace run.dir=second
  expect_text second/metrics.jsonl '"router_max_load":2.0'
}

test_bad_trace_is_named_with_its_line() {
  local text
  for text in '0 1\n0 4\n' '0 1\n-1 0\n' '0 1\n1 1\n' '0 1\n0\n' '0 1\n0 x\n' '0 1\n0 1 2\n'; do
    printf "$text" >trace
    expect 3 train model.moe.routing=trace model.moe.trace=trace
    expect_text err trace:2:
  done
  : >trace
  expect 3 train model.moe.routing=trace model.moe.trace=trace
  expect_text err "'trace' is empty"
  expect 3 train model.moe.routing=trace model.moe.trace=nowhere
  expect_text err nowhere
  expect 2 train model.moe.routing=trace
  expect_text err "model.moe.trace" "must name a file"
}

test_odd_sizes_train() {
  expect 0 train model.hidden=65 model.heads=1 model.head_size=2 model.vocab=67 model.context=7 model.moe.experts=5 \
    model.moe.top_k=3 model.moe.expert_hidden=1 batch.global=3 batch.micro=1
  expect 0 train run.dir=one model.hidden=1 model.heads=1 model.head_size=2 model.vocab=2 model.context=1 \
    model.moe.experts=1 model.moe.top_k=1 batch.global=1 batch.micro=1
}

test_sizes_that_do_not_divide_are_refused_with_the_nearest() {
  expect 2 train parallel.ep=3
  expect_text err "model.moe.experts (4) must be divisible by parallel.ep (3)"
  expect 2 train batch.global=7
  expect_text err "batch.global (7) must be divisible by batch.micro (2); nearest: 6, 8"
  expect 2 "$HEXAD" validate tiny.yaml --world 3
  expect_text err "batch.global (8) must be divisible by batch.micro x dp (2 x 3 = 6); nearest: 6, 12"
  expect 2 "$HEXAD" validate tiny.yaml parallel.ep=4 --world 2
  expect_text err "parallel.ep (4) x etp (1) must divide the 2 ranks of a stage"
  expect 2 train model.hidden=15
  expect_text err "model.hidden (15) must be divisible by model.heads (2); nearest: 12, 16"  # 14 would give heads of odd size
}

run_tests "$@"
