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
# Prints the peak memory of the last step's tensors, in bytes, as the sum over categories. `total` and `held` are not
# categories.
peak_bytes() {
  sed -nE 's/.*"memory_peak_bytes":\{([^}]*)\}.*/\1/p' run/metrics.jsonl | tail -n 1 | tr ',' '\n' | grep -vE '"(total|held)"' |
    awk -F: '{ sum += $2 } END { print sum }'
}

test_model_cut_over_ranks_makes_samples_in_its_layout() {
  prepared
  expect 0 train_cut checkpoint.at_end=false
  expect_no_text err "no samples"
  expect_text run/report.html "the quick"
  expect 0 train_cut parallel.tp=1 parallel.zero=3 checkpoint.at_end=false run.dir=shared
  expect_no_text err "no samples"
  expect_text shared/report.html "the quick"
}

test_model_with_cut_sequences_is_loaded_whole_for_the_samples() {
  prepared
  expect 0 train_cut parallel.tp=1 parallel.cp=2
  expect_no_text err "no samples"
  expect_text run/report.html "the quick"
}

test_samples_stay_within_the_memory_limit_of_the_run() {
  local peak
  prepared
  expect 0 train_cut parallel.tp=1 parallel.cp=2
  peak=$(peak_bytes)
  expect 0 train_cut parallel.tp=1 parallel.cp=2 memory.limit_bytes=$((peak * 11 / 10)) run.dir=limited
  expect_count 1 err "no samples in the report: the whole model takes about"
  expect_text err "of memory.limit_bytes is left; to make samples, run \`hexad generate\` with enough memory"
  expect_file limited/report.html
  expect 0 "$HEXAD" generate limited --prompt "the quick" --max-tokens 4
}

test_report_names_version_time_host_and_command() {
  expect 0 ranks 2 train tiny.yaml train.steps=2 'run.prompts=["the fox"]'
  expect_text run/report.html "<th scope=\"row\">Version</th><td>hexad $("$HEXAD" --version) (" \
    "<th scope=\"row\">Written</th><td>$(date -u +%Y-%m-%d) " "<th scope=\"row\">Host of rank 0</th><td>$(hostname)<" \
    "<th scope=\"row\">Command</th><td>$HEXAD train tiny.yaml train.steps=2 'run.prompts=["
}

h100=$CLI_TESTS/../../recipes/clusters/h100-dgx.yaml
train_experts() { ranks 2 train tiny.yaml train.precision=f32 parallel.ep=2 batch.global=16 "$@"; }
simulate_beside() { "$HEXAD" simulate run/recipe.yaml --cluster "$h100" --beside run "$@"; }

test_predicted_step_is_shown_next_to_the_measured_step() {
  local part row
  expect 0 train_experts profile.steps=3..5
  expect 0 simulate_beside --trace both.json.gz --report both.html
  expect_text out "4 of 4 micro-batches simulated" "Compared with run (median of steps 2 to 6 on 2 ranks)"
  for row in "step time" "own work" "waiting" "  in ep" "  idle" "sent in ep" "sent in dp" "memory peak"; do
    grep -qE "^$row +[^ ]" out || failed "out has no row '$row' with a value: $(cat out)"
  done
  grep -qE "^step time .* [0-9]+\.[0-9]{2}$" out ||
    failed "the row of the step time has no ratio at its end: $(grep '^step time' out)"
  expect_text out "timelines: step "

  gzip -dc both.json.gz >both.json || failed "both.json.gz is not a gzip file"
  expect_text both.json '"name":"predicted rank 0"' '"name":"measured rank 0"' '"name":"measured rank 1"'
  expect_no_text both.json '"name":"rank '
  for part in "layers.0.moe forward" "layers.1.attention backward"; do
    expect_text both.json "{\"name\":\"$part\",\"cat\":\"parts\"" "{\"name\":\"$part\",\"cat\":\"host\""
  done
  # Process 0 is the prediction, and processes 1 and 3 are measured. All three contain communication of the experts.
  for part in 0 1 3; do
    [ -n "$(grep -F '"cat":"ep (intra)"' both.json | grep -F "\"pid\":$part,")" ] || failed "process $part has no row ep (intra)"
  done
  expect_equal "$(grep -cE '^\{"name":"step [0-9]+","cat":"host"' both.json)" 2

  expect_text both.html "<h2>Predicted and measured step</h2>" '<th scope="row">step time</th>' ", predicted rank 0 and measured rank 0</title>" \
    ">measured</text>" ">predicted</text>" "<title>measured ep all_to_all" "<title>predicted ep all_to_all" "<h2>Recipe</h2>"
  expect_no_text run/report.html "<h2>Predicted and measured step</h2>"

  expect 0 simulate_beside --json
  expect_text out '"beside": {' '"name": "in ep"' '"unit": "bytes"' '"ratio": ' '"traced_step": '
}

test_predicted_ranks_on_several_nodes_are_named_with_their_nodes() {
  expect 0 train_experts profile.steps=3..5
  expect 0 "$HEXAD" simulate run/recipe.yaml --cluster "$CLI_TESTS/../../recipes/clusters/gb200-nvl72.yaml" --beside run \
    cluster.machine.ranks_per_node=1 cluster.machine.topology.rails=1 --trace both.json.gz --report both.html
  gzip -dc both.json.gz >both.json || failed "both.json.gz is not a gzip file"
  expect_text both.json '"name":"predicted rank 0 on node 0"' '"name":"measured rank 0"'
  expect_text both.html ", predicted rank 0 on node 0 and measured rank 0</title>" "The rows intra and inter differ"
}

test_run_without_a_trace_has_the_table_only() {
  expect 0 train_experts
  expect 0 simulate_beside --trace one.json.gz --report one.html
  expect_text out "step time" "no measured timeline: run has no trace.json.gz; set profile.steps to record a trace"
  gzip -dc one.json.gz >one.json || failed "one.json.gz is not a gzip file"
  expect_text one.json '"name":"predicted rank 0"'
  expect_no_text one.json '"name":"measured rank '
  expect_text one.html "<h2>Predicted and measured step</h2>" "no measured timeline: run has no trace.json.gz"
  expect_no_text one.html ">predicted</text>"
}

test_prediction_of_another_step_is_refused() {
  expect 0 train_experts
  expect 2 simulate_beside model.layers=4 parallel.ep=1
  expect_text err "model.layers: 2 in the run, 4 in the recipe" "parallel.ep: 2 in the run, 1 in the recipe"
  expect 2 simulate_beside --world 4
  expect_text err "ranks: 2 in the run, 4 in the recipe"
  expect 2 "$HEXAD" simulate run/recipe.yaml --cluster "$h100" --beside nowhere
  expect_text err "nowhere"
  expect 2 "$HEXAD" simulate run/recipe.yaml --cluster "$h100" --report page.html
  expect_text err "--report" "--beside"
  echo "my notes" >page.html
  expect 2 simulate_beside --report page.html
  expect_text err "page.html: exists but is not a report"
}

run_tests "$@"
