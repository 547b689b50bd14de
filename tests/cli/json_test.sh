#!/usr/bin/env bash
# --json writes a command's results for programs, with nothing else on standard output.
. "$(dirname "$0")/cli.sh"

# `expect_json TEXT...`: expects the file `out` to be one JSON object that contains the texts. Parses it if Python is
# installed.
expect_json() {
  [ "$(head -c 1 out)" == "{" ] || failed "the output begins with '$(head -c 1 out)', expected {"
  if command -v python3 >/dev/null; then python3 -m json.tool out >/dev/null || failed "the output is not JSON"; fi
  expect_text out "$@"
}

test_validate_prints_its_findings() {
  expect 0 "$HEXAD" validate tiny.yaml --json
  expect_json '"recipe": "tiny.yaml"' '"valid": true' '"ranks": 1' '"fewest_ranks": true' '"warnings": []' \
    '"parameters": 10448' '"tokens_per_step": 128' '"memory_bytes": {' '"total": ' '"checkpoint": {'
  expect 0 "$HEXAD" validate tiny.yaml --json --world 4 parallel.pp=2 parallel.ep=2 --mesh --svg mesh.svg
  expect_json '"ranks": 4' '"pp": 2' '"memory_bytes_by_stage": [' '"layers_by_stage": [' '"sent_bytes_per_step": {' '"mesh": ['
  expect_file mesh.svg
}

test_validate_prints_the_step_from_which_a_run_continues() {
  expect 0 "$HEXAD" validate tiny.yaml --json
  expect_json '"resumes_from": null'
  expect 0 "$HEXAD" train tiny.yaml
  expect 0 "$HEXAD" validate tiny.yaml train.steps=9 --json
  expect_json '"resumes_from": {' '"checkpoint": "run/checkpoints/step-00000006"' '"step": 6'
  expect 0 "$HEXAD" validate tiny.yaml train.steps=9
  expect_text out "continues from run/checkpoints/step-00000006, after step 6: 3 of 9 steps are left"
  expect 0 "$HEXAD" validate tiny.yaml
  expect_text out "after step 6: no step is left, because train.steps is 6"
  expect 0 "$HEXAD" validate tiny.yaml checkpoint.resume=none
  expect_no_text out "continues from"
}

test_warnings_of_validate_are_in_the_object_and_on_standard_error() {
  sed -i 's/^  lr: 0.01/&\n  warmup: 3/' tiny.yaml
  expect 0 "$HEXAD" validate tiny.yaml --json train.steps=2
  expect_json '"warnings": [' '"optim.warmup (3) is above train.steps (2)'
  expect_text err "optim.warmup (3) is above train.steps (2)"
}

test_problems_have_a_file_a_line_a_key_and_a_message() {
  sed -i 's/^  hidden: 16/  hidden: 15/; s/^  steps: 6/  steps: six/; s/^batch:/bach:/' tiny.yaml
  expect 2 "$HEXAD" validate tiny.yaml --json
  expect_json '"valid": false' '"exit_code": 2' '"file": "tiny.yaml"' '"line": 4' '"key": "model.hidden"' \
    '"key": "train.steps"' '"message": "train.steps (six)' '"key": "bach"'
  expect_text err "tiny.yaml:4: model.hidden (15)"
  expect_equal "$(grep -c '"message"' out)" "$(grep -c '^\(hexad: \)\?tiny.yaml:' err)"
}

test_problems_of_the_command_line_name_the_override() {
  expect 2 "$HEXAD" validate tiny.yaml --json train.steps=six
  expect_json '"file": null' '"line": null' '"override": "train.steps=six"' '"key": "train.steps"'
}

test_problems_without_a_position_are_placed_by_their_key() {
  printf 'memory:\n  limit_bytes: 1\n' >>tiny.yaml
  expect 2 "$HEXAD" validate tiny.yaml --json
  expect_json '"key": "memory.limit_bytes"' "\"line\": $(grep -n limit_bytes tiny.yaml | cut -d: -f1)"
  expect 3 "$HEXAD" validate tiny.yaml --json memory.limit_bytes=0 data.synthetic=false data.dataset=nowhere model.vocab=0
  expect_json '"exit_code": 3' '"key": "data.dataset"' '"override": "data.dataset=nowhere"' "no such folder"
}

test_file_that_is_not_a_recipe_is_reported_as_a_problem() {
  expect 2 "$HEXAD" validate nowhere.yaml --json
  expect_json '"valid": false' '"file": "nowhere.yaml"' '"message": "no such file"'
  printf 'a: [1\n' >broken.yaml
  expect 2 "$HEXAD" validate broken.yaml --json
  expect_json '"file": "broken.yaml"' '"line": ' '"key": null' "not valid YAML"
}

prepared() {
  expect 0 "$HEXAD" prepare --input "$CLI_TESTS" --output data --tokenizer bytes --heldout 0.1 --split-bytes 1024
}

