#!/usr/bin/env bash
# Ranks under the launcher of any MPI library: Open MPI, or MPICH in a build with HEXAD_MPI=mpich.
. "$(dirname "$0")/cli.sh"

library=$("$HEXAD" env | sed -n 's/^mpi  *\(.*\), launcher .*/\1/p')

test_ranks_of_the_launcher_train_like_one_rank() {
  expect 0 ranks 2 train tiny.yaml parallel.ep=2
  expect 0 "$HEXAD" train tiny.yaml run.dir=alone
  expect_same_losses run alone
}

test_the_library_is_named() {
  expect 0 "$HEXAD" validate tiny.yaml --world 2
  expect_text out "MPI library: $library"
  case $library in
  'Open MPI '[0-9]*) expect_text out "--mca odls_base_sigkill_timeout" ;;
  MPICH\ [0-9]*) expect_no_text out --mca --oversubscribe --allow-run-as-root ;;
  *) failed "the library is '$library', expected Open MPI or MPICH" ;;
  esac
}

# Each step from the fourth takes 0.3 s longer, so that the run does not end before the signal arrives.
test_sigusr1_to_the_launcher_saves_and_the_run_continues() {
  local pid
  HEXAD_FAULT=slow@0,4,300 "${launch[@]}" -np 2 "$HEXAD" train tiny.yaml parallel.ep=2 train.steps=300 checkpoint.every=0 \
    >out 2>err </dev/null &
  pid=$!
  wait_until has_steps run 3
  kill -s USR1 "$pid"
  code=0
  wait "$pid" || code=$?
  # After a signal, the launcher of MPICH 4.0 returns 0 instead of the ranks' exit code if the ranks end together.
  [[ $library == MPICH* && $code -eq 0 ]] || expect_equal "$code" 75
  expect_text err "saved: start the run again to continue"
  expect 0 ranks 2 train tiny.yaml parallel.ep=2 train.steps=300 checkpoint.every=0
  expect_text err "resumed from"
}

test_an_error_of_all_ranks_ends_the_job_with_its_code() {
  expect 2 ranks 2 train tiny.yaml parallel.ep=3
  expect_text err "parallel.ep"
}

test_windows_between_processes_are_refused() {
  expect 2 ranks 2 train tiny.yaml parallel.ep=2 schedule.moe.all_to_all=window
  expect_text err "schedule.moe.all_to_all is window, which needs ranks that can access each other's memory" \
    "the ranks of group ep are neither connected by NCCL nor threads of one process"
}

# Sets the variables of the other library's launcher. If the program did not refuse them, each rank would be a separate
# job.
test_the_launcher_of_another_library_is_refused_by_name() {
  case $library in
  Open*)
    PMI_SIZE=2 PMI_RANK=0 MPI_LOCALRANKID=0 expect 2 "$HEXAD" train tiny.yaml
    expect_text err "the mpiexec of MPICH or Intel MPI (PMI_SIZE is '2', MPI_LOCALRANKID is '0') started this program"
    ;;
  *)
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 expect 2 "$HEXAD" train tiny.yaml
    expect_text err "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE is '2') started this program"
    ;;
  esac
  expect_text err "the program uses $library: start with "
}

run_tests "$@"
