#!/usr/bin/env bash
# tools/gpu/check.sh from end to end, with the emulated device instead of a GPU.
. "$(dirname "$0")/cli.sh"
command -v python3 >/dev/null || exit 77

check=$CLI_TESTS/../../tools/gpu/check.sh
build=$(dirname "$(dirname "$HEXAD")")

# `summary KEY...`: prints the value of summary.json at this path of keys.
summary() {
  python3 -c 'import json, sys
found = json.load(open("result/summary.json"))
for key in sys.argv[1:]: found = found[int(key) if isinstance(found, list) else key]
print(found)' "$@"
}

test_all_stages_pass_or_need_a_card() {
  local stage
  expect 0 "$check" result --device emulated --build "$build" --layouts 1
  for stage in gradients train ways share verify options; do
    expect_equal passed "$(summary stages $stage result)"
    expect_text out "$stage: ok, "
  done
  for stage in parity sanitize bench step peer; do
    expect_equal skipped "$(summary stages $stage result)"
    expect_text out "$stage: skipped: needs a GPU"
  done
  expect_equal 0 "$(summary stages gradients failures)"
  [ "$(summary stages gradients tests)" -gt 50 ] || failed "$(summary stages gradients tests) tests of gradients, expected more than 50"
  expect_equal '[20, 20]' "$(summary stages train runs 0 steps)"
  expect_equal 1 "$(summary stages share runs processes layouts)"
  expect_equal "{'passed': 6, 'failed': 0, 'skipped': 5}" "$(summary counts)"
  expect_equal emulated "$(summary machine device)"
  expect_text result/summary.md "## verify: ok, " "- stages: 6 passed, 0 failed, 5 skipped"
  expect_equal 5 "$(summary stages options runs subjects layouts)"
  expect_equal 2 "$(summary stages options runs fused layouts)"
}

test_planted_fault_fails_its_stage_and_the_check() {
  HEXAD_FAULT=gradient@0,1,layers.1.moe.experts.down.weight expect 1 "$check" result --device emulated --build "$build" \
    --only bench,verify --layouts 3
  expect_equal failed "$(summary stages verify result)"
  expect_equal "{'passed': 0, 'failed': 1, 'skipped': 1}" "$(summary counts)"
  expect_text out "verify: FAILED (1), " " wrong, " "repeat with: hexad verify "
}

test_unknown_options_are_refused() {
  expect 2 "$check" result --only parity,abacus
  expect_text err "tools/gpu/check.sh OUT [--only STAGE,...]" "stages: parity,gradients,"
  expect 2 "$check" result --device abacus
  expect 2 "$check" result --build nowhere
  expect_nothing_at result
}

run_tests "$@"
