#!/usr/bin/env bash
# `hexad verify --mpi`, whose ranks are processes.
. "$(dirname "$0")/cli.sh"

test_processes_agree_with_one_rank() {
  expect 0 ranks 2 verify tiny.yaml --mpi --layouts "ep=2;tp=2;cp=2;pp=2;zero=1,start=resumed" --steps 2
  expect_text out "5 layouts of 2 ranks" ": 0 mismatches"
}

test_processes_with_emulated_devices_agree_with_the_cpu() {
  HEXAD_EMULATED_JITTER=3 expect 0 ranks 2 verify tiny.yaml --mpi --device emulated --steps 2 \
    --layouts "ep=2;tp=2;cp=2;pp=2;zero=3,start=resumed"
  expect_text out "layouts on device: emulated" "5 layouts of 2 ranks" ": 0 mismatches"
}

has_folder() { ls -d "$1"/hexad-verify-* >/dev/null 2>&1; }
has_no_folder() { ! has_folder "$1"; }

test_no_scratch_folder_is_left_behind() {
  mkdir scratch
  export TMPDIR=$PWD/scratch
  expect 5 env HEXAD_FAULT=gradient@0,1,layers.0.moe.experts.down.weight "${launch[@]}" -np 2 "$HEXAD" verify tiny.yaml \
    --mpi --layouts ep=2
  has_no_folder scratch || failed "scratch folders were left behind, expected none: $(ls scratch)"
  "${launch[@]}" -np 2 "$HEXAD" verify tiny.yaml --mpi --steps 100 >out 2>err &
  wait_until has_folder scratch
  kill -TERM $!
  wait $!
  wait_until has_no_folder scratch
}

test_processes_without_mpi_are_refused() {
  expect 2 ranks 2 verify tiny.yaml
  expect_text err "add --mpi, or start it without the launcher"
  expect 2 ranks 2 verify tiny.yaml --mpi --world 4
  expect_text err "--world 4 --mpi needs 4 processes, but there are 2; start them with: mpirun -np 4 " "hexad verify ..."
}

test_windows_of_processes_without_gpus_are_refused() {
  expect 2 ranks 2 verify tiny.yaml --mpi --layouts ep=2,window=yes
  expect_text err "window=yes' is illegal for this recipe: window: must be no with --mpi"
}

run_tests "$@"
