#!/usr/bin/env bash
# Ranks with different programs or recipes, and replicas that differ.
. "$(dirname "$0")/cli.sh"

# `pair "A..." "B..."`: runs two ranks under mpirun, each with its own arguments. $second may name another program for
# rank 1.
pair() { "${launch[@]}" -np 1 "$HEXAD" $1 : -np 1 "${second:-$HEXAD}" $2; }

test_another_recipe_on_one_rank_is_refused_with_the_difference() {
  expect 2 pair "train tiny.yaml" "train tiny.yaml optim.lr=0.5 model.hidden=32"
  expect_text err "rank 0: rank 1 has a different recipe from rank 0" "optim.lr: 0.01 -> 0.5" "model.hidden: 16 -> 32"
  expect_nothing_at run
}

test_error_of_one_rank_is_reported_with_its_rank() {
  expect 2 pair "train tiny.yaml" "train elsewhere.yaml"
  expect_text err "only some ranks have this problem, for example rank 1: elsewhere.yaml: no such file"
  expect 2 pair "train tiny.yaml model.hiden=3" "train tiny.yaml"
  expect_text err "only some ranks have this problem, for example rank 0:" "did you mean hidden?"
}

test_another_program_is_refused() {
  local second=./other
  cp "$HEXAD" other
  echo "another build" >>other
  expect 2 pair "train tiny.yaml" "train tiny.yaml"
  expect_text err "rank 1 does not run the program of rank 0: hexad " ", digest "
}

test_number_of_threads_may_differ() { expect 0 pair "train tiny.yaml" "train tiny.yaml train.threads=2"; }

test_bit_that_flips_in_one_replica_is_found_and_named() {
  HEXAD_FAULT=flip@1,3 expect 5 ranks 2 train tiny.yaml distributed.replica_check_every=1
  expect_text err "weights differ between replicas: 'head.weight' on rank 1 and on rank 0"
  expect_text out "step 2/6"
  expect_no_text out "step 4/6"
}

test_replicas_remain_equal() {
  expect 0 ranks 2 train tiny.yaml parallel.ep=2 distributed.replica_check_every=1
  expect_text out "step 6/6"
}

# Every rank must end: if only the failing rank ended, the other ranks would wait in MPI forever.
test_wrong_variable_on_one_rank_ends_the_job() {
  local variable
  for variable in OMPI_COMM_WORLD_SIZE=5 HEXAD_LOCAL_RANK=x HEXAD_NODE=a; do
    expect 2 timeout 30 "${launch[@]}" -np 3 \
      bash -c '[ $OMPI_COMM_WORLD_RANK -ne 1 ] || export "$1"; exec "$0" train tiny.yaml' "$HEXAD" $variable
    case $variable in
    OMPI*) expect_text err "the launcher announces 3 to 5 ranks but MPI sees 3: start with mpirun, or with srun --mpi=pmix" ;;
    *LOCAL*) expect_text err "HEXAD_LOCAL_RANK is 'x'; expected a whole number of at least 0" "HEXAD_LOCAL_RANK is wrong on another" ;;
    *) expect_text err "HEXAD_NODE is set on 1 of 3 ranks" ;;
    esac
  done
}

run_tests "$@"
