#!/usr/bin/env bash
# If a run is asked to stop, it saves and exits with code 75. The resumed run ends with the weights of an uninterrupted
# run.
. "$(dirname "$0")/cli.sh"

steps=1000
train() { "$HEXAD" train tiny.yaml train.steps=$steps checkpoint.every=0 "$@"; }

# `interrupt SIGNAL KEY=VALUE...`: starts a run in the background, and sends it the signal once three steps are
# recorded. Each later step takes 0.3 s longer, so that the run does not end before the signal arrives. Sets $code to the
# exit code of the run.
interrupt() {
  local signal=$1 pid
  shift
  HEXAD_FAULT=slow@0,4,300 env --default-signal=INT "$HEXAD" train tiny.yaml train.steps=$steps checkpoint.every=0 "$@" \
    >out 2>err &
  pid=$!
  wait_until has_steps run 3
  kill -s "$signal" "$pid"
  code=0
  wait "$pid" || code=$?
}

# `resumes_bitwise SIGNAL KEY=VALUE...`: expects a run that is interrupted and resumed to end with the weights of an
# uninterrupted run.
resumes_bitwise() {
  local signal=$1
  shift
  interrupt "$signal" "$@"
  expect_equal "$code" 75
  expect_text err "preempted after step" "saved: start the run again to continue"
  expect 0 train "$@"
  expect_text err "resumed from"
  expect 0 train "$@" run.dir=uninterrupted
  expect_same_weights run uninterrupted $steps
}

test_sigusr1_saves_and_the_resumed_run_ends_with_the_same_bytes() { resumes_bitwise USR1; }
test_sigterm_saves_and_the_resumed_run_ends_with_the_same_bytes() { resumes_bitwise TERM; }
test_ctrl_c_saves_and_the_resumed_run_ends_with_the_same_bytes() { resumes_bitwise INT; }
test_bf16_run_with_recomputation_resumes_to_the_same_bytes() {
  resumes_bitwise USR1 train.precision=bf16 recompute=block
}

# Starts an endless run in the background as a terminal would. With a plain `&` in a script, the run would ignore SIGINT.
start() {
  env --default-signal=INT "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 "$@" >out 2>err &
  pid=$!
}
# `ended_with CODE`: waits for the run, and expects its exit code.
ended_with() {
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" "$1"
}

test_sigusr1_may_come_again_and_be_followed_by_one_sigterm() {
  local i
  start
  wait_until has_steps run 3
  for i in 1 2 3; do kill -USR1 "$pid"; done
  kill -TERM "$pid"
  ended_with 75
  expect 0 "$HEXAD" inspect run --verify
}

# Slurm sends SIGTERM twice within milliseconds, and users press Ctrl-C twice. The second and the third signal arrive
# during the save, less than a second after the first.
test_second_signal_within_a_second_belongs_to_the_first() {
  local first second
  for first in INT TERM; do
    for second in INT TERM; do
      rm -rf run
      HEXAD_FAULT=slow_files@0,1,150 start
      wait_until has_steps run 3
      kill -$first "$pid"
      sleep 0.03
      kill -$second "$pid"
      sleep 0.5
      kill -$second "$pid"
      ended_with 75
      expect 0 "$HEXAD" inspect run --verify
    done
  done
}

# The fault blocks the save, so that the signal after one second arrives before the run ends.
test_later_second_signal_ends_the_run_and_the_next_start_continues() {
  local first second number
  for first in INT TERM; do
    for second in INT TERM; do
      rm -rf run
      expect 0 "$HEXAD" train tiny.yaml train.steps=2 optim.schedule=constant
      HEXAD_FAULT="hang@0,0,shard: file written" start optim.schedule=constant
      wait_until has_steps run 3
      kill -$first "$pid"
      kill -$second "$pid"
      wait_until compgen -G 'run/checkpoints/step-*.tmp/shard-*' >shards
      sleep 1
      kill -$second "$pid"
      number=$(kill -l $second)
      ended_with $((128 + number))
      expect_text err "asked to stop: saving after step" \
        "another Ctrl-C or SIGTERM after 1 s ends the run immediately, saved or not"
      expect 0 "$HEXAD" train tiny.yaml train.steps=4 optim.schedule=constant
      expect_text err "resumed from run/checkpoints/step-00000002"
      expect_text out "step 4/4"
    done
  done
}

# Drawing millions of initial weights takes longer than the test needs to see the lock and to send the signal.
test_signal_while_the_run_is_loading_ends_it_before_the_first_step() {
  local signal
  for signal in USR1 TERM INT; do
    rm -rf run
    start model.vocab=60000 model.hidden=256
    wait_until test -e run/lock
    kill -$signal "$pid"
    ended_with 75
    expect_text err "preempted before step 1; nothing to save: start the run again"
    expect_no_text out "step 1/"
    expect_equal "$(ls -A run/checkpoints 2>/dev/null)" ""
  done
}

test_ignored_sigint_stays_ignored() {
  (trap "" INT && exec "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >out 2>err) &
  pid=$!
  wait_until has_steps run 3
  kill -INT "$pid"
  sleep 0.1  # otherwise both signals would count as one
  kill -INT "$pid"
  kill -USR1 "$pid"
  ended_with 75
}

run_tests "$@"
