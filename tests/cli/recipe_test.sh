#!/usr/bin/env bash
# Tests refusals of wrong recipes, of hostile recipes, and of files that are not recipes. The program must exit with
# code 2 and name the mistake. Also tests the output of `validate`.
. "$(dirname "$0")/cli.sh"

# `refused TEXT...`: expects `hexad validate` to refuse the recipe on standard input with these texts.
refused() {
  cat >bad.yaml
  expect 2 "$HEXAD" validate bad.yaml
  expect_text err "$@"
  # For any recipe, the message is safe for a terminal.
  expect_plain err
}

test_all_problems_are_reported_together_with_their_lines() {
  refused "bad.yaml:2: model.hiden is not a key; did you mean hidden?" \
    "bad.yaml:3: model.heads (1e3) must be an integer; write 1000" \
    "bad.yaml:4: model.layers (010) must not start with 0, which YAML reads as octal; write 10" \
    "bad.yaml:5: model.norm_eps (nan) must be a finite number" \
    "bad.yaml:7: train.steps (0) must be at least 1" \
    "bad.yaml:8: train.precision (fp32) must be one of f32, bf16, f64; did you mean f32?" \
    "bad.yaml:9: modl is not a key; did you mean model?" <<'E'
model:
  hiden: 3
  heads: 1e3
  layers: 010
  norm_eps: nan
train:
  steps: 0
  precision: fp32
modl: {}
E
}

test_overrides_are_named_as_such() {
  expect 2 "$HEXAD" validate tiny.yaml model.hidden=abc
  expect_text err "command line: model.hidden=abc: model.hidden (abc) must be an integer"
  expect 2 "$HEXAD" validate tiny.yaml model.hidden
  expect_text err "command line: model.hidden: expected key.path=value, such as train.steps=100"
}

test_duplicate_keys_are_refused() { printf 'model:\n  hidden: 8\n  hidden: 16\n' | refused bad.yaml:3 hidden; }
test_two_documents_are_refused() { printf 'train: {}\n---\ntrain: {}\n' | refused bad.yaml:2 document; }
test_bad_utf8_is_refused() { printf 'train:\n  init_from: "\xc3\x28"\n' | refused bad.yaml:2 UTF-8; }
test_control_characters_are_refused() { printf 'train:\n  init_from: "\x1b[31m"\n' | refused bad.yaml:2 "control character 0x1b"; }
test_cyclic_anchor_is_refused() { printf 'model: &x [*x]\n' | refused bad.yaml:1; }

test_alias_bomb_is_refused() {
  local level previous=lol
  {
    echo "lol: &lol x"
    for level in 1 2 3 4 5 6 7 8 9; do
      echo "l$level: &l$level [*$previous, *$previous, *$previous, *$previous, *$previous, *$previous]"
      previous=l$level
    done
  } | refused bad.yaml:1
}

test_twenty_thousand_brackets_are_refused() { head -c 20000 /dev/zero | tr '\0' '[' | refused bad.yaml:1; }

test_unrelated_files_are_refused() {
  : >empty.yaml
  expect 2 "$HEXAD" validate empty.yaml
  expect_text err "empty.yaml: is empty"
  echo "include: empty.yaml" >with.yaml
  expect 2 "$HEXAD" validate with.yaml
  expect_text err "with.yaml:1: include empty.yaml: is empty"
  expect 2 "$HEXAD" validate nowhere.yaml
  expect_text err "nowhere.yaml: no such file"
  expect 2 "$HEXAD" validate .
  expect_text err ".: is a directory; expected a YAML file"
  head -c 300000 /dev/zero | tr '\0' '#' >huge.yaml
  expect 2 "$HEXAD" validate huge.yaml
  expect_text err "huge.yaml: has more than 262144 bytes; a recipe and its includes may have at most 262144 bytes"
  expect 2 "$HEXAD" validate /dev/zero
  head -c 1000 /dev/urandom >noise.yaml
  expect 2 "$HEXAD" validate noise.yaml
}

