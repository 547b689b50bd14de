#!/usr/bin/env bash
# Training on the emulated device and on the CPU gives bitwise equal results, although the device's queues are delayed
# at random.
. "$(dirname "$0")/cli.sh"

# `on DEVICE NAME key=value...`: trains three steps on DEVICE, and writes their losses and norms to NAME.DEVICE.txt.
on() {
  HEXAD_DEVICE=$1 expect 0 "$HEXAD" train tiny.yaml train.steps=3 run.dir="$2.$1" "${@:3}"
  sed -nE 's/.*"step":([0-9]+),.*"loss":([^,]+),.*"grad_norm":([^,]+),.*/\1 \2 \3/p' "$2.$1/metrics.jsonl" >"$2.$1.txt"
}
expect_same_bits() {
  on cpu "$@"
  HEXAD_EMULATED_JITTER=20 on emulated "$@"
  expect_equal "$(wc -l <"$1.cpu.txt")" 3
  expect_equal "$(cat "$1.cpu.txt")" "$(cat "$1.emulated.txt")"
}

test_plain_steps_agree() { expect_same_bits plain; }
test_bf16_agrees() { expect_same_bits bf16 train.precision=bf16; }
test_chunks_on_other_lanes_agree() { expect_same_bits chunks schedule.moe.chunk_by=tokens schedule.moe.chunks=3; }
test_micro_batches_in_turns_agree() { expect_same_bits turns schedule.pipeline.overlap=micro_batches; }
test_recomputed_blocks_agree() { expect_same_bits recomputed recompute=block; }
test_offloaded_activations_agree() { expect_same_bits offloaded offload.activations=true offload.min_bytes=0; }
test_restored_activations_agree() { expect_same_bits restored schedule.moe.chunk_by=tokens schedule.moe.chunks=3 schedule.moe.memory_reuse=s1; }
test_rows_of_tokens_agree() { expect_same_bits tokens schedule.moe.rows=token; }
test_zero_3_agrees() { expect_same_bits zero parallel.zero=3 distributed.bucket_bytes=4096; }

test_checkpoint_of_the_emulated_device_is_continued_on_the_cpu() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=4 run.dir=whole
  HEXAD_DEVICE=emulated expect 0 "$HEXAD" train tiny.yaml train.steps=4 run.dir=handed checkpoint.every=2 \
    checkpoint.keep=3
  rm -r handed/checkpoints/step-00000004
  HEXAD_DEVICE=cpu expect 0 "$HEXAD" train tiny.yaml train.steps=4 run.dir=handed checkpoint.every=2 checkpoint.keep=3
  expect_equal "$(losses whole | wc -l)" 4
  expect_equal "$(losses whole | tail -n 2)" "$(losses handed | tail -n 2)"
}

test_unsupported_requests_are_refused_with_the_reason() {
  expect 2 "$HEXAD" train tiny.yaml device=emulated schedule.worker_lanes=true
  expect_text err 'schedule.worker_lanes' 'must be auto or false on device: emulated'
}

test_environments_device_overrides_the_recipes_device() {
  local card="device=cuda distributed.reserve_multiprocessors=8 distributed.device_collectives=nccl"
  HEXAD_DEVICE=emulated expect 0 "$HEXAD" train tiny.yaml train.steps=2 schedule.worker_lanes=true
  # The command fails only because the data have no held-out part. By then, it has read the recipe and replaced the
  # device.
  # shellcheck disable=SC2086  # several words
  HEXAD_DEVICE=cpu expect 2 "$HEXAD" eval run $card
  expect_text err "no held-out part"
  # shellcheck disable=SC2086
  expect 0 "$HEXAD" verify tiny.yaml $card --device emulated --world 2 --layouts ep=2 --steps 1
  expect_text out "oracle: one rank on the CPU, layouts on device: emulated" ": 0 mismatches"
}

test_wrong_seed_is_named() {
  local seed
  for seed in soon -1 ' 1' 1x 18446744073709551616 ''; do
    HEXAD_DEVICE=emulated HEXAD_EMULATED_JITTER=$seed expect 2 "$HEXAD" train tiny.yaml
    expect_text err "HEXAD_EMULATED_JITTER is '$seed', expected a whole number from 0 to 18446744073709551615"
  done
}

run_tests "$@"
