#!/usr/bin/env bash
# Damaged, missing, foreign and misleading checkpoints.
. "$(dirname "$0")/cli.sh"

constant=optim.schedule=constant
trained_to_4() { expect 0 "$HEXAD" train tiny.yaml train.steps=4 $constant; }
go_on() { "$HEXAD" train tiny.yaml $constant "$@"; }
shard=shard-00000-of-00001.safetensors
newest=run/checkpoints/step-00000004

# `flip_a_bit FILE OFFSET`: changes one bit of the byte at this offset.
flip_a_bit() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N1 "$1")
  printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

test_missing_dangling_or_garbage_latest_is_only_a_hint() {
  local damage
  for damage in 'rm latest' 'echo step-00000099 >latest' 'head -c 100 /dev/urandom >latest' ': >latest' \
    'rm latest; ln -s nowhere latest' 'rm latest; mkdir latest'; do
    rm -rf run
    trained_to_4
    (cd run/checkpoints && eval "$damage")
    expect 0 go_on
    expect_text err "warning:" "latest" "resumed from run/checkpoints/step-00000004"
  done
}

# `falls_back_naming TEXT...`: expects the run to continue from step 2 with a warning that contains the texts.
falls_back_naming() {
  expect 0 go_on
  expect_text err "resumed from run/checkpoints/step-00000002" "warning:" "$@"
  expect_text out "step 6/6"
}

test_flipped_bit_is_named_and_an_older_checkpoint_is_used() {
  trained_to_4
  # Flips a bit in the middle of the file, which is inside a tensor.
  flip_a_bit $newest/$shard $(($(stat -c %s $newest/$shard) / 2))
  expect 3 "$HEXAD" inspect $newest --verify
  expect_text err $shard
  falls_back_naming $newest/$shard
}

test_inspect_checks_all_checkpoints_and_names_the_newest_good_one() {
  trained_to_4
  expect 0 "$HEXAD" inspect run --verify
  expect_text out "good  $newest" "good  run/checkpoints/step-00000002" "the run would continue from $newest"
  flip_a_bit $newest/$shard $(($(stat -c %s $newest/$shard) / 2))
  expect 3 "$HEXAD" inspect run --verify
  expect_text err "bad checkpoint: $newest/$shard: " "' is damaged: digest "
  expect_text out "good  run/checkpoints/step-00000002" "the run would continue from run/checkpoints/step-00000002"
  expect 3 "$HEXAD" inspect run --verify --json
  expect_text out '"step": 2' '"good"' '"bad"' "$newest/$shard"
  flip_a_bit run/checkpoints/step-00000002/$shard 2000
  expect 3 "$HEXAD" inspect run --verify
  expect_text err "$newest/$shard" "run/checkpoints/step-00000002/$shard"
  expect_text out "no checkpoint is good: the run cannot continue"
}

test_inspect_reports_a_bad_checkpoint_that_it_skips() {
  trained_to_4
  truncate -s -1 $newest/$shard
  expect 0 "$HEXAD" inspect run
  expect_text err "bad checkpoint: $newest/$shard" "using run/checkpoints/step-00000002"
}

test_older_checkpoint_replaces_one_with_a_truncated_shard() {
  trained_to_4
  truncate -s -1 $newest/$shard
  falls_back_naming $newest/$shard
}

test_older_checkpoint_replaces_one_with_an_empty_shard() {
  trained_to_4
  : >$newest/$shard
  falls_back_naming $newest/$shard
}

test_older_checkpoint_replaces_one_with_a_missing_shard() {
  trained_to_4
  rm $newest/$shard
  falls_back_naming $newest/$shard
}

test_older_checkpoint_replaces_one_with_a_shard_of_another_checkpoint() {
  trained_to_4
  cp run/checkpoints/step-00000002/$shard $newest/$shard
  falls_back_naming $newest/$shard
}

