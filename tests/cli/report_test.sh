#!/usr/bin/env bash
# Record of a run's start and end, and the reports made from it.
. "$(dirname "$0")/cli.sh"

started_three_times() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=2 optim.schedule=constant
  expect 0 "$HEXAD" train tiny.yaml train.steps=4 optim.schedule=constant optim.lr=0.02
  expect_text err "info: changed since step 2: optim.lr: 0.01 -> 0.02" "info: changed since step 2: train.steps: 2 -> 4"
  expect 0 "$HEXAD" train tiny.yaml train.steps=5 optim.schedule=constant optim.lr=0.02 batch.global=16
}

test_resumed_run_reports_changes_and_keeps_every_recipe() {
  started_three_times
  expect_text run/log/rank-0000.log "changed since step 4: batch.global: 8 -> 16"
  expect_text run/recipe-00000000.yaml "lr: 0.01" "steps: 2"
  expect_text run/recipe-00000002.yaml "lr: 0.02" "steps: 4"
  expect_text run/recipe-00000004.yaml "global: 16" "steps: 5"
  cmp -s run/recipe-00000004.yaml run/recipe.yaml || failed "recipe.yaml is not the recipe of the newest start"
  expect_text run/report.html "<h2>Parts of the run</h2>" "<td>1 – 2</td>" "<td>3 – 4</td>" "<td>5</td>" \
    "optim.lr: 0.01 -&gt; 0.02" "batch.global: 8 -&gt; 16"
}

test_run_resumed_without_changes_reports_none() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=2 optim.schedule=constant
  expect_no_text run/report.html "<h2>Parts of the run</h2>"
  expect 0 "$HEXAD" train tiny.yaml train.steps=2 optim.schedule=constant
  expect_no_text err "changed since"
  expect_text run/history.json '"after_step": 2'
}

test_repeated_steps_replace_their_records() {
  started_three_times
  expect 0 "$HEXAD" train tiny.yaml train.steps=3 optim.schedule=constant checkpoint.resume=2
  expect_nothing_at run/recipe-00000004.yaml
  expect_text run/recipe-00000002.yaml "steps: 3"
  expect_no_text run/report.html "batch.global: 8 -&gt; 16"
}

test_start_without_steps_does_not_change_the_report() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=4 optim.schedule=constant
  expect 0 ranks 2 train tiny.yaml train.steps=3 optim.schedule=constant
  expect_text run/report.html "step 4 of 4" "1 rank: "
  expect_no_text run/report.html "2 ranks: " "none yet" "<h2>Parts of the run</h2>"
  expect_nothing_at run/recipe-00000004.yaml
  expect 0 "$HEXAD" train tiny.yaml run.dir=other
  expect 0 "$HEXAD" report run other
  expect_no_text comparison.html "2 ranks: "
}

test_repeated_evaluation_replaces_the_earlier_one() {
  expect 0 "$HEXAD" prepare --input "$CLI_TESTS" --output data --tokenizer bytes --heldout 0.1 --split-bytes 1024
  local i
  for i in 1 2; do
    expect 0 "$HEXAD" train tiny.yaml data.synthetic=false data.dataset=data model.vocab=0
    expect_count 1 run/metrics.jsonl '"eval_loss":'
  done
}

test_another_layout_is_a_change() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=2 optim.schedule=constant
  expect 0 ranks 2 train tiny.yaml train.steps=4 optim.schedule=constant
  expect_text err "changed since step 2: layout: pp 1 x dp 1" "-> pp 1 x dp 2"
  expect_text run/report.html "2 ranks: pp 1 x dp 2"
}

test_time_and_size_of_a_checkpoint_are_in_log_metrics_and_report() {
  local bytes
  expect 0 "$HEXAD" train tiny.yaml train.steps=4
  expect_count 2 run/metrics.jsonl '"checkpoint_bytes":'
  expect_text run/log/rank-0000.log "info: saved step 2 in " "info: saved step 4 in "
  expect_text run/report.html "<dt>Checkpoint</dt>" "written 2 times"
  # A checkpoint has main weights and two moments of every parameter, in f64.
  bytes=$(sed -n 's/.*"checkpoint_bytes":\([0-9]*\).*/\1/p' run/metrics.jsonl | head -n 1)
  expect_equal "$bytes" $((10448 * 3 * 8))
  expect 0 "$HEXAD" validate tiny.yaml
  expect_text out "checkpoint (estimate)         245 KiB" "like the last saves of run"
}