test_eval_prints_loss_and_throughput() {
  prepared
  expect 0 "$HEXAD" train tiny.yaml data.synthetic=false data.dataset=data model.vocab=0
  expect 0 "$HEXAD" eval run --json
  expect_json '"run": "run"' '"step": 6' '"layout": ""' '"heldout_loss": ' '"bits_per_byte": ' '"tokens": ' \
    '"tokens_per_second": '
}

test_report_prints_the_figures_of_runs() {
  expect 0 "$HEXAD" train tiny.yaml run.dir=slow
  expect 0 "$HEXAD" train tiny.yaml run.dir=fast optim.lr=0.03
  expect 0 "$HEXAD" report slow fast --json
  expect_json '"page": "comparison.html"' '"title": "optim.lr: 0.01, 0.03"' '"optim.lr": 0.03' '"efficiency": 1.0' \
    '"step_seconds": {' '"exposed_share_by_class": {'
  expect_file comparison.html
  expect 0 "$HEXAD" report slow --json
  expect_json '"page": "slow/report.html"' '"title": "slow"' '"last_step": 6'
}

test_inspect_prints_the_contents_of_a_dataset() {
  prepared
  expect 0 "$HEXAD" inspect data
  expect_text out "tokenizer bytes, vocabulary 258, digest " "made from $CLI_TESTS: " "train " "heldout " "data/train.hxd, u16" \
    " documents " "train document 0 ("
  expect 0 "$HEXAD" inspect data --json
  expect_json '"dataset": "data"' '"kind": "bytes"' '"vocab_size": 258' '"part": "train"' '"part": "heldout"' '"dtype": "u16"' \
    '"documents": ' '"tokens": ' '"digest": "' '"text": "'
  expect 0 "$HEXAD" inspect data/train.hxd --json
  expect_json '"part": "train.hxd"' '"kind": "bytes"'
  expect 0 "$HEXAD" inspect data --verify
  printf 'X' | dd of=data/heldout.hxd bs=1 seek=100 conv=notrunc status=none
  expect 3 "$HEXAD" inspect data --verify
  expect_text err "data/heldout.hxd"
}

test_inspect_prints_the_state_of_a_run() {
  expect 0 "$HEXAD" train tiny.yaml
  expect 0 "$HEXAD" inspect run
  expect_text out "  state        finished" "  recipe       run/recipe.yaml" "  layout       1 rank: pp 1 x " \
    "  steps done   6 of 6, 768 tokens" "  last loss    " "  checkpoints  3 (steps 2, 4, 6), " "run/checkpoints/step-00000006"
  expect 0 "$HEXAD" inspect run --json
  expect_json '"step": 6' '"run": {' '"state": "finished"' '"steps_done": 6' '"total_steps": 6' '"checkpoints": ['
  expect 0 "$HEXAD" inspect run --json --verify
  expect_json '"good": [' '"state": "finished"'
  HEXAD_FAULT=nan@0,1 expect 5 "$HEXAD" train tiny.yaml run.dir=bad train.max_skipped=1
  expect 0 "$HEXAD" inspect bad
  expect_text out "  state        failed" "The run failed after step 1: " "  steps done   1 of 6" "  checkpoints  none yet"
  expect 0 "$HEXAD" inspect bad --json
  expect_json '"state": "failed"' '"trouble": "The run failed after step 1: '
  expect 2 "$HEXAD" inspect .
  expect_text err "; below it: './bad', './run'"
}

test_inspect_names_runs_below_a_folder_that_is_not_a_run() {
  expect 2 "$HEXAD" inspect nothere
  expect_text err "nothere: no such folder"
  mkdir -p runs/empty
  expect 2 "$HEXAD" inspect runs
  expect_text err "'runs' is not a checkpoint folder, run directory, prepared folder, .hxd or .idx file"
  expect_no_text err "below it"
  expect 0 "$HEXAD" train tiny.yaml run.dir=runs/a
  expect 0 "$HEXAD" train tiny.yaml run.dir=runs/b
  expect 2 "$HEXAD" inspect runs
  expect_text err "; below it: 'runs/a', 'runs/b'"
}

test_inspect_reports_another_tokenizer() {
  prepared
  expect 0 "$HEXAD" prepare --input "$CLI_TESTS" --output other --tokenizer bpe --vocab 300 --heldout 0.1 --split-bytes 1024
  cp other/tokenizer.json data/tokenizer.json
  expect 0 "$HEXAD" inspect data
  expect_text err "data/train.hxd: was encoded with tokenizer "
  expect_text out "no tokenizer: samples are token ids"
}

test_bench_predict_prints_its_table() {
  expect 0 "$HEXAD" bench predict tiny.yaml --json --rounds 1 schedule.moe.chunks=auto
  expect_json '"predictions": "predictions.json"' '"schedules": [' '"predicted_seconds": ' '"measured_seconds": ' \
    '"median_error": ' '"fastest": "'
  expect_text err "1 prediction in predictions.json"
}

run_tests "$@"