test_folder_without_a_manifest_is_not_a_checkpoint() {
  trained_to_4
  rm $newest/manifest.json
  expect 3 "$HEXAD" inspect $newest
  expect_text err "$newest/manifest.json: is missing, so this is not a checkpoint"
  falls_back_naming $newest/manifest.json
}

test_corrupt_manifest_is_named() {
  trained_to_4
  truncate -s 100 $newest/manifest.json
  falls_back_naming $newest/manifest.json
}

test_manifest_of_a_newer_version_is_named() {
  trained_to_4
  sed -i -E 's/("version": ?)[0-9]+/\199/' $newest/manifest.json
  falls_back_naming $newest/manifest.json version 99
}

test_run_does_not_start_over_if_all_checkpoints_are_bad() {
  trained_to_4
  truncate -s -1 run/checkpoints/step-*/$shard
  expect 3 go_on
  expect_text err step-00000002 step-00000004 "checkpoint.resume: none"
  expect 0 go_on checkpoint.resume=none
  expect_no_text err "resumed from"
}

test_requested_step_must_exist() {
  trained_to_4
  expect 3 go_on checkpoint.resume=3
  expect_text err "no checkpoint of step 3, expected one of the steps 2, 4"
  expect 0 go_on checkpoint.resume=2
  expect_text err "resumed from run/checkpoints/step-00000002"
  expect 2 go_on checkpoint.resume=soon
  expect_text err "checkpoint.resume (soon) must be auto, none or a step"
}

test_checkpoints_after_the_resumed_step_are_moved_away() {
  trained_to_4
  HEXAD_FAULT=kill@0,3 run go_on checkpoint.resume=2
  [ "$code" -ne 0 ] || failed "exit code 0, expected that of a killed run"
  expect_text err "retraining from step 3; later checkpoints were moved aside and can be removed: " "$newest.abandoned"
  expect_text run/checkpoints/latest step-00000002
  expect 0 go_on
  expect_text err "resumed from run/checkpoints/step-00000002"
  expect_no_text err "checkpoint: " "latest"
  expect_text out "step 6/6"
  expect 0 "$HEXAD" inspect $newest.abandoned --verify
  HEXAD_FAULT=kill@0,1 run go_on checkpoint.resume=none
  expect 0 go_on
  expect_no_text err "resumed from"
}

test_resume_moves_no_checkpoint_before_the_first_step() {
  trained_to_4
  expect 0 go_on checkpoint.resume=2 train.steps=2
  expect_file $newest/manifest.json
}

test_changed_model_is_refused_with_the_difference() {
  trained_to_4
  expect 2 go_on model.hidden=32 model.moe.experts=8
  expect_text err "model.hidden: 16 -> 32" "model.moe.experts: 4 -> 8" "another run.dir"
}

test_changed_optimizer_is_refused() {
  trained_to_4
  expect 2 go_on optim.name=sgd
  expect_text err "optim.name"
}

test_weights_that_are_not_finite_are_not_saved() {
  HEXAD_FAULT=nan@0,6 expect 5 "$HEXAD" train tiny.yaml
  expect_text err "checkpoint of step 6 was not saved: main: 'head.weight' [64, 16] holds nan at element 0"
  expect 0 go_on train.steps=4
  expect_text err "resumed from $newest"
}

test_new_run_starts_from_the_weights_of_a_checkpoint() {
  trained_to_4
  expect 0 "$HEXAD" train tiny.yaml run.dir=second train.init_from=$newest optim.lr=0
  expect_text err "weights from $newest"
  expect_text out "step 1/6"
  expect 3 "$HEXAD" train tiny.yaml run.dir=third train.init_from=run/nowhere
  expect_text err "train.init_from (run/nowhere) is not a checkpoint"
  expect 3 "$HEXAD" train tiny.yaml run.dir=third train.init_from=run
  expect_text err "train.init_from (run) is not a checkpoint" "it is a run directory, whose newest checkpoint is $newest"
}

run_tests "$@"
