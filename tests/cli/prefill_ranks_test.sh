#!/usr/bin/env bash
# `hexad bench prefill` measures the time to the first tokens of answers, in layouts that do not divide sequences
# between ranks.
. "$(dirname "$0")/cli.sh"

prefill() { ranks 2 bench prefill tiny.yaml --rounds 2 "$@"; }

test_every_batch_is_measured_under_every_schedule() {
  expect 0 prefill parallel.ep=2 --prompts 2x8 --prompts 1x16 --schedule plain --schedule pn2:chunk_by=experts,chunks=2
  expect_text out 'dp 2' 'plain: duplicates ' 'pn2: duplicates ' 'chunk_by experts, chunks 2' 'TTFT ms'
  expect_equal "$(grep -cE '^(plain|pn2) +[12] +(8|16) +1( +[0-9.]+){3}$' out)" 4
  expect_nothing_at run
}

test_prompts_may_be_computed_in_chunks() {
  expect 0 prefill parallel.pp=2 --prompts 2x8 --chunk 3
  expect_equal "$(grep -cE '^recipe +2 +8 +3( +[0-9.]+){3}$' out)" 1
}

test_json_has_the_time_of_every_round() {
  expect 0 prefill parallel.tp=2 parallel.sp=true --chunk 5 --json
  expect_text out '"ranks": 2' '"data_parallel": 1' '"recipe": "duplicates ' '"prompts": 1' '"length": 16' '"pass_length": 5' \
    '"tokens_per_second": ' '"ttft_seconds": ['
  expect_equal "$(sed -n '/ttft_seconds/,/\]/p' out | grep -cE '^ +[0-9.e-]+,?$')" 2
}

test_impossible_prompts_and_layouts_are_refused() {
  expect 2 "$HEXAD" bench prefill tiny.yaml --prompts 16
  expect_text err "'16' given, expected PROMPTSxTOKENS, such as 8x256"
  expect 2 "$HEXAD" bench prefill tiny.yaml --prompts 1x17
  expect_text err "--prompts (1x17) has prompts of 17 tokens, expected at most 16 (model.context)"
  expect 2 prefill parallel.cp=2
  expect_text err "parallel.cp (2) must be 1 to measure prefill, because"
  expect 2 "$HEXAD" bench prefill tiny.yaml --schedule pn5:chunk_by=experts,chunks=5
  expect_text err schedule.moe.chunks
  expect 2 "$HEXAD" bench prefill tiny.yaml --schedule pn2:chunk_by=expert
  expect_text err schedule.moe.chunk_by
  expect 2 "$HEXAD" bench prefill tiny.yaml --schedule plain --schedule plain:rows=token
  expect_text err "--schedule (plain:rows=token) has the name 'plain', expected NAME:key=value,..."
  expect 2 "$HEXAD" bench prefill tiny.yaml model.moe.experts=0 --schedule plain
  expect_text err "--schedule: the model has no MoE layer"
  expect 2 "$HEXAD" bench prefill tiny.yaml model.kind=encoder
  expect_text err "model.kind is encoder, expected decoder"
}

test_prompts_that_do_not_fit_are_refused() {
  expect 4 timeout 60 "$HEXAD" bench prefill tiny.yaml model.hidden=4096 model.layers=32 --prompts 1048576x16
  expect_text err "the model does not fit"
}

run_tests "$@"
