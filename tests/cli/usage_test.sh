#!/usr/bin/env bash
# Help texts and error messages of the command line.
. "$(dirname "$0")/cli.sh"

test_hexad_without_arguments_prints_its_help() {
  expect 2 "$HEXAD"
  expect_text out "Usage: hexad" train generate eval validate prepare inspect env bench profile reference
  expect 2 "$HEXAD" bench
  expect_text out "Usage: hexad bench" gemm
  expect 0 "$HEXAD" --help
}

test_commands_have_help() {
  local command
  for command in train generate eval validate prepare tokenize inspect env bench profile check-cluster reference report scale; do
    expect 0 "$HEXAD" $command --help
    expect_text out "Usage: hexad $command"
  done
  expect 0 "$HEXAD" --version
}

test_empty_path_is_refused_by_the_name_of_its_argument() {
  local command
  for command in validate train eval generate inspect; do
    expect 2 "$HEXAD" $command ""
    expect_text err ": '' given, expected the path of a file or folder"
  done
  expect 2 "$HEXAD" import model ""
  expect_text err "output: '' given, expected the path of a file or folder"
  expect 2 "$HEXAD" prepare --input "" --output data
  expect_text err "--input: '' given, expected the path of a file or folder"
}

test_option_given_twice_is_refused() {
  expect 2 "$HEXAD" validate tiny.yaml --world 2 --world 4
  expect_text err "--world: given 2 times, expected once"
}

test_help_is_a_command_too() {
  local command
  for command in train generate "bench gemm" bench verify help; do
    # shellcheck disable=SC2086
    expect 0 "$HEXAD" $command --help
    cp out option
    # shellcheck disable=SC2086
    expect 0 "$HEXAD" help $command
    cmp -s out option || failed "hexad help $command and hexad $command --help print different texts"
  done
  expect 0 "$HEXAD" --help
  cp out option
  expect 0 "$HEXAD" help
  cmp -s out option || failed "hexad help and hexad --help print different texts"
  expect_text out "help " "Show the help of a command"
  expect 2 "$HEXAD" help trian
  expect_text err "unknown command 'hexad trian'; did you mean 'train'?"
  expect 2 "$HEXAD" help bench gem
  expect_text err "did you mean 'gemm'?"
  expect 2 "$HEXAD" help train now
  expect_text err "unexpected argument 'now'"
  expect 2 "$HEXAD" help train --wrld
  expect_text err "unknown option '--wrld'"
}

test_help_shows_defaults_and_fits_a_terminal() {
  expect 0 "$HEXAD" generate --help
  expect_text out "to generate for each prompt [default: 200]" "0: always the most probable token [default: 0.8]" "[default: auto]"
  expect_no_text out "several times ["  # a list has no default
  expect 0 "$HEXAD" prepare --help
  expect_text out "vocabulary size of a bpe tokenizer [default: 4096]" "[default: file]"
  for command in train generate eval validate prepare tokenize inspect env "bench gemm" "bench predict" "bench prefill" profile \
    verify; do
    # shellcheck disable=SC2086
    expect 0 "$HEXAD" $command --help
    expect_equal "$(awk 'length > 100' out)" ""
  done
}

test_unknown_command_gets_a_suggestion() {
  expect 2 "$HEXAD" trian
  expect_text err "unknown command 'hexad trian'; did you mean 'train'?" "commands: train, generate, eval"
  expect 2 "$HEXAD" bench gem
  expect_text err "unknown command 'hexad bench gem'; did you mean 'gemm'?"
}

test_unknown_option_gets_a_suggestion() {
  expect 2 "$HEXAD" validate tiny.yaml --wrld 2
  expect_text err "unknown option '--wrld'; did you mean '--world'?" "\`hexad validate --help\`"
  expect 2 "$HEXAD" train tiny.yaml --train.steps 3
  expect_text err "keys of the recipe are written key.path=value, such as train.steps=100"
  expect 2 "$HEXAD" env more
  expect_text err "unexpected argument 'more'"
}

test_help_lists_the_legal_words() {
  expect 0 "$HEXAD" export --help
  expect_text out "f32, bf16, f16, or source" "qwen3_moe," "mixtral,"
  expect 0 "$HEXAD" plan --help
  expect_text out "time (of a step), memory (of a"
}

test_unknown_instruction_set_is_refused() {
  HEXAD_MAX_ISA=v5 expect 2 "$HEXAD" env
  expect_text err "environment: HEXAD_MAX_ISA is 'v5'; expected v3, v4, dot or amx"
  HEXAD_MAX_ISA=v3 expect 0 "$HEXAD" env
  expect_text out "own kernels (x86-64-v3); bf16: the same kernels after widening to f32"
}

test_feature_missing_from_the_build_is_an_error_of_the_recipe() {
  expect 0 "$HEXAD" env
  grep -q "^cuda  *none: .*built without CUDA" out || return 0
  expect 2 "$HEXAD" train tiny.yaml device=cuda
  expect_text err "device: cuda was requested, but this program was built without CUDA" "use device: cpu"
  HEXAD_DEVICE=cuda expect 2 "$HEXAD" train tiny.yaml
  expect 0 "$HEXAD" train tiny.yaml train.steps=2
  HEXAD_DEVICE=cuda expect 2 "$HEXAD" eval run
  expect 2 "$HEXAD" bench predict tiny.yaml device=cuda --out predictions.json
}