test_before_the_first_save_the_disk_is_measured() {
  expect 0 "$HEXAD" validate tiny.yaml run.dir=new/run
  expect_text out "checkpoint (estimate)" "writes to $PWD at" "measured now"
  # The speeds are a range. The times are also a range if the printed values of both ends differ.
  grep -qE "^checkpoint \(estimate\) .* about [0-9.]+ m?s( to [0-9.]+ m?s)? \(one process writes to [^ ]+ at [^ ]+ .B/s to [^ ]+ .B/s, and" out ||
    failed "the estimate has no range: $(cat out)"
  expect_nothing_at new
  expect_equal "$(ls -A)" "$(printf 'err\nout\ntiny.yaml')"
}

test_failed_run_has_a_report_with_the_reason() {
  HEXAD_FAULT=nan@0,3 expect 5 "$HEXAD" train tiny.yaml train.max_skipped=1
  expect_text run/report.html "The run failed after step 3: 1 step without a finite loss"
  expect 0 "$HEXAD" train tiny.yaml
  expect_no_text run/report.html "The run failed"
}

test_report_names_the_preemption_of_a_run() {
  local pid
  "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >out 2>err &
  pid=$!
  wait_until has_steps run 3
  kill -TERM "$pid"
  code=0
  wait "$pid" || code=$?
  expect_equal "$code" 75
  expect_text run/report.html "The run was preempted after step"
}

test_report_can_be_made_again_from_the_run_directory() {
  expect 0 "$HEXAD" train tiny.yaml train.steps=2 'run.prompts=["a"]'
  cp run/report.html before.html
  expect 0 "$HEXAD" report run
  expect_equal "$(cat out)" run/report.html
  expect_equal "$(diff before.html run/report.html | grep -c '^<')" "$(diff before.html run/report.html | grep -c '>Written<' | awk '{print $1 / 2}')"
  rm run/report.html
  expect 0 "$HEXAD" report run/
  expect_text run/report.html "<h1>run</h1>"
  expect 0 "$HEXAD" report run --out other.html
  expect_equal "$(cat out)" other.html
  expect_text other.html "<h1>run</h1>"
  expect 2 "$HEXAD" report nowhere
  expect_text err "'nowhere' is not a run directory"
}

test_report_names_the_kill_of_a_run() {
  local pid
  "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >out 2>err &
  pid=$!
  wait_until has_steps run 3
  kill -9 "$pid"
  wait "$pid" 2>/dev/null
  expect_nothing_at run/report.html
  expect 0 "$HEXAD" report run
  expect_text run/report.html "No end is recorded: the run was killed, or was still training when this report was written."
}

test_several_runs_are_drawn_in_one_chart() {
  expect 0 "$HEXAD" train tiny.yaml run.dir=slow
  expect 0 "$HEXAD" train tiny.yaml run.dir=fast optim.lr=0.03
  expect 0 "$HEXAD" report slow fast
  expect_equal "$(cat out)" comparison.html
  expect_text comparison.html "<h1>optim.lr: 0.01, 0.03</h1>" "slow, fast" "Differences from slow" "optim.lr: 0.01 -&gt; 0.03" '"name":"fast"'
  expect 0 "$HEXAD" report slow fast  # a command may replace its own output
  expect_no_text comparison.html "run.dir:"
  expect 2 "$HEXAD" report slow fast --out tiny.yaml
  expect_text err "tiny.yaml: exists but is not a report"
  expect 2 "$HEXAD" report slow fast slow/
  expect_text err "'slow/' is the same run as 'slow', expected different runs to compare"
}

three_runs_in_a_folder() {
  local lr
  for lr in 0.01 0.02 0.03; do
    expect 0 "$HEXAD" train tiny.yaml run.dir="sweep/lr-$lr" optim.lr=$lr
  done
  mkdir -p sweep/notes
}