test_includes_stay_inside_the_folder_and_end() {
  mkdir inside
  printf 'include: ../tiny.yaml\n' >inside/a.yaml
  expect 2 "$HEXAD" validate inside/a.yaml
  expect_text err "inside/a.yaml:1: include ../tiny.yaml: is outside the recipe's folder"
  ln -s ../tiny.yaml inside/link.yaml
  printf 'include: link.yaml\n' >inside/b.yaml
  expect 2 "$HEXAD" validate inside/b.yaml
  expect_text err "is outside the recipe's folder"
  printf 'include: d.yaml\n' >inside/c.yaml
  printf 'include: c.yaml\n' >inside/d.yaml
  expect 2 "$HEXAD" validate inside/c.yaml
  expect_text err "includes itself"
}

test_recipe_may_include_another() {
  printf 'include: tiny.yaml\ntrain:\n  steps: 3\n' >more.yaml
  expect 0 "$HEXAD" train more.yaml
  expect_text out "step 3/3"
}

test_train_refuses_a_wrong_recipe() {
  expect 2 "$HEXAD" train tiny.yaml model.hiden=3
  expect_text err "command line: model.hiden=3" "did you mean hidden?"
  expect_nothing_at run
}

test_validate_prints_parameters_flops_and_memory() {
  expect 0 "$HEXAD" validate tiny.yaml --world 2
  expect_text out "valid for 2 ranks" "parameters" "active per token" "FLOPs per token" "memory of a rank on"
}

test_validate_prints_the_stages_and_the_bytes_that_a_rank_sends() {
  expect 0 "$HEXAD" validate tiny.yaml
  expect_no_text out "sent by a rank" "pipeline stages"
  expect 0 "$HEXAD" validate tiny.yaml --world 2 parallel.pp=2
  expect_text out "pipeline stages (1f1b)" "stage 0           embedding, layer 0" "stage 1           layer 1, head"
  expect_text out "sent by a rank in a step" "  pp  "
  expect_no_text out "  ep  "
}

test_validate_prints_the_memory_of_every_stage() {
  expect 0 "$HEXAD" validate tiny.yaml --world 2 parallel.pp=2 batch.global=8
  expect_text out "stage 0 of 2 needs the most" "micro-batches in flight: 2" "micro-batches in flight: 1"
}

test_validate_refuses_recipes_above_the_memory_limit() {
  expect 0 "$HEXAD" validate tiny.yaml memory.limit_bytes=1GiB
  expect_text out "memory limit"
  expect 2 "$HEXAD" validate tiny.yaml memory.limit_bytes=16KiB
  expect_text err "memory.limit_bytes is 16.0 KiB, but a rank is estimated to need" " more; " \
    "no single change is sufficient; the most effective change is offload.optimizer: file"
  expect 2 "$HEXAD" validate tiny.yaml memory.limit_bytes=400KiB
  expect_text err "each of these changes is sufficient: " "offload.optimizer: file ("
  expect 2 "$HEXAD" validate tiny.yaml --world 2 parallel.pp=2 memory.limit_bytes=16KiB
  expect_text err "but a rank of stage "
  expect 2 "$HEXAD" validate tiny.yaml memory.limit_bytes=4gb
  expect_text err "must be a number of bytes, plain or with a unit" "KiB, MiB, GiB, TiB" "write 4GB"
}

test_validate_draws_the_mesh() {
  expect 0 "$HEXAD" validate tiny.yaml --world 4 parallel.ep=2 --mesh --svg mesh.svg
  expect_text out "mesh of 4 ranks: pp 1 x dp 4 x cp 1 x tp 1 | pp 1 x edp 2 x ep 2 x etp 1"
  expect_text mesh.svg "<svg xmlns=" "pp 1 x dp 4 x cp 1 x tp 1 | pp 1 x edp 2 x ep 2 x etp 1" "rank 3: edp 1, ep 1, etp 0"
  expect 2 "$HEXAD" validate tiny.yaml --svg mesh.svg
  expect_text err "--mesh"
  expect 4 "$HEXAD" validate tiny.yaml --mesh --svg nowhere/mesh.svg
  expect_text err "nowhere/mesh.svg: cannot be created: No such file or directory"
}

