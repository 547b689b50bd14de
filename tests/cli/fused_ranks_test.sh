#!/usr/bin/env bash
# All ranks decide `schedule.moe.fused: auto` together in the first step, after a trial in a child process of each rank.
. "$(dirname "$0")/cli.sh"

# `decisions RANK`: prints on or off for forward and for backward, as in the log of the rank.
decisions() { sed -nE 's/.*schedule\.moe\.fused: (on|off) in (forward|backward) \(.*/\2 \1/p' "run/log/rank-000$1.log" | xargs; }

test_bench_fused_compares_both_ways() {
  local direction
  expect 0 "$HEXAD" bench fused --rows 70 --hidden 40 --width 24 --experts 3
  for direction in forward backward; do
    grep -qE "^$direction: one call .* two calls .* largest error 0 times the tolerance" out ||
      failed "the output has no line for $direction: $(cat out)"
  done
  expect 2 "$HEXAD" bench fused --device meta
  expect 2 "$HEXAD" bench fused --rows 0
}

test_all_ranks_decide_alike_in_the_first_step() {
  local rank
  expect 0 ranks 2 train tiny.yaml parallel.ep=2 train.steps=2 schedule.moe.fused=auto
  for rank in 0 1; do expect_count 2 "run/log/rank-000$rank.log" " contests, with errors of up to "; done
  [[ $(decisions 0) =~ ^forward\ (on|off)\ backward\ (on|off)$ ]] ||
    failed "the decisions are '$(decisions 0)', expected on or off in forward and in backward"
  expect_equal "$(decisions 0)" "$(decisions 1)"
}

test_trial_that_cannot_run_means_off() {
  TMPDIR=$PWD/nowhere expect 0 "$HEXAD" train tiny.yaml train.steps=2 schedule.moe.fused=auto
  expect_equal "$(decisions 0)" "forward off backward off"
  expect_text run/log/rank-0000.log "schedule.moe.fused: off in forward (the trial failed on at least one rank)"
  expect_no_text run/log/rank-0000.log " contests"
}

# The time limit of the trial is a third of watchdog_seconds. A run of one rank has no watchdog that could end the
# trial.
test_trial_that_does_not_end_means_off() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=2 schedule.moe.fused=auto distributed.watchdog_seconds=0.003
  expect_equal "$(decisions 0)" "forward off backward off"
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
