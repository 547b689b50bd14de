#!/usr/bin/env bash
# `hexad verify`, whose ranks are threads.
. "$(dirname "$0")/cli.sh"

test_every_layout_of_two_ranks_agrees() {
  expect 0 "$HEXAD" verify tiny.yaml --world 2 --steps 1
  expect_text out "10 meshes of 2 ranks: " "counts must be equal" ": 0 mismatches"
  expect_nothing_at run
}

test_listed_layouts_are_verified() {
  expect 0 "$HEXAD" verify tiny.yaml --world 4 --layouts "ep=2,etp=1;tp=2,sp=true" --steps 1
  expect_text out "2 layouts of 4 ranks" "dp=4,ep=2" "sp=true" "2 layouts in "
  expect_no_text out '"' '\n'
  expect 0 "$HEXAD" verify tiny.yaml --world 4 --layouts 3 --seed 5 --steps 1 --jitter 1
  expect_text out "3 of these runs, drawn with seed 5" "communication is delayed at random, seed 1" "3 layouts in "
}

test_layouts_on_the_emulated_device_agree_with_the_cpu() {
  HEXAD_EMULATED_JITTER=3 expect 0 "$HEXAD" verify tiny.yaml --world 2 --device emulated --steps 2
  expect_text out "oracle: one rank on the CPU, layouts on device: emulated" "10 meshes of 2 ranks: " ": 0 mismatches"
  expect_text out "device: emulated"
  HEXAD_DEVICE=emulated expect 0 "$HEXAD" verify tiny.yaml --world 2 --layouts ep=2 --steps 1
  expect_text out "oracle: one rank on the CPU, layouts on device: emulated" ": 0 mismatches"
  local missing=4  # the exit code if the machine lacks the card
  expect 0 "$HEXAD" env
  ! grep -q "^cuda  *none: .*built without CUDA" out || missing=2
  if grep -q "^cuda  *none: " out; then
    expect $missing "$HEXAD" verify tiny.yaml --world 2 --device cuda
    expect_text err "device: cuda was requested, but " "use device: cpu"
  fi
  expect 2 "$HEXAD" verify tiny.yaml --world 2 --device abacus
  expect_text err "--device: 'abacus' given, expected one of cpu, cuda, emulated"
}

test_illegal_layouts_are_refused() {
  expect 2 "$HEXAD" verify tiny.yaml --world 4 --layouts tp=3
  expect_text err "--layouts: 'tp=3': pp 1 x cp 1 x tp 3 does not divide the 4 ranks of --world"
  expect_equal "$(cat out)" ""
  expect 2 "$HEXAD" verify tiny.yaml --world 64 --layouts ep=64
  expect_text err "is illegal for this recipe: "
  expect 2 "$HEXAD" verify tiny.yaml --world 65
  expect_text err "--world: '65' given, expected a whole number from 0 to 64"
}

test_planted_gradient_scale_is_found_and_shown_in_the_smallest_layout() {
  HEXAD_FAULT=gradient@0,1,layers.0.moe.experts.down.weight expect 5 "$HEXAD" verify tiny.yaml --world 4 --steps 1 \
    --layouts "tp=2;dp=2,tp=2,ep=2,zero=1,moe=returns_last"
  expect_text out "2 layouts in " ": 1 mismatch;" "WRONG: gradient layers.0.moe.experts.down.weight, step 1" \
    "the smallest layout that fails has 2 ranks:" "dp=2,ep=2: step 1: gradient layers.0.moe.experts.down.weight: off by " \
    "repeat with: hexad verify tiny.yaml --world 2 --layouts dp=2,ep=2 --steps 1"
}

test_ineffective_fault_is_an_error() {
  local moe=$CLI_TESTS/../../recipes/verify-moe.yaml tensor=moe.experts.down.weight
  HEXAD_FAULT=gradient@0,1,layers.0.$tensor expect 2 "$HEXAD" verify "$moe" --world 4 --layouts dp=4,ep=2
  expect_text err "HEXAD_FAULT: no tensor's name contains 'layers.0.$tensor', expected a part of a name; near: layers.1.$tensor"
  HEXAD_FAULT=gradient@4,1,experts expect 2 "$HEXAD" verify tiny.yaml --world 4 --layouts dp=4,ep=2
  expect_text err "HEXAD_FAULT: rank 4 does not exist; expected a rank from 0 to 3"
  HEXAD_FAULT=gradient@0,3,experts expect 2 "$HEXAD" verify tiny.yaml --world 4 --layouts dp=4,ep=2
  expect_text err "HEXAD_FAULT: step 3 does not exist; expected a step from 1 to 2"
  HEXAD_FAULT=kill@0,1,step expect 2 "$HEXAD" verify tiny.yaml --world 4 --layouts dp=4,ep=2
  expect_text err "HEXAD_FAULT: 'kill' is not planted by this command; legal here: gradient"
}

