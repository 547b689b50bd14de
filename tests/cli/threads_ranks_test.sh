#!/usr/bin/env bash
# Threads of ranks, and the cores that they share.
. "$(dirname "$0")/cli.sh"

# Command that restricts all ranks to the first core that this process may use.
one_core=(taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')")
steps=(train tiny.yaml train.steps=2 checkpoint.every=0)

test_ranks_divide_the_cores() {
  expect 0 "${one_core[@]}" "${launch[@]}" -np 2 "$HEXAD" "${steps[@]}" train.threads=auto
  expect_text run/recipe.yaml 'threads: 1'
}

test_more_threads_than_cores_are_reported_once_with_numbers_and_key() {
  expect 0 "${one_core[@]}" "${launch[@]}" -np 2 "$HEXAD" "${steps[@]}" train.threads=3
  expect_count 1 err '2 ranks x 3 kernel threads share 1 core of this node'
  expect_text err 'set train.threads=1'
}

test_more_ranks_than_cores_are_reported() {
  expect 0 "${one_core[@]}" "${launch[@]}" -np 2 "$HEXAD" "${steps[@]}"
  expect_text err '2 ranks x 1 kernel thread share 1 core of this node' 'start at most 1 rank on this node'
}

test_core_for_each_thread_causes_no_warning() {
  expect 0 "${one_core[@]}" "$HEXAD" "${steps[@]}"
  expect_no_text err 'of kernels share'
}

# Three threads on one core compute the same values as one thread.
test_threads_without_cores_change_no_weight() {
  expect 0 "$HEXAD" train tiny.yaml run.dir=one
  expect 0 "${one_core[@]}" "$HEXAD" train tiny.yaml run.dir=three train.threads=3
  expect_same_weights one three 6
}

run_tests "$@"
