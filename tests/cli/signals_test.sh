#!/usr/bin/env bash
# Ctrl-C and SIGTERM end `bench`, `eval` and `prepare` immediately. preemption_test.sh tests `train`, which saves first.
. "$(dirname "$0")/cli.sh"

# `dies_of SIGNAL CONDITION -- COMMAND...`: starts the command, and sends the signal once the condition holds. Expects
# the command to die of the signal.
dies_of() {
  local signal=$1 condition=$2 pid
  shift 3
  env --default-signal=INT,USR1 "$@" >out 2>err &
  pid=$!
  wait_until $condition
  kill -"$signal" "$pid"
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" $((128 + $(kill -l "$signal")))
}
# True once the command has used more than 50 ms of a core.
computes() { [ -n "$pid" ] && [ "$(cut -d' ' -f14 "/proc/$pid/stat")" -gt 5 ]; }

test_benchmark_dies_of_signals() {
  local signal
  for signal in INT TERM USR1; do dies_of $signal computes -- "$HEXAD" bench gemm --seconds 1000; done
}

test_eval_dies_of_signals() {
  local signal
  mkdir texts
  seq -f "line %g of a text about the quick brown fox that jumps over the lazy dog" 20000 >texts/a.txt
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0.5 --split-bytes 1024
  expect 0 "$HEXAD" train tiny.yaml data.synthetic=false data.dataset=data model.vocab=0 train.steps=1 \
    train.eval_sequences=1 checkpoint.at_end=true
  for signal in INT TERM; do
    dies_of $signal computes -- "$HEXAD" eval run
  done
}

test_prepare_dies_of_signals() {
  local signal
  mkdir texts
  seq -f "line %g of a text about the quick brown fox that jumps over the lazy dog" 200000 >texts/a.txt
  for signal in INT TERM; do
    dies_of $signal computes -- "$HEXAD" prepare --input texts --output data --vocab 8000
    expect_nothing_at data/summary.json
  done
}

run_tests "$@"
