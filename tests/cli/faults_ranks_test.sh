#!/usr/bin/env bash
# Faults of one of several ranks: a full disk, a killed save, a NaN, a run directory that cannot be used.
. "$(dirname "$0")/cli.sh"

train() { ranks 2 train tiny.yaml parallel.ep=2 optim.schedule=constant "$@"; }

test_all_ranks_agree_that_the_disk_of_one_rank_is_full() {
  local rank
  for rank in 0 1; do
    rm -rf run
    expect 0 train train.steps=2
    HEXAD_FAULT="full@$rank,4,shard: file written" expect 4 train
    expect_text err "checkpoint of step 4 was not saved" "no space left on device"
    expect_equal "$(ls run/checkpoints | tr '\n' ' ')" "latest step-00000002 "
  done
  # With checkpoint.on_failure=go_on, only the last save must succeed.
  HEXAD_FAULT="full@1,4,shard: file written" expect 4 train checkpoint.on_failure=go_on
  expect_text err "resumed from run/checkpoints/step-00000002"
  expect_text err "step 4 was not saved: rank 1: no space" "step 6 was not saved: rank 1: no space"
  expect_text out "step 6/6"
}

test_run_continues_from_the_last_good_checkpoint_after_a_killed_save() {
  expect 0 train train.steps=2
  HEXAD_FAULT="kill@1,4,shard: file written" run train
  [ "$code" -ne 0 ] || failed "exit code 0, expected that of a killed run; was the fault reached?"
  expect 0 train
  expect_text err "resumed from run/checkpoints/step-00000002"
}

test_nan_on_one_rank_is_skipped_by_all() {
  HEXAD_FAULT=nan@1,3 expect 5 train train.max_skipped=2
  expect_count 2 err "skipped: loss"
  expect_text err "step 4: 2 steps in a row without a finite loss and gradient; expected fewer than 2 (train.max_skipped)"
}

test_shared_or_unwritable_run_directory_ends_the_whole_job() {
  local pid
  "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >first 2>&1 &
  pid=$!
  wait_until has_steps run 1
  expect 2 train
  expect_text err "run: in use by process $pid on host $(hostname)"
  kill -9 "$pid"
  wait "$pid" 2>/dev/null
  echo "I am a file" >file
  expect 4 train run.dir=file
  expect_text err "file"
}

run_tests "$@"
