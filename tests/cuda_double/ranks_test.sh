#!/usr/bin/env bash
# Ranks under mpirun on cards of the CUDA test double. Their losses must equal the losses on the CPU.
. "$(dirname "$0")/../cli/cli.sh"

small=(train.steps=2 batch.global=4 batch.micro=1 model.context=8)

# `same_losses NAME key=value...` expects two ranks on the double to have the losses of one rank on the CPU. Only the
# two ranks have the overrides.
same_losses() {
  HEXAD_DEVICE=cpu expect 0 "$HEXAD" train tiny.yaml "${small[@]}" run.dir="$1.one"
  expect 0 ranks 2 train tiny.yaml device=cuda "${small[@]}" run.dir="$1" "${@:2}"
  expect_same_losses "$1.one" "$1"
}

test_ranks_share_a_card() {
  export HEXAD_CUDA_DOUBLE_DEVICES=1
  same_losses experts parallel.ep=2
  expect_text err 'card tensors are sent between ranks through host memory, because there is no CUDA-aware MPI and NCCL cannot be used: ranks 0 and 1 share a card'
  HEXAD_CUDA_DOUBLE_JITTER=1 same_losses late parallel.tp=2 parallel.sp=true
}

test_ranks_have_a_card_each() {
  export HEXAD_CUDA_DOUBLE_DEVICES=2
  same_losses shards parallel.zero=3 distributed.bucket_bytes=4096
  expect_text err 'ranks of this job are processes'
  expect_no_text err 'share a card'
  same_losses stages parallel.pp=2
}

test_messages_stay_on_the_card_if_mpi_accepts_its_memory() {
  export HEXAD_CUDA_DOUBLE_DEVICES=1 HEXAD_CUDA_DOUBLE_MPI_TAKES_CARDS=1
  same_losses experts parallel.ep=2
  expect_text err "by MPI directly from card memory (for sums: through host memory), because NCCL cannot be used: ranks 0 and 1 share a card"
  HEXAD_CUDA_DOUBLE_JITTER=1 same_losses shards parallel.zero=3 distributed.bucket_bytes=4096
  same_losses stages parallel.pp=2
  expect 0 ranks 2 train tiny.yaml device=cuda "${small[@]}" run.dir=host distributed.device_collectives=host
  expect_no_text err "from card memory"
}

test_processes_cannot_have_the_double_of_nccl() {
  expect 4 ranks 2 train tiny.yaml device=cuda distributed.device_collectives=nccl
  expect_text err 'distributed.device_collectives: nccl is not available' 'ranks of this job are processes'
}

run_tests "$@"
