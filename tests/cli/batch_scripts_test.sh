#!/usr/bin/env bash
# Tests of the batch scripts of recipes/slurm with a fake Slurm: the commands that they start, and the cases in which
# they requeue the job.
. "$(dirname "$0")/cli.sh"

scripts=$CLI_TESTS/../../recipes/slurm

# `fake_slurm CODE`: writes fake versions of srun and scontrol. srun records its arguments in `steps`, writes a
# checkpoint if the file `saves` exists, and ends with CODE. scontrol records its arguments in `requeued`.
fake_slurm() {
  mkdir -p slurm
  printf '#!/bin/sh\necho "$@" >>steps\n[ ! -e saves ] || { mkdir -p run/checkpoints; echo step-00000002 >run/checkpoints/latest; }\nexit %s\n' \
    "$1" >slurm/srun
  printf '#!/bin/sh\necho "$@" >>requeued\n' >slurm/scontrol
  chmod +x slurm/*
  rm -rf steps requeued run runs
  export PATH=$PWD/slurm:$PATH SLURM_JOB_ID=5 SLURM_ARRAY_TASK_ID=1 SLURM_CPUS_PER_TASK=1
}
# `submit SCRIPT`: runs the script with tiny.yaml. `expect N submit SCRIPT` expects exit code N.
submit() {
  local variants=()
  [ "$1" != array ] || variants=(variants.txt)
  echo run.dir=run >variants.txt
  HEXAD=$HEXAD "$scripts/$1.sbatch" "${variants[@]}" tiny.yaml checkpoint.resume=none
}

# `end_elastic SIGNAL...`: starts elastic.sbatch with a fake elastic.sh that ends with 75 on SIGUSR1. Sends the signals
# to elastic.sbatch, and prints the exit code of elastic.sbatch. SIGUSR1 kills elastic.sh if $handler is empty.
handler='trap "sleep 0.5; exit 75" USR1'
end_elastic() {
  printf '#!/bin/bash\n%s\ntouch started\nwhile :; do sleep 0.1; done\n' "$handler" >elastic.sh
  chmod +x elastic.sh
  rm -f started
  ELASTIC=$PWD/elastic.sh SLURM_NTASKS_PER_NODE=2 SLURM_JOB_NUM_NODES=2 "$scripts/elastic.sbatch" tiny.yaml >out 2>&1 &
  local script=$! signal code=0
  until [ -e started ]; do sleep 0.05; done
  for signal in "$@"; do
    kill -"$signal" $script
    sleep 0.2
  done
  wait $script || code=$?
  echo $code
}

test_elastic_job_is_requeued_unless_it_is_cancelled() {
  fake_slurm 0
  expect_equal "$(end_elastic USR1)" 75
  expect_equal "$(cat requeued)" "requeue 5"
  fake_slurm 0
  expect_equal "$(end_elastic TERM)" 143
  expect_nothing_at requeued
  fake_slurm 0
  expect_equal "$(end_elastic USR1 TERM)" 75
  expect_equal "$(cat requeued)" "requeue 5"
  fake_slurm 0
  expect_equal "$(handler='' end_elastic USR1)" 75
  expect_equal "$(cat requeued)" "requeue 5"
}

test_job_is_requeued_after_75_but_not_after_an_error() {
  local script
  for script in one-node many-nodes gpus array; do
    fake_slurm 75
    expect 75 submit $script
    expect_equal "$(cat requeued)" "requeue 5"
    expect_no_text steps checkpoint.resume=auto
    fake_slurm 4
    expect 4 submit $script
    expect_nothing_at requeued
  done
}

test_job_on_several_nodes_is_requeued_after_lost_ranks() {
  local script code
  for script in many-nodes gpus; do
    for code in 6 7 137; do
      fake_slurm $code
      expect $code submit $script
      expect_equal "$(cat requeued)" "requeue 5"
      fake_slurm $code
      SLURM_RESTART_COUNT=1 expect 1 submit $script
      expect_text err "$script.sbatch: ended before the run saved" "name the ranks that were lost"
      expect_nothing_at requeued
    done
  done
}

test_requeued_job_continues_from_the_newest_checkpoint() {
  local script
  export SLURM_RESTART_COUNT=1
  for script in one-node many-nodes gpus array; do
    fake_slurm 75
    touch saves
    expect 75 submit $script
    expect_text steps "checkpoint.resume=none" "checkpoint.resume=auto"
    expect_equal "$(cat requeued)" "requeue 5"
  done
}

test_requeued_job_that_saves_nothing_again_ends() {
  local script
  export SLURM_RESTART_COUNT=1
  for script in one-node many-nodes gpus array; do
    fake_slurm 75
    expect 1 submit $script
    expect_text err "$script.sbatch: ended before the run saved"
    expect_nothing_at requeued
  done
}

run_tests "$@"
