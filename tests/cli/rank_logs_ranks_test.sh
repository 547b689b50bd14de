#!/usr/bin/env bash
# Each rank's log file holds the identity of the rank, and the start, saves, warnings and end of the run.
# The terminal shows only a part of the log.
. "$(dirname "$0")/cli.sh"

job=(train tiny.yaml parallel.ep=2 optim.schedule=constant)
in_both_logs() {
  local rank
  for rank in 0 1; do expect_text run/log/rank-000$rank.log "$@"; done
}

test_every_log_covers_the_run_from_its_start() {
  expect 0 ranks 2 "${job[@]}" train.steps=4
  in_both_logs "info: hexad $("$HEXAD" --version) (" " of 2, host $(hostname), pid " "of pp 1 x dp 2 x cp 1 x tp 1 | pp 1" \
    "info: a new run, which resumes from no checkpoint" "info: saved step 2 in " "info: saved step 4 in " " by this rank" \
    "info: done after step 4"
  expect_text run/log/rank-0000.log "rank 0 of 2" "at pp 0, dp 0, cp 0, tp 0, edp 0, ep 0, etp 0 of"
  expect_text run/log/rank-0001.log "rank 1 of 2" "at pp 0, dp 1, cp 0, tp 0, edp 0, ep 1, etp 0 of"
  expect_no_text err "info: hexad " "a new run" "saved step" "done after"
  expect 0 ranks 2 "${job[@]}" train.steps=6
  in_both_logs "info: resumed from run/checkpoints/step-00000004 (step 4)" "info: done after step 6"
  expect_count 1 err "resumed from run/checkpoints/step-00000004"
}

test_every_log_has_the_warnings_and_the_error_that_ends_the_run() {
  HEXAD_FAULT=nan@0,2 expect 5 ranks 2 "${job[@]}" train.max_skipped=1 checkpoint.every=0
  in_both_logs "warning: step 2 skipped: " "ends in step 2: step 2: 1 step without a finite loss"
  expect_count 1 err "warning: step 2 skipped: "
}

run_tests "$@"
