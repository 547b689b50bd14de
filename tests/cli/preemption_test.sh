#!/usr/bin/env bash
# Faults 5 and 6: a run that is asked to stop saves, exits 75, and resumed ends with the weights it would have had.
. "$(dirname "$0")/cli.sh"

steps=1000
train() { "$HEXAD" train tiny.yaml train.steps=$steps checkpoint.every=0 "$@"; }

# Starts a run in the background, sends it signal $1 after its third step, leaves its exit code in $code.
interrupt() {
  local signal=$1 pid
  shift
  "$HEXAD" train tiny.yaml train.steps=$steps checkpoint.every=0 "$@" >out 2>err &
  pid=$!
  wait_until has_lines run/metrics.jsonl 3
  kill -s "$signal" "$pid"
  code=0
  wait "$pid" || code=$?
}

resumes_bitwise() { # SIGNAL OVERRIDES...
  local signal=$1
  shift
  interrupt "$signal" "$@"
  expect_equal "$code" 75
  expect_text err "preempted after step" "saved, start me again"
  expect 0 train "$@"
  expect_text err "resumed from"
  expect 0 train "$@" run.dir=uninterrupted
  expect_same_weights run uninterrupted $steps
}

test_sigusr1_saves_and_the_resumed_run_ends_with_the_same_bytes() { resumes_bitwise USR1; }
test_sigterm_saves_and_the_resumed_run_ends_with_the_same_bytes() { resumes_bitwise TERM; }
test_a_bf16_run_with_recomputation_resumes_to_the_same_bytes() {
  resumes_bitwise USR1 train.precision=bf16 recompute=block
}

test_a_second_signal_does_not_disturb_the_save() {
  local pid
  "$HEXAD" train tiny.yaml train.steps=$steps checkpoint.every=0 >out 2>err &
  pid=$!
  wait_until has_lines run/metrics.jsonl 3
  kill -USR1 "$pid"
  while kill -TERM "$pid" 2>/dev/null; do :; done
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" 75
  expect 0 "$HEXAD" inspect run --verify
}

test_a_signal_before_the_first_step_counts() {
  local pid
  "$HEXAD" train tiny.yaml train.steps=$steps checkpoint.every=0 >out 2>err &
  pid=$!
  wait_until test -e run/lock
  kill -USR1 "$pid"
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" 75
}

run_tests "$@"
