#!/usr/bin/env bash
# The quickstart's commands on a tiny model: from text to a model that generates text.
. "$(dirname "$0")/cli.sh"

prepared_and_trained() {
  local i
  mkdir texts
  for i in $(seq 20); do
    seq -f "line %g of text $i: the quick brown fox jumps over the lazy dog" $((i * 2)) >texts/$i.txt
  done
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bpe --vocab 300 --heldout 0.2
  expect_text out "vocabulary 300" "training" "held-out"
  cat >recipe.yaml <<'E'
include: tiny.yaml
model:
  vocab: 0
  context: 32
train:
  precision: f32
  steps: 20
  eval_every: 10
data:
  synthetic: false
  dataset: data
run:
  prompts: ["the quick"]
E
  expect 0 "$HEXAD" train recipe.yaml
}

test_commands_of_the_quickstart_work() {
  local heldout
  prepared_and_trained
  expect_text out "step 10: held-out loss" "step 20: held-out loss"
  expect_file run/report.html
  expect_file run/recipe.yaml
  expect_text run/recipe.yaml "vocab: 300"
  heldout=$(sed -n 's/^step 20: held-out loss \([0-9.]*\) .*/\1/p' out)

  expect 0 "$HEXAD" eval run
  expect_text out "step 20: held-out loss $heldout nats per token" "bits per byte" "forward only:"
  expect 0 "$HEXAD" eval run --step 20 --sequences 2
  expect 3 "$HEXAD" eval run --step 5
  expect_text err "no checkpoint of step 5, expected "

  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 10 --seed 3
  expect_text out "the quick"
  cp out first
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 10 --seed 3
  cmp -s out first || failed "the same seed gave a different text, expected the same text"
  expect 0 "$HEXAD" generate run --prompt "" --max-tokens 3

  expect 0 "$HEXAD" inspect run
  expect_text out "run/checkpoints/step-00000020" "step 20," "embedding.weight"
  expect 0 "$HEXAD" inspect run --json --verify
  expect_text out '"step": 20'
}

test_prompt_beyond_the_context_is_cut_with_a_warning() {
  prepared_and_trained
  expect 0 "$HEXAD" generate run --prompt "$(seq 500)" --max-tokens 1 --temperature 0
  expect_text err "warning: the prompt has " "context (model.context: 32) takes 31: the first " \
    " bytes of text) are cut off"
  # The generated text continues the end of the prompt.
  tail -n 1 out >last
  expect 0 "$HEXAD" generate run --prompt "0 0 0$(seq 500)" --max-tokens 1 --temperature 0
  expect_equal "$(tail -n 1 out)" "$(cat last)"
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 1
  expect_no_text err "warning"
  expect 0 "$HEXAD" generate run --prompt "the quick"
  expect_text err "context (model.context: 32) is full after " " of 200 tokens"
  # Prompts of the report are also cut to fit the context.
  expect 0 "$HEXAD" train recipe.yaml run.dir=long "run.prompts=[\"$(seq -s ' ' 500)\"]"
  expect_text err "sample '1 2 3 " "the prompt has " " bytes of text) are cut off"
}

test_invalid_utf8_is_printed_as_the_replacement_character() {
  mkdir texts
  head -c 20000 /dev/urandom >texts/noise
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --binary --split-bytes 1024 --heldout 0.2
  expect 0 "$HEXAD" train tiny.yaml model.vocab=0 model.context=256 train.steps=1 data.synthetic=false data.dataset=data \
    run.heldout_prompts=2 'run.prompts=["x"]'
  expect 0 "$HEXAD" generate run --prompt "x" --temperature 1
  iconv -f utf-8 -t utf-8 out >/dev/null || failed "the output is not UTF-8"
  expect_text out $'\xef\xbf\xbd'
  expect 0 "$HEXAD" generate run --prompt $'caf\xc3' --max-tokens 1
  iconv -f utf-8 -t utf-8 out >/dev/null || failed "the output is not UTF-8"
  for file in run/report.html run/history.json run/metrics.jsonl; do
    iconv -f utf-8 -t utf-8 $file >/dev/null || failed "$file is not UTF-8"
  done
  expect_text run/history.json $'\xef\xbf\xbd'
}