test_folder_of_runs_is_read_as_its_runs() {
  three_runs_in_a_folder
  expect 0 "$HEXAD" report sweep
  expect_equal "$(cat out)" comparison.html
  expect_text comparison.html "<h1>optim.lr: 0.01, 0.02, 0.03</h1>" '"name":"lr-0.02"' "<th>optim.lr</th>" "<th>Efficiency</th>"
  expect 2 "$HEXAD" report sweep sweep/lr-0.01
  expect_text err "is the same run as"
  expect 2 "$HEXAD" report sweep/notes
  expect_text err "'sweep/notes' is not a run directory: neither this folder nor any folder below has a recipe.yaml"
  mkdir sweep/empty && cp sweep/lr-0.01/recipe.yaml sweep/empty
  expect 0 "$HEXAD" report sweep
  expect_text err "sweep/empty: left out: cannot open sweep/empty/metrics.jsonl"
  : >sweep/empty/metrics.jsonl
  expect 0 "$HEXAD" report sweep
  expect_text err "sweep/empty: left out: the run has trained no step"
  expect 3 "$HEXAD" report sweep/lr-0.01 sweep/empty
}

test_runs_of_a_folder_are_ordered_by_the_numbers_in_their_names() {
  local n
  for n in 10 9 1; do expect 0 "$HEXAD" train tiny.yaml train.steps=2 run.dir="runs/seed$n" train.seed=$n; done
  expect 0 "$HEXAD" report runs --csv runs.csv
  expect_equal "$(cut -d, -f1 runs.csv | tr '\n' ' ')" "run seed1 seed9 seed10 "
}

test_table_of_a_sweep_is_written_as_csv() {
  three_runs_in_a_folder
  expect 0 "$HEXAD" report sweep --csv table.csv
  expect_equal "$(wc -l <table.csv)" 4
  expect_text table.csv "run,folder,optim.lr,ranks,layout,state,last_step,tokens,loss," ",mfu,efficiency," "lr-0.02,sweep/lr-0.02,0.02,1,"
  expect 0 "$HEXAD" report sweep --csv table.csv  # a command may replace its own output
  expect 2 "$HEXAD" report sweep --csv tiny.yaml
  expect_text err "tiny.yaml: exists but is not a table of runs"
}

test_lines_that_are_not_steps_do_not_affect_a_comparison() {
  three_runs_in_a_folder
  sed -i 's/^{"step":6,/{"kind":"step","time":"2026-11-25T12:00:00Z","step":6,/' sweep/lr-0.01/metrics.jsonl
  echo '{"kind":"evaluation","time":"2026-11-25T12:00:00Z","step":6,"comm_bytes":{"ep":1}}' >>sweep/lr-0.01/metrics.jsonl
  expect 0 "$HEXAD" report sweep --csv table.csv
  expect_equal "$(grep -c ',6,768,' table.csv)" 3
}

test_comparison_marks_runs_that_failed_or_were_preempted() {
  local pid
  expect 0 "$HEXAD" train tiny.yaml run.dir=good
  HEXAD_FAULT=nan@0,3 expect 5 "$HEXAD" train tiny.yaml run.dir=bad train.max_skipped=1
  "$HEXAD" train tiny.yaml run.dir=stopped train.steps=1000000 checkpoint.every=0 >out 2>err &
  pid=$!
  wait_until has_steps stopped 3
  kill -TERM "$pid"
  wait "$pid"
  expect 0 "$HEXAD" report good bad stopped --csv table.csv --json
  expect_text out '"state": "finished"' '"state": "failed"' '"state": "preempted"' '"peak_memory_bytes": ' \
    '"trouble": "The run failed after step 3: '
  expect_text comparison.html "<td>finished</td>" "<td>failed</td>" "<td>preempted</td>" "<th>Peak memory</th>" \
    "<b>bad</b>: The run failed after step 3: " "<b>stopped</b>: The run was preempted after step"
  expect_count 1 table.csv ",failed,"
  expect_count 1 table.csv ",preempted,"
}

test_recipes_of_older_programs_are_compared_under_their_new_names() {
  expect 0 "$HEXAD" train tiny.yaml run.dir=before optim.name=sgd
  expect 0 "$HEXAD" train tiny.yaml run.dir=after optim.name=sgd
  sed -i 's/^  name: \(.*sgd\)/  kind: \1/' before/recipe*.yaml
  expect_text before/recipe.yaml "  kind: "
  expect 0 "$HEXAD" report before after
  expect_no_text comparison.html "What differs"
  sed -i 's/^  steps: 6/  steps: six/' after/recipe*.yaml
  expect 0 "$HEXAD" report before after
  expect_text comparison.html "Differences from before" "not compared: after/recipe-00000000.yaml:" "train.steps"
  expect_no_text comparison.html "train.steps: 6 -&gt;"
}

run_tests "$@"
