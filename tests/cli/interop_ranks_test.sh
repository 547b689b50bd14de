#!/usr/bin/env bash
# Hugging Face models are imported, trained further under several layouts, and exported again.
source "$(dirname "$0")/cli.sh"

model=$(cd "$CLI_TESTS/../golden/hf/mixtral" && pwd)
settings=(batch.global=4 batch.micro=1 data.synthetic=true train.precision=f64 train.steps=4 train.threads=1
  train.log_every=1 train.peak_flops=1000000000 optim.lr=0.01 optim.schedule=constant checkpoint.every=2)

import_model() {
  expect 0 "$HEXAD" import "$model" imported
  expect_text out "mixtral: 41 tensors" "copied: generation_config.json" "hexad train imported/recipe.yaml"
}

test_an_imported_model_trains_and_is_exported() {
  import_model
  expect 0 "$HEXAD" inspect --verify imported
  expect 0 "$HEXAD" train imported/recipe.yaml "${settings[@]}" run.dir=run
  expect_text err "weights from imported"
  expect 0 "$HEXAD" export run exported
  expect_text out "mixtral: step 4, 41 tensors" "config.json, generation_config.json from $(pwd -P)/imported/hugging_face"
  cmp -s "$model/config.json" exported/config.json || failed "config.json has changed"
  expect 0 "$HEXAD" export run half --dtype bf16 --shard-bytes 5000
  expect_file half/model.safetensors.index.json
  expect_text half/config.json '"dtype": "bfloat16"'
  expect 0 "$HEXAD" import half again
}

test_an_import_of_an_export_has_the_same_bytes() {
  import_model
  expect 0 "$HEXAD" export imported exported
  expect 0 "$HEXAD" import exported again
  [ "$(cat imported/shard-*.safetensors | wc -c)" -gt 0 ] || failed "imported has no weights"
  expect_equal "$(cat imported/shard-*.safetensors | cksum)" "$(cat again/shard-*.safetensors | cksum)"
}

test_layouts_train_an_imported_model_alike() {
  import_model
  expect 0 "$HEXAD" train imported/recipe.yaml "${settings[@]}" run.dir=one
  for layout in tp ep pp; do
    expect 0 ranks 2 train imported/recipe.yaml "${settings[@]}" run.dir="$layout" parallel.$layout=2
    expect_same_losses one "$layout"
    expect 0 "$HEXAD" export "$layout" "exported-$layout"
  done
}

test_a_run_starts_from_a_hugging_face_folder() {
  import_model
  expect 0 "$HEXAD" train imported/recipe.yaml "${settings[@]}" run.dir=one
  cp -r "$model" foreign
  expect 0 "$HEXAD" validate imported/recipe.yaml "${settings[@]}" train.init_from=foreign run.dir=two
  expect 2 "$HEXAD" validate imported/recipe.yaml "${settings[@]}" train.init_from=foreign run.dir=two model.layers=1
  expect_text err "foreign: contains layers.1." ", which the recipe's model does not have"
  expect_nothing_at two
  expect 0 ranks 2 train imported/recipe.yaml "${settings[@]}" train.init_from=foreign run.dir=two parallel.ep=2
  expect_file two/imported/manifest.json
  expect_same_losses one two
  expect 0 "$HEXAD" export two exported
  expect_text out "from two/imported/hugging_face"
  touch foreign/config.json
  expect 3 "$HEXAD" validate imported/recipe.yaml "${settings[@]}" train.init_from=foreign run.dir=two checkpoint.resume=none
  expect_text err "two/imported: was imported from foreign, whose file config.json has been changed since"
}

test_a_start_that_changes_the_model_causes_a_warning() {
  import_model
  for command in validate train; do
    expect 0 "$HEXAD" "$command" imported/recipe.yaml "${settings[@]}" model.rotary_theta=10000 run.dir=run
    cat out err >all
    expect_text all "imported/hugging_face/config.json: model.rotary_theta: 1000000.0 -> 10000.0"
  done
}

