#!/usr/bin/env bash
# Completion of command lines. The tests call the program with the arguments that a shell passes.
. "$(dirname "$0")/cli.sh"

# `completes WORD... -- EXPECTED...`: expects Tab after the last word to offer exactly the expected words, in any order.
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
  completes completion f -- fish
  completes eval run train.st -- train.steps=
  completes train --help tiny.yaml train.st -- train.steps=
  completes help ge -- generate
  completes help bench "" -- fused gemm predict prefill
  completes help train t --
  # The program offers no words here, so that the shell completes file names.
  completes generate run --prompt t --
  completes train tiny.yaml train.steps = 3 --
  completes simulate --paper monta input.yaml t --
  completes train tiny.yaml data.dataset = --
  completes train tiny.yaml data.dataset = da --
}

test_values_of_keys_are_completed() {
  expect 0 "$HEXAD" completion bash
  . ./out
  # In bash, `=` is a separate word.
  completes train tiny.yaml train.precision = -- f32 bf16 f64
  completes train tiny.yaml train.precision = b -- bf16
  completes train tiny.yaml device = "" -- cpu cuda emulated
  completes eval run parallel.sp = t -- true
  completes validate tiny.yaml train.threads = "" -- auto
  completes train tiny.yaml schedule.moe.memory_reuse = "" -- none s1 s2 s3 s4 auto
  completes train tiny.yaml optim.name = s -- sgd
  completes train tiny.yaml optim.name = m -- muon
  completes train tiny.yaml model.mlp = "" -- gelu swiglu
  completes verify tiny.yaml --device em -- emulated
  completes eval run --step a -- auto
  # In zsh, `=` does not separate words.
  completes train tiny.yaml train.precision=b -- train.precision=bf16
  completes train tiny.yaml train.steps=3 parallel.sp= -- parallel.sp=true parallel.sp=false
  completes train tiny.yaml data.dataset=ti -- data.dataset=tiny.yaml
}

test_recipes_and_runs_are_completed() {
  expect 0 "$HEXAD" completion bash
  . ./out
  mkdir runs texts
  touch other.yml "with blank.yaml" notes.txt
  completes train ti -- tiny.yaml
  completes train "" -- tiny.yaml other.yml "with blank.yaml" runs texts
  completes train n --
  completes validate --world 2 t -- tiny.yaml texts
  completes simulate --paper monta o -- other.yml
  completes eval "" -- runs texts
  completes report r -- runs
  completes inspect t -- texts
}

# `validate_words KEY=WORD...`: validates tiny.yaml with the given overrides, 40 at a time, because `validate` reports
# at most 50 problems. Writes all problems to the file `problems`.
validate_words() {
  local first
  for ((first = 1; first <= $#; first += 40)); do
    run "$HEXAD" validate tiny.yaml "${@:first:40}"
    cat err
  done >problems
}

# `refused KEY WORD`: true if validate_words() found that the word is illegal for the key itself. Messages about rules
# between keys do not count. These messages name another key after a word such as "for".
refused() {
  grep -E "$1 \($2\) (must be|is not a registered|has an axis)" problems | grep -vE ' (for|with|if|where|because|of) ' |
    grep . >/dev/null || grep -qE "$1 \($2\) must be (one of|a number of bytes|a list of)" problems
}

test_every_listed_value_is_legal() {
  local key words_of_key word n legal=0
  local -a words overrides
  expect 0 "$HEXAD" reference --keys
  cp out keys
  expect 0 "$HEXAD" reference --values
  cp out values
  while read -r key _; do
    grep -qxF "$key" keys || failed "values are listed for the unknown key $key"
    validate_words "$key=nonsense"
    refused "$key" nonsense || failed "$key=nonsense is not refused, or refused() does not recognise the message"
  done <values
  for n in {0..99}; do  # the n-th listed word of every key
    overrides=()
    while read -r key words_of_key; do
      read -ra words <<<"$words_of_key"
      [ "$n" -ge ${#words[@]} ] || overrides+=("$key=${words[n]}")
    done <values
    [ ${#overrides[@]} -gt 0 ] || break
    legal=$((legal + ${#overrides[@]}))
    validate_words "${overrides[@]}"
    for word in "${overrides[@]}"; do
      ! refused "${word%%=*}" "${word#*=}" || failed "$word is listed, but refused: $(grep -F "$word" problems)"
    done
  done
  [ "$legal" -gt 100 ] || failed "$legal values are listed, expected more than 100"
}

test_every_key_of_the_reference_is_listed() {
  expect 0 "$HEXAD" reference --keys
  cp out keys
  expect 0 "$HEXAD" reference
  # The reference also lists keys of list elements.
  expect_equal "$(sed -nE 's/^\| `([a-z_0-9.]+)` .*/\1/p' out | grep -vE '\.0\.' | sort)" "$(sort keys)"
}

test_zsh_uses_the_completion_of_bash() {
  expect 0 "$HEXAD" completion zsh
  expect_text out "bashcompinit" "complete -o default -F _hexad hexad"
  expect 2 "$HEXAD" completion tcsh
  expect_text err "'tcsh' given, expected one of bash, zsh, fish"
}

# `fish_offers WORD... -- EXPECTED...`: runs the bash part of the script for fish, and expects it to offer exactly the
# expected words.
fish_offers() {
  local words=()
  while [ "$1" != -- ]; do
    words+=("$1")
    shift
  done
  shift
  expect_equal "$(bash -c "$bash_part" bash "$HEXAD" "${words[@]}" | sort)" "$(printf '%s\n' "$@" | sort)"
}

test_fish_uses_the_completion_of_bash() {
  local bash_part
  expect 0 "$HEXAD" completion fish
  expect_text out "complete -c hexad -f -a '(_hexad_complete)'"
  cp out script.fish
  bash_part=$(sed -n "/bash -c '\$/,/^' bash/p" script.fish | sed '1d;$d')
  mkdir runs train
  fish_offers tr -- train
  fish_offers bench g -- gemm
  fish_offers bench gemm --dtype "" -- f32 bf16 f64
  fish_offers train "" -- tiny.yaml runs/ train/
  fish_offers train tiny.yaml train.st -- train.steps=
  fish_offers train tiny.yaml train.precision=b -- train.precision=bf16
  fish_offers generate run --prompt t -- "" # no words: fish completes file names
  command -v fish >/dev/null || return 0
  export PATH=$(dirname "$HEXAD"):$PATH
  expect_equal "$(fish --no-config -c 'source script.fish; complete -C "hexad validate tiny.yaml --w"')" --world
  expect_equal "$(fish --no-config -c 'source script.fish; complete -C "hexad train r"')" runs/
}

run_tests "$@"
