#!/usr/bin/env bash
# Requests to stop a run under mpirun: the run saves, and the next start continues it.
. "$(dirname "$0")/cli.sh"

steps=300
recipe=(train tiny.yaml train.steps=$steps checkpoint.every=0 parallel.ep=2)

# `interrupt SIGNAL KEY=VALUE...`: starts a job in the background, and sends mpirun the signal once three steps are
# recorded. Sets $code to mpirun's exit code. Open MPI forwards SIGUSR1 immediately. Open MPI forwards SIGTERM after a
# delay, here one second, and then gives the ranks the same time to save. Each step from the fourth takes 0.3 s longer,
# so that the run does not end before the signal arrives.
interrupt() {
  local pid
  HEXAD_FAULT=slow@0,4,300 env --default-signal=INT "${launch[@]}" --mca odls_base_sigkill_timeout 1 -np 2 \
    "$HEXAD" "${recipe[@]}" "${@:2}" >out 2>err &
  pid=$!
  wait_until has_steps run 3
  kill -s "$1" "$pid"
  code=0
  wait "$pid" || code=$?
}

test_sigusr1_to_mpirun_saves_and_the_resumed_run_ends_with_the_same_bytes() {
  interrupt USR1
  expect_equal "$code" 75
  expect_text err "preempted after step" "saved: start the run again to continue"
  expect 0 ranks 2 "${recipe[@]}"
  expect_text err "resumed from"
  expect 0 ranks 2 "${recipe[@]}" run.dir=uninterrupted
  expect_same_weights run uninterrupted $steps
}

# `saves_on SIGNAL`: expects a run to save after mpirun gets the signal. After the signal, mpirun stops reading the
# ranks' output and ends with its own exit code. On Ctrl-C, the ranks only get SIGTERM, because they are not in the
# terminal's foreground.
saves_on() {
  interrupt "$1" train.steps=1000000
  expect_equal "$code" 1
  expect 0 "$HEXAD" inspect run --verify
  expect_text run/log/rank-0000.log "preempted after step"
}
test_sigterm_to_mpirun_saves() { saves_on TERM; }
test_ctrl_c_to_mpirun_saves() { saves_on INT; }

# Every process of the job gets SIGTERM, as from a batch system at a time limit. mpirun sends its own SIGTERM more than
# a second later, while the ranks save.
test_sigterm_to_mpirun_and_to_its_ranks_saves() {
  HEXAD_FAULT=slow_files@0,1,250 "${launch[@]}" --mca odls_base_sigkill_timeout 2 -np 2 "$HEXAD" "${recipe[@]}" \
    train.steps=1000000 >out 2>err &
  launcher=$!
  wait_until has_steps run 3
  kill -TERM "$launcher" $(process_of 0) $(process_of 1)
  wait "$launcher"
  expect_text run/log/rank-0000.log "preempted after step"
  expect 0 "$HEXAD" inspect run --verify
}

# The next start estimates the time of a save from the saves of the previous run, which were slow.
test_start_warns_if_mpirun_leaves_too_little_time_for_a_save() {
  HEXAD_FAULT=slow_files@0,1,250 expect 0 ranks 2 "${recipe[@]}" train.steps=2 checkpoint.every=1 optim.schedule=constant
  expect 0 ranks 2 "${recipe[@]}" train.steps=3 optim.schedule=constant
  expect_text err "a save takes about" "mpirun kills the ranks 1 s after its SIGTERM (Ctrl-C), saved or not" \
    "export OMPI_MCA_odls_base_sigkill_timeout=10" "SIGUSR1 to mpirun"
  expect_text run/log/rank-0000.log "a save takes about"
  OMPI_MCA_odls_base_sigkill_timeout=10 expect 0 ranks 2 "${recipe[@]}" train.steps=4 optim.schedule=constant
  expect_no_text err "a save takes about"
  expect 0 "$HEXAD" train tiny.yaml train.steps=5 checkpoint.every=0 optim.schedule=constant
  expect_no_text err "a save takes about"
}

test_long_steps_cause_a_warning_once_they_are_measured() {
  HEXAD_FAULT=slow@1,1,900 expect 0 ranks 2 "${recipe[@]}" train.steps=4
  expect_count 1 err "a step and a save take about"
}

test_slow_save_within_the_timeout_of_the_readme_survives_ctrl_c() {
  local timeout
  timeout=$(sed -n 's/^ *export OMPI_MCA_odls_base_sigkill_timeout=\([0-9]*\).*/\1/p' "$CLI_TESTS/../../README.md")
  HEXAD_FAULT=slow_files@0,1,300 OMPI_MCA_odls_base_sigkill_timeout=$timeout env --default-signal=INT "${launch[@]}" -np 2 \
    "$HEXAD" "${recipe[@]}" train.steps=1000000 >out 2>err &
  launcher=$!
  wait_until has_steps run 3
  kill -INT "$launcher"
  wait "$launcher"
  expect_text err "asked to stop: saving after step" \
    "mpirun kills the ranks $timeout s after its SIGTERM, saved or not (OMPI_MCA_odls_base_sigkill_timeout)"
  expect_text run/log/rank-0000.log "preempted after step"
  expect 0 "$HEXAD" inspect run --verify
}

test_second_ctrl_c_to_mpirun_kills_the_ranks() {
  local pid
  HEXAD_FAULT="hang@0,0,shard: file written" env --default-signal=INT "${launch[@]}" -np 2 "$HEXAD" "${recipe[@]}" \
    train.steps=1000000 >out 2>err &
  pid=$!
  wait_until has_steps run 3
  kill -INT "$pid"
  wait_until compgen -G 'run/checkpoints/step-*.tmp/shard-*' >shards
  kill -INT "$pid" 2>/dev/null  # fails if mpirun has already ended, 1 s after the first signal
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" 1
  wait_until flock -n run/lock true  # mpirun kills its ranks without waiting for them
  expect 0 ranks 2 "${recipe[@]}" train.steps=4 optim.schedule=constant
  expect_text out "step 4/4"
}

run_tests "$@"
