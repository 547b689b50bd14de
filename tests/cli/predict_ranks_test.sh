#!/usr/bin/env bash
# `hexad bench predict` writes predictions of every legal schedule before it measures the schedules, and names what
# it assumes.
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

# Under context parallelism, the tp x cp ranks gather scores to apply the capacity. The profile of one rank has no
# links. The profile of two ranks has all links. No profile has products of f64.
test_measurements_that_the_profile_lacks_are_named_once() {
  local keys=(tiny.yaml parallel.cp=2 model.moe.capacity_factor=1 schedule.moe.chunk_by=auto)
  local lacks='c.yaml has no measurements of these links: '
  expect 0 "$HEXAD" profile --quick --seconds 1 --out c.yaml
  expect 0 ranks 2 bench predict "${keys[@]}" schedule.profile=c.yaml --out p.json --rounds 0
  expect_count 1 out "$lacks"
  expect_text out 'all_gather of tp x cp, 2 ranks, within a node'
  expect_count 1 out 'train.precision is f64, but c.yaml has only products of f32 and bf16; '
  expect 0 ranks 2 train "${keys[@]}" schedule.profile=c.yaml
  expect_count 1 run/log/rank-0000.log "schedule.moe: $lacks"
  expect_count 1 run/log/rank-0000.log 'all_gather of tp x cp, 2 ranks, within a node'
  expect_count 1 run/log/rank-0000.log 'schedule.profile: train.precision is f64, but c.yaml has only products of f32 and bf16; '
  expect 0 ranks 2 profile --quick --seconds 1 --out d.yaml
  expect 0 ranks 2 bench predict "${keys[@]}" schedule.profile=d.yaml train.precision=f32 --out p.json --rounds 0
  expect_no_text out 'has no measurements of these links' 'train.precision is f64'
}

test_unpredictable_settings_are_refused() {
  expect 2 "$HEXAD" bench predict tiny.yaml model.moe.experts=0
  expect_text err 'bench predict: the model has no MoE layer'
  expect 2 "$HEXAD" bench predict tiny.yaml --rounds -1
  expect 4 "$HEXAD" bench predict tiny.yaml --out nowhere/p.json
  expect_text err nowhere/p.json
}

run_tests "$@"
