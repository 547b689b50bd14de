#!/usr/bin/env bash
# The watchdog blames the rank that causes a hang. File work that makes progress does not count as a hang.
. "$(dirname "$0")/cli.sh"

job=(train tiny.yaml optim.schedule=constant distributed.watchdog_seconds=1)

# `expect_rank_2_is_blamed STEPS OVERRIDE...`: stops rank 2 of four after STEPS steps of a run with these overrides.
# Expects the other ranks to blame rank 2.
expect_rank_2_is_blamed() {
  local pid rank
  rm -rf run
  "${launch[@]}" -np 4 "$HEXAD" "${job[@]}" train.steps=1000000 checkpoint.every=0 "${@:2}" >out 2>err &
  launcher=$!
  wait_until has_steps run "$1"
  pid=$(process_of 2)
  kill -STOP "$pid"
  code=0
  wait "$launcher" || code=$?
  expect_equal "$code" 6
  expect_text err "hang: 1 s in operation" "to blame: rank 2 (host $(hostname), pid $pid) does not answer"
  for rank in 0 1 3; do expect_text "run/log/rank-000$rank.log" "to blame: rank 2 (host $(hostname), pid $pid)"; done
}

test_waiting_ranks_blame_the_stopped_rank() {
  expect_rank_2_is_blamed 5 parallel.ep=2
  expect_rank_2_is_blamed 13 parallel.ep=4 parallel.zero=3
  expect_rank_2_is_blamed 28 parallel.tp=2 parallel.ep=2
  expect_rank_2_is_blamed 17 parallel.pp=2 parallel.ep=2
}

test_rank_that_hangs_in_its_own_code_is_blamed() {
  HEXAD_FAULT=hang@2,4 expect 6 ranks 4 "${job[@]}" parallel.tp=2 parallel.ep=2
  expect_text err "to blame: rank 2 (host $(hostname), pid " "waits for no other rank: it computes, or hangs in its own" \
    "its last operation, "
}

test_slow_file_work_is_not_a_hang() {
  # The other rank waits for the slow rank longer than the watchdog's limit.
  HEXAD_FAULT=slow_files@1,1,700 expect 0 ranks 2 "${job[@]}" parallel.ep=2 train.steps=2
  HEXAD_FAULT=slow_files@0,1,60 expect 0 ranks 2 "${job[@]}" parallel.ep=2 train.steps=3 checkpoint.at_end=false
  expect_text err "resumed from run/checkpoints/step-00000002"
}

test_stalled_file_work_is_a_hang() {
  HEXAD_FAULT=stuck_files@1,1 expect 6 ranks 2 "${job[@]}" parallel.ep=2 train.steps=2
  expect_text err "to blame: rank 1 (host $(hostname), pid " "has made no progress in its file work for" \
    "it is saving the checkpoint of step 2: run/checkpoints/step-00000002.1.tmp/shard-00001-of-00002.safetensors"
  expect 0 ranks 2 "${job[@]}" parallel.ep=2 train.steps=2
  HEXAD_FAULT=stuck_files@0,1 expect 6 ranks 2 "${job[@]}" parallel.ep=2 train.steps=4
  expect_text err "to blame: rank 0 (host $(hostname), pid " \
    "it is looking for the checkpoint to resume from: run/checkpoints/step-00000002/manifest.json"
}

test_all_ranks_learn_of_damage_that_one_rank_finds() {
  local shard
  expect 0 ranks 2 "${job[@]}" parallel.ep=2 train.steps=4
  shard=run/checkpoints/step-00000004/shard-00001-of-00002.safetensors
  printf x | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 3)) conv=notrunc 2>/dev/null
  expect 0 ranks 2 "${job[@]}" parallel.ep=2 train.steps=5
  expect_text err "bad checkpoint: $shard: " "is damaged" "using run/checkpoints/step-00000002, the newest good" \
    "resumed from run/checkpoints/step-00000002"
  printf x | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 3)) conv=notrunc 2>/dev/null
  expect 3 ranks 2 "${job[@]}" parallel.ep=2 train.steps=6 checkpoint.resume=4
  expect_text err "$shard: "
}

run_tests "$@"
