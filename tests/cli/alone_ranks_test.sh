#!/usr/bin/env bash
# Commands for one process refuse to run on several ranks, because every rank would print or write the same output.
. "$(dirname "$0")/cli.sh"

# `refused_by_ranks COMMAND...`: expects two ranks to refuse the command, with one message and no other output.
refused_by_ranks() {
  expect 2 ranks 2 "$@"
  expect_count 1 err "runs as one process, but mpirun or srun has started 2; start it without the launcher"
  expect_equal "$(cat out)" ""
}

test_commands_for_one_process_refuse_several() {
  mkdir texts
  echo "some text" >texts/a.txt
  refused_by_ranks validate tiny.yaml
  refused_by_ranks prepare --input texts --output data
  expect_nothing_at data
  refused_by_ranks inspect run
  refused_by_ranks env
  refused_by_ranks report run
  refused_by_ranks reference
  refused_by_ranks scale e.yaml
  refused_by_ranks simulate --paper monta input.yaml
  refused_by_ranks completion bash
  refused_by_ranks bench fused
  refused_by_ranks bench gemm
  refused_by_ranks help train
  expect_text err "hexad: hexad help runs as one process"
  expect 2 ranks 2 verify tiny.yaml
  expect_count 1 err "add --mpi, or start it without the launcher, so that its ranks are threads"
}

test_ranks_of_srun_and_other_launchers_are_recognised() {
  SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 expect 2 "$HEXAD" reference
  expect_text err "has started 4"
  SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 expect 2 "$HEXAD" reference
  expect_equal "$(cat err)" ""
  PMI_SIZE=2 PMI_RANK=1 expect 2 "$HEXAD" env
  SLURM_STEP_NUM_TASKS=1 expect 0 "$HEXAD" reference
  SLURM_NTASKS=4 expect 0 "$HEXAD" reference  # a batch script is not a job step
}

test_one_rank_is_accepted() {
  expect 0 ranks 1 validate tiny.yaml
  expect_text out "valid for 1 rank"
}

run_tests "$@"
