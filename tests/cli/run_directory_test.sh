#!/usr/bin/env bash
# A run directory that is in use, cannot be written, or is on a full disk.
. "$(dirname "$0")/cli.sh"

test_second_job_in_one_run_directory_is_refused_with_host_and_process() {
  local pid
  "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >first 2>&1 &
  pid=$!
  wait_until has_steps run 1
  expect 2 "$HEXAD" train tiny.yaml
  expect_text err "run: in use by process $pid on host $(hostname)"
  kill -9 "$pid"
  wait "$pid" 2>/dev/null
  # The new job takes over the killed job's lock.
  expect 0 "$HEXAD" train tiny.yaml
}

# Renews the lock file like a host on which file locks have no effect. Overwrites the file in place, because the run may
# read the file at any time.
renew_as_another_host() {
  local beat
  for ((beat = 1; ; beat++)); do
    printf 'elsewhere 4711 another-boot token %020d\n' "$beat" 1<>run/lock
    sleep 0.2
  done
}

test_lock_of_a_running_job_on_another_host_is_respected() {
  local other
  mkdir run
  renew_as_another_host &
  other=$!
  wait_until test -s run/lock
  run "$HEXAD" train tiny.yaml
  kill "$other"
  expect_equal "$code" 2
  expect_text err "in use by process 4711 on host elsewhere; wait for it to end"
}

# A host that was killed or switched off leaves its lock file behind, but no longer renews it.
test_lock_of_a_dead_host_is_taken_over() {
  mkdir run
  echo "elsewhere 4711" >run/lock
  expect 0 "$HEXAD" train tiny.yaml
  expect_text err "run/lock: held by process 4711 on host elsewhere, which may have ended" \
    "this job watches the lock for 20 s" \
    "run/lock: taken over from process 4711 on host elsewhere"
  expect_nothing_at run/lock
}

# While the job was suspended, another job regarded it as dead and took over its lock.
test_job_that_lost_its_lock_ends_without_saving() {
  local pid
  "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >out 2>err &
  pid=$!
  wait_until has_steps run 1
  kill -STOP "$pid"
  printf 'elsewhere 4711 another-boot token %020d\n' 1 1<>run/lock
  kill -CONT "$pid"
  kill -USR1 "$pid"
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" 2
  expect_text err "run/lock: was taken over by process 4711 on host elsewhere"
  expect_nothing_at run/checkpoints
  expect_text run/lock elsewhere
}

# `fails_before_the_first_step DIRECTORY`: expects a run in the directory to end with code 4 and to name the directory.
fails_before_the_first_step() {
  expect 4 "$HEXAD" train tiny.yaml run.dir="$1"
  expect_text err "$1"
  expect_no_text out "step 1/"
}

test_run_directory_that_cannot_be_made_fails_before_the_first_step() {
  echo "I am a file" >file
  fails_before_the_first_step file
  fails_before_the_first_step file/run
  fails_before_the_first_step /proc/run
}

# Writing fails, even for root, if there is a folder instead of the file, or a file instead of the folder.
test_files_that_cannot_be_written_fail_before_the_first_step() {
  local name
  for name in log metrics.jsonl tensorboard recipe.yaml; do
    rm -rf run
    mkdir run
    case $name in
    *.*) mkdir run/$name ;;
    *) echo >run/$name ;;
    esac
    expect 4 "$HEXAD" train tiny.yaml
    expect_text err "run/$name"
    expect_no_text out "step 1/"
  done
  rm -rf run
  mkdir run
  echo >run/checkpoints
  expect 3 "$HEXAD" train tiny.yaml
  expect_text err run/checkpoints
}

test_full_disk_for_the_metrics_causes_one_warning() {
  mkdir run
  ln -s /dev/full run/metrics.jsonl
  expect 0 "$HEXAD" train tiny.yaml
  expect_count 1 err "cannot write to run/metrics.jsonl: No space left on device"
  expect_text out "step 6/6"
  expect 0 "$HEXAD" inspect run --verify
}

test_full_disk_for_the_log_causes_one_warning() {
  mkdir -p run/log
  ln -s /dev/full run/log/rank-0000.log
  HEXAD_FAULT=nan@0,2 expect 5 "$HEXAD" train tiny.yaml
  expect_count 1 err "cannot write to run/log/rank-0000.log: No space left on device"
}

# The limit allows checkpoints, but stops the metrics, which grow by 1 KB per step.
test_file_size_limit_for_the_metrics_causes_one_warning() {
  expect 0 bash -c 'ulimit -f 300; exec "$@"' - "$HEXAD" train tiny.yaml train.steps=600 \
    checkpoint.every=0 train.log_every=1000
  expect_count 1 err "run/metrics.jsonl: File too large"
  [ "$(tail -c 1 run/metrics.jsonl | od -An -c | tr -d ' ')" == '\n' ] ||
    failed "metrics.jsonl ends with '$(tail -c 20 run/metrics.jsonl)', expected a newline at the end"
}

run_tests "$@"