# Runs the command with HEXAD_FAULT exactly as docs/verify.md shows it.
test_demonstration_of_the_page_finds_its_bug() {
  local line
  line=$(sed -n 's/^    \(HEXAD_FAULT=.*\)$/\1/p' "$CLI_TESTS/../../docs/verify.md")
  [ -n "$line" ] || failed "docs/verify.md has no line with HEXAD_FAULT"
  cp -r "$CLI_TESTS/../../recipes" .
  hexad() { "$HEXAD" "$@"; }
  run eval "$line"
  expect_equal 5 "$code"
  expect_text out "WRONG: gradient layers.1.moe.experts.down.weight, step 1" "repeat with: "
}

test_one_step_has_nothing_to_resume() {
  expect 2 "$HEXAD" verify tiny.yaml --world 2 --steps 1 --layouts ep=2,start=resumed
  expect_text err "start=resumed begins after the first step: --steps must be at least 2"
}

test_compared_values_are_counted() {
  expect 0 "$HEXAD" verify tiny.yaml --world 2 --layouts "ep=2;ep=2,start=resumed"
  expect_text out "compared: 3 steps, "
}

test_recipe_with_a_memory_limit_is_verified() {
  expect 0 "$HEXAD" verify tiny.yaml schedule.moe.memory_reuse=s4 schedule.moe.memory_limit=1000000 --world 2 \
    --layouts "ep=2;ep=2,memory_reuse=s4_limited"
  expect_text out ": 0 mismatches"
}

test_given_precision_applies_to_all_layouts() {
  expect 0 "$HEXAD" verify tiny.yaml --world 2 --layouts 3 --precision f32
  expect_count 3 out "subject=f32   "
  expect_text out ", f32, optim.eps" ": 0 mismatches"
  expect 2 "$HEXAD" verify tiny.yaml --world 2 --precision f16
  expect_text err "--precision: " "f16"
}

test_every_subject_is_verified() {
  local subject layouts=""
  for subject in own tied forms latent sparse_mixer expert_choice llama4 delta_net prediction aux_global_batch sequences zipf idle_ranks eventful f32 bf16 bf16_gradients bf16_logits bf16_moments bf16_rests muon fp8; do layouts+="ep=2,subject=$subject;"; done
  expect 0 "$HEXAD" verify tiny.yaml --world 2 --layouts "$layouts"
  expect_text out "22 layouts in " ": 0 mismatches"
}

test_rows_in_fp8_are_verified() {
  expect 0 "$HEXAD" verify tiny.yaml schedule.moe.wire=fp8 --world 2 \
    --layouts "ep=2;ep=2,rows=token;ep=2,memory_reuse=s4;tp=2"
  expect_text out "scales of fp8 rows: " "other rows in fp8: " "4 layouts in " ": 0 mismatches"
}

test_fp8_rows_are_verified_on_a_device_that_drops_slots() {
  expect 0 "$HEXAD" verify "$CLI_TESTS/../../recipes/verify-moe.yaml" --device emulated --world 1 --layouts dp=1,subject=fp8
  expect_text out "1 layout in " ": 0 mismatches"
}

test_loop_of_training_is_verified() {
  expect 0 "$HEXAD" verify tiny.yaml --world 2 --layouts "ep=2,start=trained;tp=2,start=trained,subject=eventful"
  expect_text out "2 layouts in " ": 0 mismatches"
  expect_no_text out "step 1 skipped"
}

test_oracle_that_is_not_finite_is_named() {
  expect 5 "$HEXAD" verify tiny.yaml optim.lr=1e300 --world 2 --layouts ep=2
  expect_text err "the oracle (subject=own on one rank in f64 on the CPU) failed: " "nothing can be compared"
}

is_empty() { [ -z "$(ls -A "$1")" ]; }
has_folder() { ls -d "$1"/hexad-verify-* >/dev/null 2>&1; }

# No scratch folder remains, regardless of how the program or one of its runs ends.
test_no_scratch_folder_is_left_behind() {
  local signal
  mkdir scratch
  export TMPDIR=$PWD/scratch
  expect 5 "$HEXAD" verify tiny.yaml --world 2 --layouts ep=2 --timeout 0.001
  expect_text out "no result after 0.001 s" " --steps 2 --timeout 0.001"
  is_empty scratch || failed "scratch folders were left behind, expected none: $(ls scratch)"
  for signal in INT TERM KILL SEGV; do
    env --default-signal=INT "$HEXAD" verify tiny.yaml --world 4 --steps 100 >out 2>err &
    wait_until has_folder scratch
    kill -"$signal" $!
    wait $! 2>wait
    wait_until is_empty scratch
  done
}

test_big_model_needs_shrink() {
  local big="model.hidden=4096 model.heads=32 model.layers=32"
  expect 2 "$HEXAD" verify tiny.yaml $big
  expect_text err "add --shrink"
  expect 0 "$HEXAD" verify tiny.yaml $big --shrink --world 2 --layouts 3 --steps 1
  expect_text out "shrunk: model.hidden: 4096 -> "
}

run_tests "$@"