test_bad_models_are_refused_by_name() {
  cp -r "$model" foreign
  sed -i 's/"hidden_act": "silu"/"hidden_act": "relu"/' foreign/config.json
  expect 3 "$HEXAD" import foreign imported
  expect_text err 'foreign/config.json: hidden_act is "relu", expected "silu"'
  expect_nothing_at imported
  expect 3 ranks 2 train tiny.yaml train.init_from=foreign model.vocab=48
  cp "$model/config.json" foreign
  truncate -s -64 foreign/model.safetensors
  expect 3 "$HEXAD" import foreign imported
  expect_text err "foreign/model.safetensors" "model.norm.weight"
  rm foreign/model.safetensors
  touch foreign/pytorch_model.bin
  expect 3 "$HEXAD" import foreign imported
  expect_text err "pytorch_model.bin is a pickle"
  expect 3 "$HEXAD" import nowhere imported
  expect_text err "nowhere: no such folder"
  expect_nothing_at imported
}

test_a_vision_encoder_is_refused_or_left_out() {
  mkdir larger
  python3 - "$model/../llama4_text" larger <<'END'
import json, struct, sys
text, larger = sys.argv[1:]
config = {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4",
          "text_config": json.load(open(text + "/config.json"))}
json.dump(config, open(larger + "/config.json", "w"))
data = open(text + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, weights = json.loads(data[8:8 + size]), data[8 + size:]
header = {"language_model." + name: entry for name, entry in header.items() if name != "__metadata__"}
header["vision_model.weight"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(weights), len(weights) + 4]}
text = json.dumps(header).encode()
open(larger + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + weights + bytes(4))
END
  expect 3 "$HEXAD" import larger imported
  expect_text err "1 tensor outside the text model (tensor 'vision_model.weight')" "\`hexad import --text-only\`"
  expect_nothing_at imported
  expect 0 "$HEXAD" import --text-only larger imported
  expect_text out "llama4_text: 45 tensors"
  expect_text err "an export will be a llama4_text model" "1 tensor outside the text model"
  expect 0 "$HEXAD" export imported exported
  expect_text out "llama4_text: step 0, 45 tensors"
  expect_text exported/config.json '"model_type": "llama4_text"'
}

test_names_of_a_model_are_printed_without_control_codes() {
  cp -r "$model" foreign
  mv foreign/model.safetensors foreign/x.safetensors
  printf '{"weight_map": {"a\\u001b[31m": "x.safetensors"}}' >foreign/model.safetensors.index.json
  expect 3 "$HEXAD" import foreign imported
  expect_text err "lists 'a\x1b[31m' in x.safetensors"
  expect_plain err
}

test_targets_that_are_not_empty_are_refused() {
  import_model
  expect 2 "$HEXAD" import "$model" imported
  expect_text err "imported: is not empty, expected a new or empty folder"
  expect 2 "$HEXAD" export imported imported
  expect 2 "$HEXAD" export nowhere exported
  expect_text err "'nowhere' is not a run directory: no such folder"
  expect 2 "$HEXAD" export "$model" exported
  expect_text err "nor a checkpoint (no manifest.json); \`hexad import\` converts a Hugging Face model to a checkpoint"
  expect_nothing_at exported
  expect 2 "$HEXAD" import "$model" .
  expect_text err ".: is the working directory, which cannot be replaced"
}

test_json_reports_the_type_and_the_tensors_of_a_model() {
  expect 0 "$HEXAD" import "$model" imported --json
  expect_text out '"model_type":"mixtral"' '"tensors":41' '"files":["generation_config.json"]'
  expect 0 "$HEXAD" export imported exported --json
  expect_text out '"model_type":"mixtral"' '"step":0' '"shards":1'
}

test_several_processes_are_refused() {
  expect 2 ranks 2 import "$model" imported
  expect_text err "runs as one process"
  expect_nothing_at imported
}

run_tests "$@"
