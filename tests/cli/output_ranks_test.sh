#!/usr/bin/env bash
# Output under mpirun. The first rank always has a terminal, even if mpirun's own output is a file or a pipe.
. "$(dirname "$0")/cli.sh"

test_no_control_codes_in_a_file() {
  expect 0 ranks 2 train tiny.yaml parallel.ep=2
  expect_plain out
  expect_plain err
  expect_text out "step 1/6" "step 6/6"
}

test_no_control_codes_in_a_pipe() {
  ranks 2 train tiny.yaml parallel.ep=2 2>err | cat >out
  expect_plain out
  expect_text out "step 6/6"
}

test_terminal_of_mpirun_gets_the_progress_line() {
  TERM=xterm script -qec "${launch[*]} -np 2 $HEXAD train tiny.yaml" /dev/null >out </dev/null
  LC_ALL=C grep -q $'\r\x1b\\[K' out || failed "no progress line: $(cat -v out)"
}

# Under mpirun, standard error is a pipe to mpirun, which prints the messages on the same terminal.
test_messages_wipe_the_progress_line_of_mpirun() {
  HEXAD_FAULT=nan@0,3 TERM=xterm script -qec "${launch[*]} -np 2 $HEXAD train tiny.yaml" /dev/null >out </dev/null
  LC_ALL=C grep -q $'\r\x1b\\[Kwarning: step 3 skipped' out || failed "the progress line was not wiped: $(cat -v out)"
}

test_wrong_recipe_is_reported_once() {
  expect 2 ranks 2 train tiny.yaml model.hiden=3
  expect_count 1 err "did you mean hidden?"
}

test_ranks_that_do_not_fit_are_reported_with_the_arithmetic() {
  expect 2 ranks 3 train tiny.yaml
  expect_text err "batch.global (8) must be divisible by batch.micro x dp (2 x 3 = 6); nearest: 6, 12"
}

run_tests "$@"
