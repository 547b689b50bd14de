#!/usr/bin/env bash
# `hexad verify --mpi`: processes as ranks.
. "$(dirname "$0")/cli.sh"

test_processes_agree_with_one_rank() {
  expect 0 ranks 2 verify tiny.yaml --mpi --layouts "ep=2;tp=2;cp=2;pp=2;zero=1,start=resumed" --steps 2
  expect_text out "5 layouts of 2 ranks" ": 0 mismatches"
}

test_processes_without_mpi_are_refused() {
  expect 2 ranks 2 verify tiny.yaml
  expect_text err "add --mpi, or start it alone"
  expect 2 ranks 2 verify tiny.yaml --mpi --world 4
  expect_text err "--world 4 --mpi needs 4 processes, but there are 2: mpirun -np 4 hexad verify ..."
}

run_tests "$@"