# Commands replace only output of their own kind, so that a typo does not destroy a recipe.
test_outputs_replace_only_files_of_their_kind() {
  cp tiny.yaml recipe.yaml
  expect 2 "$HEXAD" validate tiny.yaml --mesh --svg recipe.yaml
  expect_text err "recipe.yaml: exists but is not a drawing, because it does not begin with '<svg '"
  expect 2 "$HEXAD" profile --quick --seconds 1 --out recipe.yaml
  expect_text err "recipe.yaml: exists but is not a profile"
  expect 2 "$HEXAD" bench predict tiny.yaml --out recipe.yaml
  expect_text err "recipe.yaml: exists but is not a list of predictions; choose another file name, or remove the existing file"
  expect 2 "$HEXAD" simulate tiny.yaml --cluster nowhere.yaml --trace recipe.yaml
  expect_text err "recipe.yaml: exists but is not a trace; choose another file name, or remove the existing file"
  cmp -s tiny.yaml recipe.yaml || failed "recipe.yaml has changed"
  expect 0 "$HEXAD" validate tiny.yaml --mesh --svg mesh.svg
  expect 0 "$HEXAD" validate tiny.yaml --mesh --svg mesh.svg model.layers=1
}

test_two_outputs_in_one_file_are_refused() {
  local cluster=$CLI_TESTS/../../recipes/clusters/h100-dgx.yaml
  expect 2 "$HEXAD" plan tiny.yaml train.precision=bf16 --cluster "$cluster" --ranks 1 --out a.yaml --svg ./a.yaml
  expect_text err "--out and --svg name the same file, a.yaml; choose another file for one of them"
  expect 2 "$HEXAD" simulate tiny.yaml --cluster "$cluster" --beside run --trace a.html --report a.html
  expect_text err "--trace and --report name the same file, a.html; choose another file for one of them"
  expect_nothing_at a.yaml
  expect_nothing_at a.html
}

test_validate_warns_of_windows_that_processes_cannot_have() {
  expect 0 "$HEXAD" validate tiny.yaml --world 2 parallel.ep=2 schedule.moe.all_to_all=window
  expect_text out "schedule.moe.all_to_all is window, which \`hexad train\` refuses with device: cpu and parallel.ep (2) above 1"
  expect 0 "$HEXAD" validate tiny.yaml --world 2 schedule.moe.all_to_all=window
  expect_no_text out "is window"
}

# The limits exist because products of larger sizes exceed 64 bits, and because token ids have 32 bits.
test_sizes_of_models_have_upper_limits() {
  local size
  for size in layers:16384 hidden:1048576 vocab:1073741824 context:1073741824 mlp_hidden:16777216 moe.experts:65536 \
    moe.expert_hidden:16777216; do
    expect 2 "$HEXAD" validate tiny.yaml "model.${size%:*}=1000000000000"
    expect_text err "model.${size%:*} (1000000000000) must be at most ${size#*:}"
  done
}

test_warmup_longer_than_the_run_is_refused() {
  local command text="optim.warmup (9) must be at most train.steps (6): the learning rate would only rise"
  for command in validate train; do
    expect 2 "$HEXAD" $command tiny.yaml optim.warmup=9
    expect_text err "command line: optim.warmup=9: $text" "; nearest: 6"
  done
  expect 0 "$HEXAD" validate tiny.yaml optim.warmup=6
  expect_no_text out "warning"
}

# Short trial runs of long recipes are common. Therefore, a long warm-up causes a warning instead of an error if
# train.steps, but not optim.warmup, is given on the command line. `hexad eval` does not refuse the warm-up either. In
# this test, `hexad eval` fails only because the run has no held-out data.
test_short_trial_with_a_long_warmup_causes_a_warning() {
  local text="optim.warmup (6) is above train.steps (3): the learning rate only rises, to 0.5 of optim.lr at the last step"
  sed 's/lr: 0.01/lr: 0.01\n  warmup: 6/' tiny.yaml >slow.yaml
  expect 0 "$HEXAD" validate slow.yaml train.steps=3
  expect_text out "warning: $text"
  expect 0 "$HEXAD" train slow.yaml train.steps=3
  expect_count 1 err "warning: $text"
  expect 2 "$HEXAD" eval run
  expect_text err "the recipe's data have no held-out part"
}

