#!/usr/bin/env bash
# Paths on the command line and in recipes: unreadable paths, the home folder, special characters, includes.
. "$(dirname "$0")/texts.sh"

long_name() { head -c 300 /dev/zero | tr '\0' x; }

# `refuses CODE TEXT -- COMMAND...`: expects COMMAND to end with CODE and to print TEXT, without internal terms of the
# program.
refuses() {
  local wanted=$1 text=$2
  shift 3
  expect "$wanted" timeout 20 "$@"
  expect_text err "$text"
  expect_no_text err "filesystem error" "iterator" "internal error" "basic_string"
}

test_paths_that_cannot_be_read_are_named_with_their_reason() {
  local long
  long=$(long_name)
  texts
  expect 0 prepare
  ln -s loop loop
  ln -s gone dangling
  mkfifo pipe
  mkdir folder
  local loop="Too many levels of symbolic links" name="File name too long"
  # Paths of corpora
  refuses 2 "loop: $loop" -- "$HEXAD" prepare --input loop --output other
  refuses 2 "$long: $name" -- "$HEXAD" prepare --input "$long" --output other
  refuses 2 "dangling: is a link to gone, which does not exist" -- "$HEXAD" prepare --input dangling --output other
  refuses 2 "tiny.yaml is not a directory" -- "$HEXAD" prepare --input tiny.yaml/x --output other
  refuses 2 "pipe: is not a regular file but a pipe" -- "$HEXAD" prepare --input pipe --output other
  refuses 2 "/dev/stdin: is not a regular file but a" -- "$HEXAD" prepare --input /dev/stdin --output other < <(seq 9)
  refuses 2 "$long: cannot be created: $name" -- "$HEXAD" prepare --input texts --output "$long"
  refuses 2 "loop: cannot be created: $loop" -- "$HEXAD" prepare --input texts --output loop
  # Paths of tokenizers
  refuses 3 "loop: cannot be opened: $loop" -- "$HEXAD" prepare --input texts --output other --tokenizer loop
  refuses 3 "folder: has no tokenizer, expected tokenizer.json" -- "$HEXAD" prepare --input texts --output other --tokenizer folder
  refuses 3 "pipe: is not a regular file but a pipe" -- "$HEXAD" prepare --input texts --output other --tokenizer pipe
  # Paths of recipes
  refuses 2 "loop: $loop" -- "$HEXAD" validate loop
  refuses 2 "$long: $name" -- "$HEXAD" train "$long"
  refuses 2 "/dev/stdin: is not a regular file but a" -- "$HEXAD" validate /dev/stdin < <(cat tiny.yaml)
  refuses 2 "pipe: is not a regular file but a pipe" -- "$HEXAD" train pipe
  refuses 2 "texts/1.txt is not a directory" -- "$HEXAD" train texts/1.txt/recipe.yaml
  # Paths of datasets
  local dataset="data.synthetic=false" text
  for text in "loop $loop" "$long $name" "tiny.yaml is a regular file, not a folder" "pipe is a pipe, not a folder" \
    "dangling is a link to gone, which does not exist"; do
    refuses 3 "data.dataset (${text%% *}): ${text#* }" -- "$HEXAD" train tiny.yaml $dataset data.dataset="${text%% *}"
  done
  # Paths of run directories and checkpoints
  local command
  for command in eval report "generate --prompt x"; do
    # shellcheck disable=SC2086
    refuses 2 "'loop' is not a run directory: loop/recipe.yaml: $loop" -- "$HEXAD" $command loop
    # shellcheck disable=SC2086
    refuses 2 "$name" -- "$HEXAD" $command "$long"
    # shellcheck disable=SC2086
    refuses 2 "tiny.yaml is not a directory" -- "$HEXAD" $command tiny.yaml
  done
  refuses 2 "'loop' is not a run directory: loop/recipe.yaml: $loop" -- "$HEXAD" report loop data
  refuses 2 "loop: $loop" -- "$HEXAD" inspect loop
  refuses 2 "$name" -- "$HEXAD" inspect "$long" --verify
  refuses 2 "'tiny.yaml' is not a checkpoint folder, run directory, prepared folder, .hxd or .idx file" \
    -- "$HEXAD" inspect tiny.yaml
  refuses 2 "the run directory cannot be created: $name" -- "$HEXAD" train tiny.yaml run.dir="$long"
  refuses 2 "the run directory cannot be created: $loop" -- "$HEXAD" train tiny.yaml run.dir=loop/run
  refuses 3 "train.init_from (loop) is not a checkpoint: manifest.json: $loop" -- "$HEXAD" train tiny.yaml train.init_from=loop
  # Paths of cluster files and traces
  refuses 2 "loop: $loop" -- "$HEXAD" train tiny.yaml schedule.profile=loop schedule.trace=1
  local moe=(model.moe.experts=2 model.moe.routing=trace)
  refuses 3 "model.moe.trace: cannot read 'folder': is a directory" -- "$HEXAD" train tiny.yaml "${moe[@]}" model.moe.trace=folder
  refuses 3 "model.moe.trace: cannot read 'pipe': is not a regular file but a pipe" -- \
    "$HEXAD" train tiny.yaml "${moe[@]}" model.moe.trace=pipe
  expect_nothing_at other
}

