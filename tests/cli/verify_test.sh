#!/usr/bin/env bash
# `hexad verify` with threads as ranks.
. "$(dirname "$0")/cli.sh"

test_every_layout_of_two_ranks_agrees() {
  expect 0 "$HEXAD" verify tiny.yaml --world 2 --steps 1
  expect_text out "10 meshes of 2 ranks: " "counts exact" ": 0 mismatches"
  expect_nothing_at run
}

test_listed_layouts() {
  expect 0 "$HEXAD" verify tiny.yaml --world 4 --layouts "ep=2,etp=1;tp=2,sp=true" --steps 1
  expect_text out "2 layouts of 4 ranks" "dp=4,ep=2" "sp=true" "2 layouts in "
  expect 0 "$HEXAD" verify tiny.yaml --world 4 --layouts 3 --seed 5 --steps 1 --jitter 1
  expect_text out "3 of them, drawn with seed 5" "communication is delayed at random, seed 1" "3 layouts in "
}

test_illegal_layouts_are_refused() {
  expect 2 "$HEXAD" verify tiny.yaml --world 4 --layouts tp=3
  expect_text err "--layouts: 'tp=3': pp 1 x cp 1 x tp 3 does not make the 4 ranks of --world"
  expect 2 "$HEXAD" verify tiny.yaml --world 64 --layouts ep=64
  expect_text err "is illegal for this recipe: "
  expect 2 "$HEXAD" verify tiny.yaml --world 65
  expect_text err "--world: '65' given, expected 0 .. 64"
}

test_a_planted_gradient_scale_is_found_and_shown_in_the_smallest_layout() {
  HEXAD_FAULT=gradient@0,1,layers.0.moe.experts.down.weight expect 5 "$HEXAD" verify tiny.yaml --world 4 --steps 1 \
    --layouts "tp=2;dp=2,tp=2,ep=2,zero=1,moe=returns_last"
  expect_text out "2 layouts in " ": 1 mismatch;" "WRONG: gradient layers.0.moe.experts.down.weight, step 1" \
    "it has 2 ranks:" "dp=2,ep=2: step 1: gradient layers.0.moe.experts.down.weight: off by " \
    "repeat with: hexad verify tiny.yaml --world 2 --layouts dp=2,ep=2 --steps 1"
}

test_a_big_model_needs_shrink() {
  local big="model.hidden=4096 model.heads=32 model.layers=32"
  expect 2 "$HEXAD" verify tiny.yaml $big
  expect_text err "add --shrink"
  expect 0 "$HEXAD" verify tiny.yaml $big --shrink --world 2 --layouts 3 --steps 1
  expect_text out "shrunk: model.hidden: 4096 -> "
}

run_tests "$@"