test_option_of_another_program_gets_a_suggestion() {
  expect 2 "$HEXAD" report run --output page.html
  expect_text err "unknown option '--output'; did you mean '--out'?"
  expect 2 "$HEXAD" report run --file=page.html
  expect_text err "unknown option '--file'; did you mean '--out'?"
  expect 2 "$HEXAD" prepare --in texts
  expect_text err "unknown option '--in'; did you mean '--input'?"
  expect 2 "$HEXAD" prepare --input texts --output data --vocab-size 300
  expect_text err "unknown option '--vocab-size'; did you mean '--vocab'?"
  expect 2 "$HEXAD" validate tiny.yaml -n 2
  expect_text err "unknown option '-n'; did you mean '--world'?"
  expect 2 "$HEXAD" report run --jsno
  expect_text err "unknown option '--jsno'; did you mean '--json'?"
  expect 2 "$HEXAD" generate run --prompt a --top 3
  expect_text err "unknown option '--top'; did you mean '--top-k' or '--top-p'?"
  expect 2 "$HEXAD" sample run
  expect_text err "unknown command 'hexad sample'; did you mean 'generate'?"
}

test_option_without_a_command_is_named() {
  expect 2 "$HEXAD" --verison
  expect_text err "unknown option '--verison'; did you mean '--version'?" "\`hexad --help\`"
  expect_equal "$(cat out)" ""
  expect 2 "$HEXAD" -x
  expect_text err "unknown option '-x'"
  expect 2 "$HEXAD" --world 2 validate tiny.yaml
  expect_text err "unknown option '--world'"
}

test_renamed_program_prints_its_own_name() {
  ln -s "$HEXAD" my-hexad
  expect 0 ./my-hexad --help
  expect_text out "Usage: my-hexad"
  cp tiny.yaml "my recipe.yaml"
  expect 0 ./my-hexad validate "my recipe.yaml" --world 2
  expect_text out "my-hexad train 'my recipe.yaml'"
}

test_missing_arguments_are_named() {
  expect 2 "$HEXAD" train
  expect_text err "recipe is required" "\`hexad train --help\`"
  expect 2 "$HEXAD" generate run
  expect_text err "--prompt or --prompt-file is required"
  expect 2 "$HEXAD" prepare --output data
  expect_text err "--input is required"
  expect 2 "$HEXAD" prepare --inpt texts --output data
  expect_text err "unknown option '--inpt'; did you mean '--input'?"
}

test_illegal_values_are_refused_with_the_legal_ones() {
  expect 2 "$HEXAD" bench gemm --dtype f16
  expect_text err "--dtype: 'f16' given, expected one of f32, bf16, f64"
  expect 2 "$HEXAD" bench gemm --threads 0
  expect_text err "--threads: '0' given, expected a whole number from 1 to 4096"
  expect 2 "$HEXAD" bench gemm --seconds nan
  expect_text err "--seconds: 'nan' given, expected a number above 0"
  expect 2 "$HEXAD" validate tiny.yaml --world 1.5
  expect_text err "--world: '1.5' given, expected a whole number from 0 to 16777216"
  expect 2 "$HEXAD" generate run --prompt x --top-p 1.5
  expect_text err "--top-p: '1.5' given, expected a number from 0 to 1"
  expect 2 "$HEXAD" generate run --prompt x --temperature -1
  expect_text err "--temperature: '-1' given, expected a number of at least 0"
  expect 2 "$HEXAD" generate run --prompt x --max-tokens many
  expect_text err "--max-tokens: 'many' given, expected a whole number of at least 1"
  expect 2 "$HEXAD" eval run --step newest
  expect_text err "--step: 'newest' given, expected auto or a step"
  expect 2 "$HEXAD" prepare --input x --output y --vocab 10
  expect_text err "--vocab: '10' given, expected a whole number from 258 to 1000000"
  expect 2 "$HEXAD" prepare --input x --output y --split words
  expect_text err "--split: 'words' given, expected one of file, blank_lines, separator"
}

test_missing_files_are_named() {
  expect 2 "$HEXAD" train nowhere.yaml
  expect_text err "nowhere.yaml: no such file"
  expect 2 "$HEXAD" generate nowhere --prompt x
  expect_text err "'nowhere' is not a run directory: no such folder"
  expect 2 "$HEXAD" eval nowhere
  expect_text err "'nowhere' is not a run directory"
  expect 2 "$HEXAD" inspect nowhere
  expect_text err "nowhere: no such folder"
  expect 2 "$HEXAD" prepare --input nowhere --output data
  expect_text err "nowhere: no such file or folder"
  expect 3 "$HEXAD" train tiny.yaml data.synthetic=false data.dataset=nowhere
  expect_text err "data.dataset (nowhere): no such folder" "hexad prepare"
  mkdir -p runs/sixteen
  for command in eval "generate --prompt x" report inspect; do
    # shellcheck disable=SC2086
    expect 2 "$HEXAD" $command runs/sixten
    expect_text err "no such folder; did you mean 'runs/sixteen'?"
    # shellcheck disable=SC2086
    expect 2 "$HEXAD" $command runs/nope
    expect_text err "no such folder; in 'runs' there are: sixteen"
  done
  expect 3 "$HEXAD" train tiny.yaml train.init_from=runs/sixten
  expect_text err "train.init_from (runs/sixten) is not a checkpoint: no such folder; did you mean 'runs/sixteen'?"
  expect 2 "$HEXAD" train tiny.yaml model.mlp=swiglo
  expect_text err "model.mlp (swiglo) is not a registered layer" "swiglu"
}

test_env_and_bench_print_facts_of_the_machine() {
  expect 0 "$HEXAD" env
  expect_text out hexad compiled processor products devices
  expect 0 "$HEXAD" bench gemm --seconds 0.05 --json
  expect_text out '"dtype":"f32"' '"flops_per_second":' '"threads":1' '"peers":{"Eigen":'
  expect 0 "$HEXAD" bench gemm --seconds 0.05 --dtype f64
  expect_text out 'f64 products, 1 thread' 'Hexad ' 'has no product in f64' 'Eigen 3.'
}

run_tests "$@"
