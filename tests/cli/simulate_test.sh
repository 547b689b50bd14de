#!/usr/bin/env bash
# `hexad simulate --paper` evaluates the closed forms of four papers. It reads YAML with the symbols of a paper and
# prints JSON.
. "$(dirname "$0")/cli.sh"
recipes=$(realpath "$CLI_TESTS/../../recipes/papers")

test_papers_printed_values_are_reproduced() {
  expect 0 "$HEXAD" simulate --paper monta "$recipes/monta-table8.yaml"
  expect_text out '"T_seconds": 0.006909' '"O1_over_baseline": 0.34375' '"O3_over_baseline": 0.21875' '"S": "O3"'
  expect 0 "$HEXAD" simulate --paper mpmoe "$recipes/mpmoe-gpt-xl.yaml"
  expect_text out '"phi": 0.' '"best_with_memory_reuse"'
  expect 0 "$HEXAD" simulate --paper parm "$recipes/parm-table3.yaml"
  expect_text out '"better": "S' '"case": 2'
  expect 0 "$HEXAD" simulate --paper eps "$recipes/eps-deepseek-v2.yaml"
  expect_text out '"N": 5' '"pays": true' '"product": "dense"'
  expect 0 "$HEXAD" simulate --paper eps "$recipes/eps-deepseek-v2.yaml" m=3400
  expect_text out '"tokens_of_an_expert": 127.5' '"product": "grouped"'
}

test_output_is_only_json() {
  local paper
  for paper in monta:monta-table8 mpmoe:mpmoe-gpt-xl parm:parm-table3 eps:eps-deepseek-v2; do
    expect 0 "$HEXAD" simulate --paper "${paper%%:*}" "$recipes/${paper#*:}.yaml"
    expect_equal "$(head -c 1 out)$(tail -c 2 out)" "{}"
    expect_equal "$(wc -c <err)" 0
    expect_plain out
  done
}

test_keys_may_be_overridden() {
  expect 0 "$HEXAD" simulate --paper monta "$recipes/monta-table8.yaml" N=2 r1=0.5
  expect_text out '"N": 2' '"efficiency": 0.5'
  expect 2 "$HEXAD" simulate --paper monta "$recipes/monta-table8.yaml" r1=high
  expect_text err "command line: r1=high: r1 (high) must be a number"
}

test_bad_input_is_named_with_its_lines() {
  cat >bad.yaml <<'Y'
t: 8
e: 1
B1: 25e9
r1: [[8e6, 0.4], [4e6, 0.6]]
B2: 200e9
r2: 0.8
B4: 1e12
Y
  expect 2 "$HEXAD" simulate --paper monta bad.yaml
  expect_text err "bad.yaml:2: e (1) must be at least 2" \
    "bad.yaml:4: r1.1 (a list) must have a larger x than the previous point" \
    "bad.yaml:7: B4 is not a key; did you mean" "bad.yaml: I (none by default) must be given, unless b, s and h are given"
  expect_equal "$(wc -c <out)" 0
  expect 2 "$HEXAD" simulate --paper monta nowhere.yaml
  expect_text err "nowhere.yaml: no such file"
}

test_unknown_paper_is_refused_with_the_legal_ones() {
  expect 2 "$HEXAD" simulate --paper pipemoe tiny.yaml
  expect_text err "--paper: 'pipemoe' given, expected one of monta, mpmoe, parm, eps" "\`hexad simulate --help\`"
  expect 2 "$HEXAD" simulate tiny.yaml
  expect_text err "neither --cluster nor --paper is given"
  expect 2 "$HEXAD" simulate --paper eps
  expect_text err "input is required"
}

test_another_papers_keys_are_refused() {
  expect 2 "$HEXAD" simulate --paper mpmoe "$recipes/monta-table8.yaml"
  expect_text err "monta-table8.yaml:" "is not a key" "M is not set; it must be at least 1"
}

test_help_lists_the_keys_with_units() {
  expect 0 "$HEXAD" simulate --help
  expect_text out "Usage: hexad simulate" "--paper monta: MoNTA" "[bytes/s] bandwidth of the all-to-all" \
    "--paper mpmoe: MPMoE" "alpha.comm_comp" "--paper parm: Parm" "measured_A2A" "--paper eps: EPS-MoE" "pipeline.R.measured"
}

run_tests "$@"