test_unreadable_files_and_folders_are_named_together() {
  [ "$(id -u)" != 0 ] || return 0  # root may read everything
  texts
  mkdir texts/private
  chmod 0 texts/private texts/1.txt
  expect 3 prepare
  expect_text err "texts/1.txt: cannot be opened: Permission denied" "texts/private: cannot be listed: Permission denied"
  chmod 700 texts/private
  expect 0 prepare --exclude 1.txt
}

test_tilde_is_the_home_folder_at_the_beginning_of_paths() {
  export HOME=$PWD/home
  mkdir home
  texts
  expect 0 "$HEXAD" prepare --input=~/../texts --output=~/data --tokenizer=bytes --heldout=0.1
  expect_file home/data/train.hxd
  expect 0 "$HEXAD" prepare --input=texts --output='~/other' '--tokenizer=~/data/tokenizer.json'
  local dataset=(data.synthetic=false model.vocab=0)
  expect 0 "$HEXAD" train tiny.yaml "${dataset[@]}" 'data.dataset=~/data' 'run.dir=~/runs/x' train.steps=2
  expect_file home/runs/x/metrics.jsonl
  expect 0 "$HEXAD" train tiny.yaml "${dataset[@]}" 'data.mixture=[{dataset: ~/data}, {dataset: "~/data"}]' \
    run.dir=mixed train.steps=2 'train.init_from=~/runs/x/checkpoints/step-00000002' 'offload.folder=~'
  { sed '/^run:/,$d' tiny.yaml && printf 'run:\n  dir: ~/runs/y\n'; } >home.yaml
  expect 0 "$HEXAD" train home.yaml
  expect_file home/runs/y/metrics.jsonl
  printf 'include: ~/base.yaml\n' >including.yaml
  cp tiny.yaml home/base.yaml
  expect 0 "$HEXAD" validate including.yaml
  expect 2 "$HEXAD" train tiny.yaml 'run.dir=~no-such-user/x'
  expect_text err "run.dir (~no-such-user/x) begins with ~no-such-user, but there is no user no-such-user"
  expect 2 "$HEXAD" prepare --input texts '--output=~no-such-user/x'
  expect_text err "there is no user no-such-user"
  expect 0 "$HEXAD" train tiny.yaml run.dir=./~/x train.steps=1
  expect_file "./~/x/metrics.jsonl"
  rm -r ./~
  expect_equal "$(find . -name '~*')" ""
}

test_values_on_the_command_line_are_literal() {
  local name
  for name in 'runs/a #2' 'runs/a: b' '*a' 'it'"'"'s' 'a, b' '&x' '"a" b'; do
    expect 0 "$HEXAD" train tiny.yaml run.dir="$name" train.steps=1
    expect_file "$name/metrics.jsonl"
  done
  expect_nothing_at runs/a
  expect 2 "$HEXAD" validate tiny.yaml 'train.steps=3 # three'
  expect_text err "train.steps (3 # three) must be an integer"
  expect 0 "$HEXAD" validate tiny.yaml 'model.moe={experts: 2, top_k: 1}' 'model.moe={experts: 4}' 'optim={lr: 0.02}'
}

test_includes_need_a_root_or_an_absolute_path() {
  mkdir inside common
  cp tiny.yaml common/base.yaml
  printf 'include: %s/common/base.yaml\n' "$PWD" >inside/a.yaml
  expect 0 "$HEXAD" validate inside/a.yaml
  printf 'include: ../common/base.yaml\n' >inside/b.yaml
  expect 2 "$HEXAD" validate inside/b.yaml
  expect_text err "is outside the recipe's folder" "--include-root"
  expect 0 "$HEXAD" validate inside/b.yaml --include-root . --world 2 train.steps=3
  expect_text out "train inside/b.yaml --include-root . 'train.steps=3'"
  expect 0 "$HEXAD" train inside/b.yaml --include-root common train.steps=1
  expect 2 "$HEXAD" train inside/b.yaml --include-root nowhere
  expect_text err "--include-root nowhere: no such folder"
  expect 2 "$HEXAD" train inside/b.yaml --include-root inside
  expect_text err "is outside the recipe's folder"
}

run_tests "$@"