test_old_names_are_reported_once_with_problems() {
  expect 2 "$HEXAD" validate tiny.yaml schedule.moe.parts=2 model.heads=3
  expect_count 1 err "schedule.moe.parts is now called schedule.moe.chunks"
  expect 0 "$HEXAD" validate tiny.yaml optim.kind=adamw
  expect_count 1 err "optim.kind is now called optim.name"
}

test_nearest_values_are_those_of_the_given_key() {
  expect 2 "$HEXAD" validate tiny.yaml model.heads=6 model.hidden=24 batch.global=12 parallel.tp=4 --world 6
  expect_text err "model.heads (6) must be divisible by parallel.tp (4); nearest: parallel.tp 2"
  expect 2 "$HEXAD" validate tiny.yaml parallel.tp=4 --world 6
  expect_text err "model.heads (2) must be divisible by parallel.tp (4); nearest: parallel.tp 2, with another batch.global"
  expect 2 "$HEXAD" validate tiny.yaml parallel.tp=4
  expect_text err "model.heads (2) must be divisible by parallel.tp (4); nearest: parallel.tp 2"
}

test_rules_between_keys_are_checked_despite_wrong_keys() {
  expect 2 "$HEXAD" validate tiny.yaml model.layers=x model.hiden=3 model.hidden=15 batch.global=7
  expect_text err "model.layers (x) must be an integer" "model.hiden is not a key" "model.hidden (15) must be divisible by" \
    "batch.global (7) must be divisible by batch.micro (2)"
}

test_missing_dataset_is_reported_with_the_searched_folders() {
  local data=(data.synthetic=false data.dataset=texts)
  expect 3 "$HEXAD" train tiny.yaml "${data[@]}"
  expect_text err "data.dataset (texts): no such folder in the working directory, $PWD, to which dataset paths are relative" \
    "\`hexad prepare\` makes a dataset"
  mkdir -p recipes/texts
  cp tiny.yaml recipes
  expect 3 "$HEXAD" train recipes/tiny.yaml "${data[@]}"
  expect_text err "found recipes/texts next to the recipe"
  expect 3 "$HEXAD" validate recipes/tiny.yaml "${data[@]}" model.vocab=0
  expect_text err "found recipes/texts next to the recipe"
}

test_single_process_of_a_parallel_layout_prints_the_start_command() {
  expect 2 "$HEXAD" train tiny.yaml parallel.tp=2
  expect_text err "which must divide the number of ranks (1)" "the layout needs 2 ranks or more: mpirun -np 2" \
    "--mca odls_base_sigkill_timeout 5" \
    "hexad train tiny.yaml ..."
  local kind
  for kind in predict prefill; do
    expect 2 "$HEXAD" bench $kind tiny.yaml parallel.tp=2
    expect_text err "the layout needs 2 ranks or more: mpirun -np 2" "hexad bench $kind tiny.yaml ..."
    expect_no_text err "odls_base_sigkill_timeout"
  done
  expect 2 "$HEXAD" train tiny.yaml parallel.tp=2 model.heads=3
  expect_no_text err "ranks or more"
}

test_validate_prints_the_mpirun_command() {
  expect 0 "$HEXAD" validate tiny.yaml --world 4 train.steps=8
  expect_text out "start it here with: mpirun -np 4" "hexad train tiny.yaml 'train.steps=8'"
  [ "$(id -u)" != 0 ] || expect_text out "--allow-run-as-root"
  expect_text out "--mca odls_base_sigkill_timeout" "OMPI_MCA_odls_base_sigkill_timeout in the environment"
  # The estimated time of a save comes from an earlier save, which took ten seconds here.
  mkdir run
  echo '{"step":2,"checkpoint_bytes":250752,"checkpoint_seconds":10.0}' >run/metrics.jsonl
  expect 0 "$HEXAD" validate tiny.yaml --world 4
  expect_text out "--mca odls_base_sigkill_timeout 20 hexad train"
}

run_tests "$@"
