#!/usr/bin/env bash
# All ranks decide `schedule.moe.fused: auto` together in the first step, after a trial in a child process of each rank.
. "$(dirname "$0")/cli.sh"

# `decision RANK`: prints on or off, as in the log of the rank.
decision() { sed -nE 's/.*schedule\.moe\.fused: (on|off) \(.*/\1/p' "run/log/rank-000$1.log"; }

test_bench_fused_compares_both_ways() {
  expect 0 "$HEXAD" bench fused --rows 70 --hidden 40 --width 24 --experts 3
  expect_text out "one call " "two calls " "largest error 0 times the tolerance"
  expect 2 "$HEXAD" bench fused --device meta
  expect 2 "$HEXAD" bench fused --rows 0
}

test_all_ranks_decide_alike_in_the_first_step() {
  local rank
  expect 0 ranks 2 train tiny.yaml parallel.ep=2 train.steps=2 schedule.moe.fused=auto
  for rank in 0 1; do expect_count 1 "run/log/rank-000$rank.log" " contests, with errors of up to "; done
  [[ $(decision 0) =~ ^(on|off)$ ]] || failed "the decision is '$(decision 0)', expected on or off"
  expect_equal "$(decision 0)" "$(decision 1)"
}

test_trial_that_cannot_run_means_off() {
  TMPDIR=$PWD/nowhere expect 0 "$HEXAD" train tiny.yaml train.steps=2 schedule.moe.fused=auto
  expect_equal "$(decision 0)" off
  expect_text run/log/rank-0000.log "schedule.moe.fused: off (the trial failed on at least one rank)"
  expect_no_text run/log/rank-0000.log " contests"
}

# The time limit of the trial is a third of watchdog_seconds. A run of one rank has no watchdog that could end the
# trial.
test_trial_that_does_not_end_means_off() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=2 schedule.moe.fused=auto distributed.watchdog_seconds=0.003
  expect_equal "$(decision 0)" off
  expect_text run/log/rank-0000.log "the process did not end within "
  expect_no_text run/log/rank-0000.log " contests"
}

test_both_ways_train_alike_on_a_cpu() {
  expect 0 "$HEXAD" train tiny.yaml schedule.moe.fused=on run.dir=on
  expect 0 "$HEXAD" train tiny.yaml schedule.moe.fused=off run.dir=off
  expect_same_weights on off 6
}

test_experts_that_cannot_be_fused_are_refused() {
  expect 2 "$HEXAD" validate tiny.yaml schedule.moe.fused=on model.moe.expert=gelu
  expect_text err "schedule.moe.fused" "needs model.moe.expert: swiglu"
}

run_tests "$@"
