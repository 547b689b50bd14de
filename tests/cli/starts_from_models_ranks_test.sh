#!/usr/bin/env bash
# Runs that start from other models (train.init_*), and runs with frozen parameters (optim.freeze).
. "$(dirname "$0")/cli.sh"

dense=(model.moe.experts=0 model.mlp_hidden=16)
start=dense/checkpoints/step-00000006

# Trains a dense model. Then trains one step of a run that starts with the weights of this model.
train_dense() {
  expect 0 "$HEXAD" train tiny.yaml run.dir=dense "${dense[@]}"
  expect 0 "$HEXAD" train tiny.yaml run.dir=before train.steps=1 train.init_from=$start "${dense[@]}"
}

# `starts_alike RANKS KEY=VALUE...`: expects the first loss of a run with these keys to equal the loss of the dense
# model.
starts_alike() {
  local count=$1
  shift
  rm -rf after
  expect 0 "$HEXAD" validate tiny.yaml --world "$count" run.dir=after train.steps=1 train.init_from=$start "$@"
  expect 0 ranks "$count" train tiny.yaml run.dir=after train.steps=1 train.init_from=$start "$@"
  expect_text err "weights from $start"
  expect_same_losses before after
}

test_first_loss_of_an_upcycled_model_is_that_of_the_dense_model() {
  train_dense
  starts_alike 1 train.init_experts=copy
  starts_alike 2 train.init_experts=copy parallel.ep=2 parallel.zero=1
  starts_alike 2 train.init_experts=split model.moe.expert_hidden=8 parallel.pp=2
  starts_alike 2 train.init_experts=split model.moe.expert_hidden=8 parallel.tp=2
}

test_other_shapes_are_refused_with_the_key_that_allows_them() {
  train_dense
  local command
  for command in validate train; do
    expect 3 "$HEXAD" "$command" tiny.yaml run.dir=after train.init_from=$start
    expect_text err "set train.init_experts to copy or split to build experts from the MLP"
    expect 2 "$HEXAD" "$command" tiny.yaml run.dir=after train.init_from=$start "${dense[@]}" model.vocab=80
    expect_text err "but the recipe's model has [80, 16]; to keep the stored rows and add new ones, set train.init_vocabulary: grow"
    expect 2 "$HEXAD" "$command" tiny.yaml run.dir=after train.init_experts=copy
    expect_text err "train.init_experts (copy) is given, but train.init_from names no weights to start from"
  done
  expect 0 "$HEXAD" train tiny.yaml run.dir=after train.init_from=$start "${dense[@]}" model.vocab=80 \
    train.init_vocabulary=mean
}

test_frozen_parameters_may_be_trained_later() {
  expect 0 "$HEXAD" validate tiny.yaml --world 2 'optim.freeze=[embedding.weight, head.weight]'
  expect_text out "  frozen            $(printf '%18s' '2,048')"
  expect 0 ranks 2 train tiny.yaml train.steps=2 'optim.freeze=[embedding.weight, layers.0.*]'
  expect 0 ranks 2 train tiny.yaml train.steps=4 parallel.zero=1
  expect_text err "optim.freeze has changed since run/checkpoints/step-00000002" \
    "the optimizer's states start at zero for embedding.weight and"
  expect 2 "$HEXAD" validate tiny.yaml run.dir=other 'optim.freeze=[embeding.weight]'
  expect_text err "has the pattern 'embeding.weight', which matches no parameter; nearest: embedding.weight"
}

run_tests "$@"
