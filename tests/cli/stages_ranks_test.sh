#!/usr/bin/env bash
# A run in three stages on four ranks. The stages have 128, 512 and 2048 tokens per sequence, and each stage has its own
# layout.
. "$(dirname "$0")/cli.sh"

recipe=$CLI_TESTS/../../recipes/stages-tiny.yaml
job=(train "$recipe" stages.0.steps=3 stages.1.steps=100 checkpoint.keep=0 run.dir=run)
steps=105
# `rows_of_stage RUN STAGE`: prints the number of lines of the stage in the run's metrics.
rows_of_stage() { grep -cE "\"stage\":$2[,}]" "$1/metrics.jsonl"; }

# Each step from the seventh takes 0.3 s longer, so that the second stage does not end before the signal arrives.
test_run_interrupted_in_its_second_stage_ends_with_the_same_bytes() {
  local pid run
  HEXAD_FAULT=slow@0,7,300 "${launch[@]}" -np 4 "$HEXAD" "${job[@]}" >out 2>err &
  pid=$!
  wait_until has_steps run 6
  kill -USR1 "$pid"
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" 75
  expect_text err "stage 1 of 3: steps 1 to 3" "stage 2 of 3: steps 4 to 103" "preempted after step"
  expect_no_text err "stage 3 of 3"
  expect 0 ranks 4 "${job[@]}"
  expect_text err "stage 2 of 3: steps 4 to 103" "stage 3 of 3: steps 104 to 105" \
    "changed since step 103: model.context: 512 -> 2048" \
    "changed since step 103: model.rotary_theta: 10000 -> 500000" \
    "changed since step 103: schedule.moe.chunk_by: none -> tokens" "changed since step 103: parallel.cp: 2 -> 4"
  expect_no_text err "stage 1 of 3"
  expect 0 ranks 4 "${job[@]}" run.dir=uninterrupted
  expect_same_weights run uninterrupted $steps
  expect_same_losses run uninterrupted
  for run in run uninterrupted; do
    expect_equal "$(rows_of_stage $run 1) $(rows_of_stage $run 2) $(rows_of_stage $run 3)" "3 100 2"
  done
  expect 0 "$HEXAD" inspect run --verify
  expect_text run/report.html "stage 3 of 3: steps 104 to 105"
}

test_validate_reports_every_stage() {
  expect 0 "$HEXAD" validate "$recipe" run.dir=run
  expect_text out "valid for 4 ranks" "stage 1 of 3: steps 1 to 4" "stage 2 of 3: steps 5 to 8" \
    "stage 3 of 3: steps 9 to 10" "context 2048, "
  expect 0 "$HEXAD" validate "$recipe" run.dir=run --world 4 --json
  expect_count 3 out '"tokens_per_step"'
  expect_text out '"stage": "stage 2 of 3: steps 5 to 8"'
  expect 2 "$HEXAD" validate "$recipe" run.dir=run --world 4 stages.1.context=514
  expect_text err "command line: stages.1.context=514: model.context (514) must be divisible by 2 x parallel.cp" \
    "(stage 2 of 3)"
  expect 2 "$HEXAD" validate "$recipe" run.dir=run --world 4 --mesh --svg mesh.svg
  expect_text err "--svg draws one layout, but the recipe has 3 stages"
}

test_verify_takes_each_stage() {
  local stage
  for stage in 1 2 3; do
    expect 0 "$HEXAD" verify "$recipe" --stage $stage --world 4 --layouts "cp=2,ep=2" --steps 1
  done
  expect 2 "$HEXAD" verify "$recipe" --world 4 --layouts 1
  expect_text err "the recipe has 3 stages; choose a stage: --stage with a number from 1 to 3"
  expect 2 "$HEXAD" verify tiny.yaml --stage 1 --world 4 --layouts 1
  expect_text err "--stage 1: the recipe has no stages"
}

test_simulate_and_plan_take_one_stage() {
  local cluster=$CLI_TESTS/../../recipes/clusters/h100-dgx.yaml
  expect 0 "$HEXAD" simulate "$recipe" train.precision=bf16 --cluster "$cluster" --stage 3
  expect_text out "4 ranks"
  expect 2 "$HEXAD" simulate "$recipe" --cluster "$cluster"
  expect_text err "choose a stage: --stage with a number from 1 to 3"
  expect 2 "$HEXAD" plan "$recipe" --cluster "$cluster" --ranks 8 --stage 2 --out layout.yaml
  expect_text err "--stage and --out are given"
}

test_bench_refuses_stages() {
  local kind
  for kind in predict prefill; do
    expect 2 ranks 4 bench $kind "$recipe"
    expect_text err "has 3 stages, but only one layout can be measured"
  done
}

run_tests "$@"