test_report_and_json_are_utf8_for_a_non_utf8_folder() {
  local dir=$'r\xffn'
  expect 0 "$HEXAD" train tiny.yaml train.steps=1
  mv run "$dir"
  expect 0 "$HEXAD" report "$dir"
  iconv -f utf-8 -t utf-8 "$dir/report.html" >/dev/null || failed "report.html is not UTF-8"
  expect 0 "$HEXAD" inspect "$dir" --json
  iconv -f utf-8 -t utf-8 out >/dev/null || failed "the JSON is not UTF-8"
  printf '{"text": "\xff"}\n' >a.jsonl
  expect 3 "$HEXAD" prepare --input a.jsonl --output data
  iconv -f utf-8 -t utf-8 err >/dev/null || failed "the message is not UTF-8"
}

test_checkpoints_folder_is_read_as_its_run() {
  local heldout checkpoint=run/checkpoints/step-00000020 text
  prepared_and_trained
  heldout=$(sed -n 's/^step 20: held-out loss \([0-9.]*\) .*/\1/p' out)
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 5
  text=$(cat out)
  expect 0 "$HEXAD" eval $checkpoint
  expect_text out "step 20: held-out loss $heldout nats per token"
  expect 0 "$HEXAD" eval $checkpoint/ --step 20 batch.micro=1
  expect_text out "step 20: held-out loss $heldout"
  expect 0 "$HEXAD" generate $checkpoint --prompt "the quick" --max-tokens 5
  expect_equal "$(cat out)" "$text"
  expect 2 "$HEXAD" eval $checkpoint --step 10
  expect_text err "'$checkpoint' is the checkpoint of step 20, not of step 10; name its run directory to choose a step"
  # A checkpoint may be outside of its run directory, and a run directory may lack recipe.yaml.
  cp -r $checkpoint elsewhere
  expect 0 "$HEXAD" eval elsewhere
  expect_text out "step 20: held-out loss $heldout"
  rm run/recipe.yaml
  expect 0 "$HEXAD" eval run
  expect_text out "step 20: held-out loss $heldout"
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 5 --step 20
  expect_equal "$(cat out)" "$text"
  expect 2 "$HEXAD" eval run model.hiden=3
  expect_text err "model.hiden"
  expect 2 "$HEXAD" eval texts
  expect_text err "'texts' is neither a run directory (no recipe.yaml, no checkpoints) nor a checkpoint (no manifest.json)"
  expect_no_text err "below it"
  mkdir all
  mv run elsewhere all/
  expect 2 "$HEXAD" generate all --prompt "the quick"
  expect_text err "nor a checkpoint (no manifest.json); below it: 'all/elsewhere', 'all/run'"
}

test_prompts_are_beginnings_of_held_out_texts() {
  prepared_and_trained
  expect 0 "$HEXAD" train recipe.yaml run.dir=own 'run.prompts=[]' run.heldout_prompts=2
  expect_count 2 own/history.json '"prompt": "line '
  expect_no_text own/history.json "the quick\","
  expect 0 "$HEXAD" train recipe.yaml run.dir=none 'run.prompts=[]'
  expect_count 0 none/history.json '"prompt":'
  grep -qE '^ *prompts:' "$CLI_TESTS"/../../recipes/*.yaml
  [ $? -eq 1 ] || failed "a shipped recipe has prompts, which belong to a corpus, or no recipe can be read"
}

test_complete_run_reports_that_it_is_complete() {
  prepared_and_trained
  expect 0 "$HEXAD" train recipe.yaml
  expect_text out "no step was run, because the run has already done 20 of 20 steps"
  expect 0 "$HEXAD" train recipe.yaml train.steps=25
  expect_text out "step 25/25"
}

test_prepare_skips_a_finished_dataset() {
  prepared_and_trained
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bpe --vocab 300 --heldout 0.2
  expect_text out "already prepared"
}

test_synthetic_runs_and_encoders_do_not_generate() {
  expect 0 "$HEXAD" train tiny.yaml
  expect 2 "$HEXAD" generate run --prompt x
  expect_text err "synthetic"
  expect 0 "$HEXAD" train tiny.yaml model.kind=encoder run.dir=encoder
  expect 2 "$HEXAD" generate encoder --prompt x
  expect_text err "'encoder' is a run of an encoder, which does not generate text; expected model.kind: decoder"
  expect_no_text err "expert_choice"
  expect 0 "$HEXAD" train tiny.yaml model.kind=encoder model.moe.router=expert_choice model.moe.capacity_factor=1 \
    model.moe.aux_loss.coefficient=0 run.dir=choosing
  expect 2 "$HEXAD" generate choosing --prompt x
  expect_text err "expected model.kind: decoder and a router other than expert_choice"
  expect 2 "$HEXAD" eval run
  expect_text err "held-out"
}

run_tests "$@"
