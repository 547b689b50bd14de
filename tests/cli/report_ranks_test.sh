#!/usr/bin/env bash
# report.html of runs on several ranks.
. "$(dirname "$0")/cli.sh"

prepared() {
  mkdir texts
  seq -f "line %g of a text about the quick brown fox that jumps over the lazy dog" 500 >texts/a.txt
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0.1 --split-bytes 1024
}
train_cut() {
  ranks 2 train tiny.yaml data.synthetic=false data.dataset=data model.vocab=0 model.hidden=64 parallel.tp=2 \
    train.steps=2 'run.prompts=["the quick"]' "$@"
}
# Prints the largest memory for tensors of a rank in any step, as the sum over categories.
peak_bytes() {
  sed -nE 's/.*"memory_peak_bytes":\{([^}]*)\}.*/\1/p' run/metrics.jsonl | tail -n 1 | tr ',' '\n' | grep -v total |
    awk -F: '{ sum += $2 } END { print sum }'
}

test_a_model_cut_over_ranks_is_loaded_whole_for_the_samples() {
  prepared
  expect 0 train_cut
  expect_no_text err "no samples"
  expect_text run/report.html "the quick"
}

test_samples_stay_within_the_memory_limit_of_the_run() {
  local peak
  prepared
  expect 0 train_cut
  peak=$(peak_bytes)
  expect 0 train_cut memory.limit_bytes=$((peak * 11 / 10)) run.dir=limited
  expect_count 1 err "no samples in the report: the whole model takes about"
  expect_text err "of memory.limit_bytes is left; \`hexad generate\` makes them on a machine with enough memory"
  expect_file limited/report.html
  expect 0 "$HEXAD" generate limited --prompt "the quick" --max-tokens 4
}

test_the_report_names_its_program_time_place_and_command() {
  expect 0 ranks 2 train tiny.yaml train.steps=2 'run.prompts=["the fox"]'
  expect_text run/report.html "<th scope=\"row\">Version</th><td>hexad $("$HEXAD" --version) (" \
    "<th scope=\"row\">Written</th><td>$(date -u +%Y-%m-%d) " "<th scope=\"row\">Host of rank 0</th><td>$(hostname)<" \
    "<th scope=\"row\">Command</th><td>$HEXAD train tiny.yaml train.steps=2 'run.prompts=["
}

run_tests "$@"
