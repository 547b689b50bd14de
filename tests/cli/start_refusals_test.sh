#!/usr/bin/env bash
# `validate` refuses the runs that `train` refuses, with the same exit code and message.
source "$(dirname "$0")/cli.sh"

# `both CODE TEXT KEY=VALUE...`: expects `train` and `validate` of with_data.yaml to end with CODE and TEXT.
both() {
  local code=$1 text=$2 command
  shift 2
  for command in validate train; do
    expect "$code" "$HEXAD" "$command" with_data.yaml "$@"
    expect_text err "$text"
  done
}

# Makes a dataset of bytes, another dataset with its own tokenizer, and a recipe for the dataset of bytes.
make_data() {
  seq 1 2000 | sed '0~10a\\' >numbers.txt
  expect 0 "$HEXAD" prepare --input numbers.txt --output data --tokenizer bytes --split blank_lines --heldout 0.1
  seq 1 2000 | sed -e 's/.*/the quick brown fox & jumps/' -e '0~10a\\' >words.txt
  expect 0 "$HEXAD" prepare --input words.txt --output words --vocab 300 --split blank_lines --heldout 0.1
  sed -e 's/vocab: 64/vocab: 0/' -e 's/synthetic: true/dataset: data/' tiny.yaml >with_data.yaml
}

test_recipe_that_trains_is_valid() {
  make_data
  expect 0 "$HEXAD" validate with_data.yaml
  expect 0 "$HEXAD" train with_data.yaml
  expect 0 "$HEXAD" validate with_data.yaml  # the run would continue from its checkpoint
}

test_unusable_data_are_refused() {
  make_data
  both 2 "model.vocab (64) must be at least the vocabulary of data's tokenizer" model.vocab=64
  both 3 "data.dataset (nowhere): no such folder" data.dataset=nowhere
  both 3 "differs from the tokenizer of data;" 'data.mixture=[{dataset: data}, {dataset: words}]' 'data.dataset=""'
  both 2 "data.mixture: weight 1 (1e-09) is below" \
    'data.mixture=[{dataset: data, weight: 1}, {dataset: data, weight: 1e-9}]' 'data.dataset=""'
  cp -r data damaged
  truncate -s -8 damaged/train.hxd
  both 3 "damaged/train.hxd" data.dataset=damaged
  rm damaged/tokenizer.json
  both 3 "damaged/tokenizer.json" data.dataset=damaged
}

test_unusable_initial_weights_are_refused() {
  make_data
  both 3 "train.init_from (nowhere) is not a checkpoint" train.init_from=nowhere
  expect 0 "$HEXAD" train with_data.yaml run.dir=other
  both 3 "it is a run directory, whose newest checkpoint is other/checkpoints/step-00000006" train.init_from=other
  both 2 "but the recipe's model has" train.init_from=other/checkpoints/step-00000006 model.hidden=32
  both 3 "contains no tensor 'main:" train.init_from=other/checkpoints/step-00000006 model.layers=3
  both 2 ", which the recipe's model does not have" train.init_from=other/checkpoints/step-00000006 model.layers=1
  expect 0 "$HEXAD" validate with_data.yaml train.init_from=other/checkpoints/step-00000006
}

test_unusable_checkpoints_to_resume_are_refused() {
  make_data
  expect 0 "$HEXAD" train with_data.yaml
  both 2 "model.hidden: 16 -> 32" model.hidden=32
  both 2 "optim.name: adamw -> sgd" optim.name=sgd
  both 3 "has no checkpoint of step 5" checkpoint.resume=5
  both 3 "has changed since" data.dataset=words model.vocab=0 run.dir=run
  expect 0 "$HEXAD" validate with_data.yaml model.hidden=32 checkpoint.resume=none
}

test_unusable_folders_and_files_are_refused() {
  make_data
  both 2 "offload.folder (nowhere): cannot create an offload file" offload.activations=true offload.folder=nowhere
  both 2 "offload.folder (numbers.txt)" offload.optimizer=file offload.folder=numbers.txt
  both 2 "nowhere.yaml" schedule.profile=nowhere.yaml schedule.moe.chunk_by=auto
  both 2 "nowhere.yaml" schedule.profile=nowhere.yaml \
    'stages=[{steps: 2}, {steps: 4, schedule: {moe: {chunk_by: auto}}}]'
  expect_no_text out "step 1/" # refused before the first stage, which does not read the profile
  both 3 "nowhere.txt" model.moe.routing=trace model.moe.trace=nowhere.txt
  expect 0 "$HEXAD" validate with_data.yaml offload.folder=nowhere  # nothing is offloaded
}

test_wrong_learning_rate_is_refused_or_causes_a_warning() {
  make_data
  both 2 "the largest legal value is 0.3333; nearest: optim.warmup 3" optim.schedule=wsd optim.warmup=4 optim.decay_fraction=0.5
  expect 0 "$HEXAD" train with_data.yaml optim.schedule=cosine
  for command in validate train; do
    expect 0 "$HEXAD" "$command" with_data.yaml optim.schedule=cosine train.steps=24
    cat out err >all
    expect_text all "the learning rate of step 7 is " "without these changes it would be " "train.steps: 6 -> 24"
  done
}

test_router_without_a_gradient_causes_a_warning() {
  for command in validate train; do
    expect 0 "$HEXAD" "$command" tiny.yaml model.moe.top_k=1
    cat out err >all
    expect_text all "the router's weights get a gradient only from the auxiliary losses" "model.moe.normalize: false lets the router learn"
    expect 0 "$HEXAD" "$command" tiny.yaml model.moe.top_k=1 model.moe.normalize=false run.dir=other
    cat out err >all
    expect_no_text all "lets the router learn"
  done
}

run_tests "$@"
