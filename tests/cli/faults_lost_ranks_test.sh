#!/usr/bin/env bash
# A rank that crashes, is killed, is stopped, hangs or has too little memory, and a launcher that is killed.
. "$(dirname "$0")/cli.sh"

job=(train tiny.yaml parallel.ep=2 optim.schedule=constant)
endless=("${job[@]}" train.steps=1000000 checkpoint.every=20)

# Starts an endless job in the background, and waits for 45 steps. Sets $launcher, $rank0 and $rank1 to the process ids
# of the launcher and the ranks.
start() {
  "${launch[@]}" -np 2 "$HEXAD" "${endless[@]}" "$@" >out 2>err &
  launcher=$!
  wait_until has_steps run 45
  rank0=$(process_of 0) rank1=$(process_of 1)
}
gone() { ! kill -0 "$1" 2>/dev/null; }
# Expects the launcher and both ranks to end within ten seconds after $1, a value of $SECONDS. Sets $code to the
# launcher's exit code.
expect_gone_after() {
  code=0
  wait "$launcher" || code=$?
  wait_until gone "$rank0"
  wait_until gone "$rank1"
  [ $((SECONDS - $1)) -le 10 ] || failed "the job ended after $((SECONDS - $1)) s, expected at most 10 s"
}
# Expects the run to have a good checkpoint, and to continue from it.
expect_last_good_one() {
  expect 0 "$HEXAD" inspect run --verify
  expect 0 ranks 2 "${job[@]}" train.steps="$(($(losses run | wc -l) + 2))" checkpoint.at_end=false
  expect_text err "resumed from run/checkpoints/step-"
}

test_kill_of_one_rank_ends_the_job_within_ten_seconds() {
  local since
  start
  since=$SECONDS
  kill -9 "$rank1"
  expect_gone_after "$since"
  [ "$code" -ne 0 ] || failed "the job ended with code 0, expected another code"
  expect_last_good_one
}

test_kill_of_the_launcher_ends_the_ranks() {
  local since
  start
  since=$SECONDS
  kill -9 "$launcher"
  expect_gone_after "$since"
  expect_equal "$code" 137
  expect_last_good_one
}

test_stopped_rank_is_named() {
  local since
  start distributed.watchdog_seconds=1
  since=$SECONDS
  kill -STOP "$rank1"
  expect_gone_after "$since"
  expect_equal "$code" 6
  expect_text err "hexad: rank 0: hang: 1 s in operation" "(2 ranks), " "rank 1" "to blame: rank 1 "
  expect_last_good_one
}

test_rank_that_never_enters_a_collective_is_named() {
  HEXAD_FAULT=hang@1,4 expect 6 ranks 2 "${job[@]}" distributed.watchdog_seconds=1
  expect_text err "hexad: rank 0: hang: 1 s in operation" "of group" "(2 ranks)" "no message arrives from rank 1" \
    "to blame: rank 1 "
  expect 0 ranks 2 "${job[@]}"
  expect_text err "resumed from run/checkpoints/step-00000002"
}

test_rank_that_hangs_while_saving_is_named() {
  HEXAD_FAULT="hang@1,4,shard: file written" expect 6 ranks 2 "${job[@]}" distributed.watchdog_seconds=1
  expect_text err "hexad: rank 0: hang: 1 s in operation" "of group" "no message arrives from rank 1" \
    "to blame: rank 1 " "has made no progress in its file work"
}

test_crash_leaves_rank_step_and_backtrace() {
  local signal
  for signal in segv:SIGSEGV abort:SIGABRT; do
    rm -rf run
    # With handle_segv=0, the address sanitizer leaves the report of SIGSEGV to the program.
    ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0" HEXAD_FAULT="${signal%:*}@1,4" run ranks 2 "${job[@]}"
    [ "$code" -gt 128 ] || failed "exit code $code, expected that of a signal (above 128)"
    expect_text run/log/rank-0001.log "rank 1 crashed in step 4: ${signal#*:}" "backtrace:" inject_fault
    expect 0 ranks 2 "${job[@]}"
    expect_text err "resumed from run/checkpoints/step-00000002"
  done
}

test_rank_without_memory_shows_the_largest_users_of_its_memory() {
  expect 4 ranks 2 "${job[@]}" memory.limit_bytes=300000
  expect_text err "out of memory: " "does not fit under the limit of 300000 bytes; in use:" "KiB in use, peak" "largest blocks:" \
    "KiB optimizer"
}

run_tests "$@"
