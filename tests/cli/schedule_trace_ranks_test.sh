#!/usr/bin/env bash
# schedule.trace records the MoE passes of one step, with measured and predicted times side by side.
. "$(dirname "$0")/cli.sh"

trained() { ranks 2 train tiny.yaml parallel.ep=2 schedule.moe.chunk_by=tokens schedule.moe.chunks=2 "$@"; }

test_one_step_is_recorded_for_all_ranks() {
  local kind rank
  expect 0 trained schedule.trace=3
  gzip -dc run/trace.json.gz >trace.json || failed "run/trace.json.gz is not a gzip file"
  for rank in 0 1; do expect_text trace.json "\"name\":\"rank $rank\""; done
  expect_text trace.json '"name":"intra (all-to-all)"' '"name":"intra (all-to-all) (predicted)"' '"pass":"layers.1.moe backward"'
  expect_count 1 run/metrics.jsonl '"schedule":{"predicted_seconds":'
  grep -F '"schedule":{' run/metrics.jsonl >recorded
  expect_text recorded '"step":3,'
  expect_text run/report.html "<h2>Schedule</h2>" "layers.0.moe forward, rank 0" "layers.0.moe backward, rank 0"
  for kind in forward backward; do
    expect_count 1 run/log/rank-0000.log "schedule of step 3, 8 passes $kind: predicted"
  done
  expect_count 1 run/log/rank-0000.log \
    "schedule.profile is not set; set it to a file that \`hexad profile\` wrote; unmeasured links: all_to_all of ep, 2 ranks"
}

test_no_pass_is_recorded_by_default() {
  expect 0 trained
  expect_nothing_at run/trace.json.gz
  expect_no_text run/metrics.jsonl '"schedule"'
  expect_no_text run/report.html "<h2>Schedule</h2>"
}

test_recording_changes_no_weight() {
  expect 0 trained schedule.trace=3
  expect 0 trained run.dir=plain
  expect_same_weights run plain 6
}

test_trace_that_cannot_be_written_does_not_end_the_run() {
  mkdir -p run/trace.json.gz
  expect 0 trained schedule.trace=3
  expect_text run/log/rank-0000.log "cannot write the trace run/trace.json.gz"
}

test_impossible_recording_is_refused_before_the_first_step() {
  expect 2 "$HEXAD" train tiny.yaml schedule.trace=7
  expect_text err "schedule.trace" "train.steps is 6"
  expect 2 "$HEXAD" train tiny.yaml schedule.trace=1 schedule.profile=nowhere.yaml
  expect_text err "nowhere.yaml"
  expect_no_text out "step 1/"
}

test_passes_of_a_device_are_recorded() {
  HEXAD_DEVICE=emulated expect 0 trained schedule.trace=3
  gzip -dc run/trace.json.gz >trace.json || failed "run/trace.json.gz is not a gzip file"
  expect_text trace.json '"name":"intra (all-to-all)"' '"name":"intra (all-to-all) (predicted)"' '"pass":"layers.1.moe backward"'
  expect_count 1 run/log/rank-0000.log "schedule of step 3, 8 passes backward: predicted"
}

test_schedules_of_a_device_are_chosen() {
  HEXAD_DEVICE=emulated expect 0 ranks 2 train tiny.yaml parallel.ep=2 train.steps=20 schedule.moe.chunk_by=tokens \
    schedule.moe.chunks=auto schedule.moe.trial_share=0.5
  expect_text run/log/rank-0000.log 'schedule.moe: tried ' 'schedule.moe: chosen ' ', measured '
}

run_tests "$@"
