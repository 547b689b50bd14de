#!/usr/bin/env bash
# A slow rank is named in the log, in metrics.jsonl and in the report.
. "$(dirname "$0")/cli.sh"

test_slow_rank_is_named() {
  HEXAD_FAULT=slow@1,1,100 expect 0 ranks 2 train tiny.yaml parallel.ep=2 optim.schedule=constant train.steps=20
  expect_count 1 err "is slow: "
  expect_text err "rank 1 (host $(hostname), pid " "x the median of comparable ranks (" "own work of a rank in a step"
  # In every step, rank 1 works longer than its planted delay of 100 ms, and rank 0 waits for rank 1.
  sed -nE 's/.*"ranks":.*"slowest":\[\{"rank":([0-9]+),"own_seconds":([0-9.e-]+),.*"rank":0,.*"waited_seconds":([0-9.e-]+)\}.*/\1 \2 \3/p' \
    run/metrics.jsonl | awk '$1 != 1 || $2 < 0.1 || $3 < 0.09 { bad = 1; print } END { exit bad || NR != 20 }' \
    >difference || failed "steps do not name rank 1 as the slow rank: $(head -3 difference)"
  expect_text run/report.html "<h2>Slowest ranks</h2>" "<tr><td>1</td><td>20 of 20 steps</td>"
  expect_text run/log/rank-0000.log "is slow: "
}

test_run_on_one_rank_compares_no_ranks() {
  expect 0 "$HEXAD" train tiny.yaml
  expect_no_text run/metrics.jsonl '"ranks":'
  expect_no_text run/report.html "Slowest ranks"
}

run_tests "$@"
