#!/usr/bin/env bash
# A recipe gives the same run under other layouts: losses equal the losses of one rank within 1e-9.
. "$(dirname "$0")/cli.sh"

# `same_losses RANKS EP KEY=VALUE...`: expects a run on RANKS ranks with parallel.ep=EP to have the losses of one rank.
same_losses() {
  local n=$1 ep=$2
  shift 2
  [ -d one ] || expect 0 "$HEXAD" train tiny.yaml run.dir=one "$@"
  expect 0 ranks "$n" train tiny.yaml run.dir="ranks-$n-$ep" parallel.ep="$ep" "$@"
  expect_same_losses one "ranks-$n-$ep"
}

test_every_ep_on_two_and_four_ranks_agrees() {
  local layout
  for layout in "2 1" "2 2" "4 1" "4 2" "4 4"; do same_losses $layout; done
}

test_bias_capacity_and_shared_experts_agree() {
  same_losses 4 2 model.moe.score=sigmoid model.moe.bias_rate=0.01 model.moe.shared_experts=1 \
    model.moe.capacity_factor=1.25 model.moe.aux_loss.scope=global_batch
}

test_all_tokens_on_one_rank_agree() { same_losses 4 4 model.moe.routing=zipf model.moe.zipf_exponent=1000 model.moe.top_k=1; }

test_zero_levels_and_offloaded_states_agree() {
  local zero
  expect 0 "$HEXAD" train tiny.yaml run.dir=one
  for zero in 1 2 3; do
    expect 0 ranks 4 train tiny.yaml run.dir="zero-$zero" parallel.ep=2 parallel.zero=$zero \
      distributed.bucket_bytes=4096 offload.optimizer=file
    expect_same_losses one "zero-$zero"
  done
}

test_checkpoint_of_one_zero_level_continues_in_another() {
  local c=optim.schedule=constant
  expect 0 "$HEXAD" train tiny.yaml run.dir=one $c
  expect 0 ranks 4 train tiny.yaml train.steps=2 parallel.ep=2 parallel.zero=3 $c
  expect 0 ranks 2 train tiny.yaml train.steps=4 parallel.zero=1 $c
  expect 0 ranks 4 train tiny.yaml parallel.zero=2 $c
  expect_text err "resumed from run/checkpoints/step-00000004"
  expect_same_losses one run
}

test_checkpoint_of_one_layout_continues_in_another() {
  local c=optim.schedule=constant
  expect 0 "$HEXAD" train tiny.yaml run.dir=one $c
  expect 0 ranks 4 train tiny.yaml train.steps=2 parallel.ep=4 $c
  expect 0 ranks 2 train tiny.yaml train.steps=4 parallel.ep=2 $c
  expect 0 "$HEXAD" train tiny.yaml $c
  expect_text err "resumed from run/checkpoints/step-00000004"
  expect_same_losses one run
}

test_held_out_loss_does_not_depend_on_the_ranks() {
  local alone
  mkdir texts
  for i in $(seq 20); do seq "$i" $((i * 7)) >texts/$i.txt; done
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0.3
  expect 0 ranks 2 train tiny.yaml data.synthetic=false data.dataset=data model.vocab=0 parallel.ep=2
  expect 0 "$HEXAD" eval run
  alone=$(sed -n 1p out)
  [[ $alone == *"held-out loss "*" nats per token"* ]] || failed "the first line has no held-out loss: $alone"
  expect 0 ranks 2 eval run
  expect_equal "$(sed -n 1p out)" "$alone"
  expect 0 ranks 4 eval run parallel.ep=4
  expect_equal "$(sed -n 1p out)" "$alone"
  # Computes groups of experts with dense products, as EPS-MoE's schedule does in prefill.
  expect 0 ranks 2 eval run schedule.moe.chunk_by=experts schedule.moe.chunks=2 schedule.moe.gemms=dense
  expect_equal "$(sed -n 1p out)" "$alone"
  expect 2 ranks 2 eval run schedule.moe.chunk_by=experts schedule.moe.chunks=3
  expect_text err "must be at most the number of experts on a rank (4 / 2 = 2) for chunk_by: experts"
  expect 3 ranks 2 eval run --step 5
  expect_text err "no checkpoint of step 5"
}

run_tests "$@"
