#!/usr/bin/env bash
# If writing a checkpoint fails or the run dies, the last good checkpoint remains and is found.
. "$(dirname "$0")/cli.sh"

# Points of a save at which these tests plant faults, in order (framework/io/checkpoint_writer.cpp).
before_commit=("folder: created" "shard: file written" "shard: file synced" "manifest: file written"
  "manifest: file synced" "folder: synced")
after_commit=("folder: renamed" "folder: rename synced" "latest: file written" "latest: file synced"
  "latest: file renamed")

saved_step_2() { expect 0 "$HEXAD" train tiny.yaml train.steps=2 optim.schedule=constant; }
go_on() { "$HEXAD" train tiny.yaml train.steps=4 optim.schedule=constant "$@"; }

# Kills the save of step 4 at point $1, in the second start of the run. The next start must continue from step $2 and
# reach the end.
dies_at() {
  local point=$1 resumes_from=$2
  rm -rf run
  saved_step_2
  HEXAD_FAULT="kill@0,4,$point" run go_on
  [ "$code" -eq 137 ] || failed "fault '$point': exit code $code, expected 137"
  expect 0 go_on
  expect_text err "resumed from run/checkpoints/step-0000000$resumes_from"
  expect_nothing_at run/checkpoints/step-00000004.2.tmp
  expect_same_weights run uninterrupted 4
}

test_kill_at_any_file_boundary_leaves_the_old_or_the_new_checkpoint() {
  local point
  expect 0 go_on run.dir=uninterrupted
  for point in "${before_commit[@]}"; do dies_at "$point" 2; done
  for point in "${after_commit[@]}"; do dies_at "$point" 4; done
}

test_kill_during_a_removal_loses_no_checkpoint() {
  local point
  for point in "retention: renamed" "retention: removed"; do
    rm -rf run
    saved_step_2
    HEXAD_FAULT="kill@0,4,$point" expect 137 go_on checkpoint.keep=1
    expect 0 go_on checkpoint.keep=1
    expect_text err "resumed from run/checkpoints/step-00000004"
    expect 0 "$HEXAD" inspect run --verify
  done
}

test_full_disk_ends_the_run_with_4_and_leaves_the_last_checkpoint() {
  local point
  for point in "${before_commit[@]}"; do
    rm -rf run
    saved_step_2
    HEXAD_FAULT="full@0,4,$point" expect 4 go_on
    expect_text err "checkpoint of step 4 was not saved" "no space left on device"
    expect_nothing_at run/checkpoints/step-00000004.2.tmp
    expect_nothing_at run/checkpoints/step-00000004
    expect 0 go_on
    expect_text err "resumed from run/checkpoints/step-00000002"
  done
}

test_save_with_an_unconfirmed_rename_is_kept_with_a_warning() {
  local point
  for point in "folder: renamed" "folder: rename synced"; do
    rm -rf run
    saved_step_2
    HEXAD_FAULT="full@0,4,$point" expect 0 go_on checkpoint.keep=1
    expect_text err "run/checkpoints/step-00000004 is saved, but may not survive a power cut: no space left on device"
    expect_no_text err "was not saved"
    expect 0 "$HEXAD" inspect run --verify
    expect_text out "good  run/checkpoints/step-00000002" "the run would continue from run/checkpoints/step-00000004"
  done
}

test_full_disk_does_not_end_a_run_with_on_failure_go_on() {
  HEXAD_FAULT="full@0,0,shard: file written" expect 0 "$HEXAD" train tiny.yaml checkpoint.on_failure=go_on \
    checkpoint.at_end=false
  expect_count 3 err "was not saved"
  expect_text out "step 6/6"
  expect_equal "$(ls -A run/checkpoints)" ""
}

test_last_save_must_succeed() {
  HEXAD_FAULT="full@0,0,shard: file written" expect 4 "$HEXAD" train tiny.yaml checkpoint.on_failure=go_on
  expect_count 3 err "was not saved"
  expect_text out "step 6/6"
}

# Sets a real limit instead of a planted fault. No file may grow past 40 KiB; log and metrics remain smaller.
test_file_size_limit_is_reported_with_the_systems_message() {
  expect 4 bash -c 'ulimit -f 40; exec "$@"' - "$HEXAD" train tiny.yaml model.hidden=64
  expect_text err "shard-00000-of-00001.safetensors" "File too large"
  expect_equal "$(ls -A run/checkpoints)" ""
}

run_tests "$@"
