#!/usr/bin/env bash
# `hexad bench predict` writes predictions of every legal schedule before it measures the schedules.
. "$(dirname "$0")/cli.sh"

predict() { ranks 2 bench predict tiny.yaml parallel.ep=2 schedule.moe.chunk_by=auto "$@"; }

test_every_legal_schedule_is_predicted_and_measured() {
  expect 0 predict --out p.json --rounds 2
  # The candidates have no chunks; 2, 4, 8 or 16 chunks of tokens; 2 chunks of nodes; or 2 chunks of experts.
  expect_text out '7 predictions in p.json, XXH3 ' 'error: median ' 'fastest: ' '; predicted fastest: '
  expect_count 7 p.json '"duplicates '
  expect_text p.json '"ranks": 2' 'chunk_by tokens, chunks 2'
  expect_equal "$(grep -c '^duplicates .*%$' out)" 7
  expect_nothing_at run
}

test_repeated_predictions_are_identical() {
  expect 0 predict --out p.json --rounds 1
  expect 0 predict --out q.json --rounds 1
  cmp p.json q.json || failed "p.json and q.json differ"
}

test_zero_rounds_measure_nothing() {
  expect 0 predict --out p.json --rounds 2
  expect 0 predict --out q.json --rounds 0
  cmp p.json q.json || failed "p.json and q.json differ"
  expect_text out 'predicted fastest: '
  expect_no_text out 'measured ms'
}

test_unpredictable_settings_are_refused() {
  expect 2 "$HEXAD" bench predict tiny.yaml model.moe.experts=0
  expect_text err 'bench predict: the model has no MoE layer'
  expect 2 "$HEXAD" bench predict tiny.yaml --rounds -1
  expect 4 "$HEXAD" bench predict tiny.yaml --out nowhere/p.json
  expect_text err nowhere/p.json
}

run_tests "$@"
