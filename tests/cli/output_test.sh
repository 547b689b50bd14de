#!/usr/bin/env bash
# Output to terminals and to files, to readers that end early, and to a full disk.
. "$(dirname "$0")/cli.sh"

test_leaving_reader_does_not_end_the_run() {
  "$HEXAD" train tiny.yaml train.steps=50 2>err | head -1 >out
  code=${PIPESTATUS[0]}
  expect_equal "$code" 0
  expect 0 "$HEXAD" inspect run --verify
  expect_text out "step 50,"
}

test_leaving_reader_does_not_fail_a_printing_command() {
  "$HEXAD" reference 2>err | head -1 >out
  code=${PIPESTATUS[0]}
  expect_equal "$code" 0
  [ ! -s err ] || failed "standard error is not empty, expected no message: $(cat err)"
}

test_closed_standard_error_keeps_the_exit_code() {
  # The reader has ended before the program writes.
  { sleep 0.2; "$HEXAD" validate missing.yaml 2>&1 >/dev/null; echo $? >code; } | true
  { sleep 0.2; "$HEXAD" train missing.yaml 2>&1; echo $? >code2; } | true
  expect_equal "$(cat code) $(cat code2)" "2 2"
}

test_closed_standard_output_is_not_a_failure() {
  "$HEXAD" train tiny.yaml >&- 2>err
  expect_equal $? 0
  ! grep -rqF "step 1/6" run || failed "the progress line is in $(grep -rlF "step 1/6" run)"
  expect 0 "$HEXAD" inspect run --verify
}

test_full_disk_for_printed_output_is_reported() {
  "$HEXAD" env >/dev/full 2>err
  expect_equal $? 4
  expect_text err "No space left on device"
}

test_full_disk_for_generated_text_and_tokens_is_reported() {
  seq 200 >a.txt
  expect 0 "$HEXAD" prepare --input a.txt --output data --tokenizer bytes --heldout 0
  for option in --ids --decode; do
    "$HEXAD" tokenize a.txt --tokenizer data $option >/dev/full 2>err
    expect_equal $? 4
    expect_text err "standard output: No space left on device"
  done
  expect 0 "$HEXAD" train tiny.yaml model.vocab=0 data.synthetic=false data.dataset=data
  "$HEXAD" generate run --prompt x --max-tokens 2 >/dev/full 2>err
  expect_equal $? 4
  expect_text err "standard output: No space left on device"
}

test_limit_of_file_sizes_is_an_error_of_the_file() {
  seq 20000 >a.txt
  (ulimit -f 40 && exec "$HEXAD" prepare --input a.txt --output data --tokenizer bytes --heldout 0) >out 2>err
  expect_equal $? 4
  expect_text err "data/unfinished/shard-0-train.hxd: cannot be written: File too large"
}

test_files_get_no_control_codes() {
  expect 0 "$HEXAD" train tiny.yaml
  expect_plain out
  expect_plain err
  expect_text out "step 1/6" "step 6/6"
}

test_terminal_gets_one_updated_line() {
  TERM=xterm script -qec "$HEXAD train tiny.yaml" /dev/null >out </dev/null
  LC_ALL=C grep -q $'\r\x1b\\[K' out || failed "no progress line: $(cat -v out)"
}

test_failure_message_begins_below_the_progress_line() {
  HEXAD_FAULT=nan@0,3 TERM=xterm script -qec "$HEXAD train tiny.yaml train.max_skipped=1" /dev/null >out </dev/null
  # The failure message does not overwrite the progress line.
  LC_ALL=C grep -q $'^hexad: step 3' out || failed "the message is not at the start of a line: $(cat -v out)"
}

test_last_step_is_printed_once() {
  expect 0 "$HEXAD" train tiny.yaml
  expect_count 1 out "loss $(sed -n 's/^step 6\/6  loss \([0-9.]*\) .*/\1/p' out)"
  expect_no_text out "  0 ms left"
}

run_tests "$@"
