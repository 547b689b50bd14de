#!/usr/bin/env bash
# Completion as the shell asks for it.
. "$(dirname "$0")/cli.sh"

# `completes WORD... -- EXPECTED...`: Tab after the last word offers these, in any order.
completes() {
  COMP_WORDS=("$HEXAD")
  while [ "$1" != -- ]; do
    COMP_WORDS+=("$1")
    shift
  done
  shift
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _hexad
  expect_equal "$(printf '%s\n' "${COMPREPLY[@]}" | sort)" "$(printf '%s\n' "$@" | sort)"
}

test_commands_options_and_keys_are_completed() {
  expect 0 "$HEXAD" completion bash
  . ./out
  expect_equal "$(complete -p hexad)" "complete -o default -F _hexad hexad"
  completes tr -- train
  completes bench g -- gemm
  completes bench gemm --dt -- --dtype
  completes validate tiny.yaml --w -- --world
  completes prepare --input texts --s -- --split --separator --split-bytes
  completes train tiny.yaml train.st -- train.steps=
  completes train tiny.yaml train.steps=3 optim.warm -- optim.warmup=
  completes train tiny.yaml schedule.moe.memory_r -- schedule.moe.memory_reuse=
  completes bench gemm --dtype "" -- f32 bf16 f64
  completes bench gemm --dtype b -- bf16
  completes bench gemm --dtype = b -- bf16
  completes prepare --split s -- separator
  completes verify tiny.yaml --precision f -- f32 f64
  completes simulate --paper mo -- monta
  completes completion z -- zsh
  completes eval run train.st -- train.steps=
  completes train --help tiny.yaml train.st -- train.steps=
  # Files are the shell's business: a recipe, and what follows a key.
  completes train tiny --
  completes train "" --
  completes train r --
  completes validate --world 2 t --
  completes generate run --prompt t --
  completes simulate --paper monta input.yaml t --
  completes train tiny.yaml data.dataset = --
  completes train tiny.yaml data.dataset = da --
}

test_every_key_of_the_reference_is_listed() {
  expect 0 "$HEXAD" reference --keys
  cp out keys
  expect 0 "$HEXAD" reference
  # Elements of lists of sections have keys of their own there.
  expect_equal "$(sed -nE 's/^\| `([a-z_0-9.]+)` .*/\1/p' out | grep -vE '\.0\.' | sort)" "$(sort keys)"
}

test_zsh_reads_it_by_way_of_bash() {
  expect 0 "$HEXAD" completion zsh
  expect_text out "bashcompinit" "complete -o default -F _hexad hexad"
  expect 2 "$HEXAD" completion fish
  expect_text err "'fish' given, expected one of bash, zsh"
}

run_tests "$@"
