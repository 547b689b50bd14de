#!/usr/bin/env bash
# `hexad verify` of layouts whose ranks are threads, with a card of the CUDA test double for each rank.
. "$(dirname "$0")/../cli/cli.sh"

# `layouts_agree LAYOUTS COUNT [key=value...]`: expects four ranks in these layouts to agree with the CPU.
layouts_agree() {
  expect 0 "$HEXAD" verify tiny.yaml --device cuda --world 4 --steps 1 --layouts "$1" "${@:3}"
  expect_text out "device: " "$2 in " ": 0 mismatches"
}

test_layouts_with_nccl_agree() {
  layouts_agree 'ep=4;pp=2,ep=2;cp=2;zero=3;ep=2,window=yes;pp=2,ep=2,window=yes' '6 layouts' distributed.device_collectives=nccl
  expect_text out 'ranks are threads and use NCCL: ' 'so layouts may hang; use --mpi, or distributed.device_collectives: host'
}

test_threads_exchange_through_host_memory_by_default() {
  layouts_agree 'ep=4;zero=3' '2 layouts'
  expect_text out 'ranks are threads and exchange tensors through host memory; use --mpi to test NCCL'
  expect 2 "$HEXAD" verify tiny.yaml --device cuda --world 4 --layouts ep=2,window=yes
  expect_text err 'window=yes with ranks that are threads on several GPUs needs distributed.device_collectives nccl'
}

test_windows_of_threads_that_share_a_card_need_no_nccl() {
  export HEXAD_CUDA_DOUBLE_DEVICES=1
  layouts_agree ep=2,window=yes '1 layout'
  expect_no_text out 'ranks are threads'
}

run_tests "$@"
