#!/usr/bin/env bash
# Generated text and answers to questions (`eval --choices`) are the same on one rank and on several ranks.
. "$(dirname "$0")/cli.sh"

# `trained KEY=VALUE...`: prepares texts, and trains a model on them.
trained() {
  local i
  mkdir texts
  for i in $(seq 20); do
    seq -f "line %g of text $i: the quick brown fox jumps over the lazy dog" $((i * 2)) >texts/$i.txt
  done
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0.2
  expect 0 "$HEXAD" train tiny.yaml model.vocab=0 model.context=64 data.synthetic=false data.dataset=data "$@"
}

# Prints the results in the output of --json.
results() { sed -n '/"results"/,$p' out; }
# `pair "A..." "B..."`: runs two ranks under mpirun, each with its own arguments.
pair() { "${launch[@]}" -np 1 "$HEXAD" $1 : -np 1 "$HEXAD" $2; }
# Prints the layout that the command has reported.
layout() { sed -n 's/^hexad: layout on [0-9]* ranks: //p' err; }

test_layouts_give_the_tokens_of_one_rank() {
  local keys temperature alone
  trained
  for temperature in 0 1; do
    set -- run --prompt "the quick" --prompt "line 3" --prompt "" --max-tokens 12 --temperature $temperature --seed 5 --json
    expect 0 "$HEXAD" generate "$@"
    alone=$(results)
    [ -n "$alone" ] || failed 'out has no "results"'
    expect_text out '"prompt": "the quick"' '"tokens": [' '"stop": "max_tokens"'
    for keys in parallel.tp=2 "parallel.tp=2 parallel.sp=true" parallel.ep=2 parallel.pp=2; do
      # shellcheck disable=SC2086
      expect 0 ranks 2 generate "$@" $keys
      expect_equal "$(results)" "$alone"
      expect_text err "(of the command line)"
    done
    expect 0 ranks 4 generate "$@" parallel.tp=2 parallel.pp=2
    expect_equal "$(results)" "$alone"
  done
  # Two ranks generate the text of one rank, and only one of the two ranks prints the text.
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 5
  alone=$(cat out)
  expect 0 ranks 2 generate run --prompt "the quick" --max-tokens 5 parallel.tp=2
  expect_equal "$(cat out)" "$alone"
}

test_layout_is_that_of_the_run_or_one_that_fits_the_ranks() {
  trained
  expect 0 ranks 2 generate run --prompt x --max-tokens 2
  expect_text err "(chosen for these ranks; set parallel.* to choose another)"
  expect 0 ranks 2 eval run
  expect_text err "(the run's layout)"
  rm -rf run
  expect 0 ranks 4 train tiny.yaml model.vocab=0 model.context=64 data.synthetic=false data.dataset=data parallel.tp=2 \
    parallel.cp=2
  expect 0 ranks 2 generate run --prompt x --max-tokens 2
  expect_text err "(chosen for these ranks; set parallel.* to choose another)"
  expect_equal "$(layout | grep -c 'tp 2')" 1
  expect 0 ranks 2 eval run
  expect_text err "chosen for these ranks"
  expect 0 ranks 4 eval run
  expect_text err "(the run's layout)"
  expect 2 ranks 4 generate run --prompt x parallel.cp=2
  expect_text err "parallel.cp (2) must be 1 to generate text"
}

test_layout_of_a_whole_section_is_that_of_the_command_line() {
  trained
  expect 0 ranks 2 eval run "parallel={tp: 2}" --json
  expect_text err "(of the command line)"
  expect_text out '"layout": "' '(of the command line)"'
}

test_ranks_use_the_checkpoint_of_rank_0() {
  local loss
  trained
  cp -r run earlier
  rm -r earlier/checkpoints/step-00000006
  expect 0 ranks 2 eval run --step 4 --json
  expect_text out '"heldout_loss": '
  loss=$(grep heldout_loss out)
  # Rank 1 finds a newer checkpoint, as if the run had saved it after rank 0 looked.
  expect 0 pair "eval earlier --json" "eval run --json"
  expect_equal "$(grep heldout_loss out)" "$loss"
}

test_files_that_differ_between_ranks_are_refused() {
  trained
  echo one >a.txt
  printf 'one\ntwo\n' >b.txt
  expect 3 pair "generate run --prompt-file a.txt" "generate run --prompt-file b.txt"
  expect_text err "'a.txt' differs between rank 0 and rank 1; expected the same contents on all ranks"
  echo '{"context": "a", "choices": ["b", "c"], "gold": 0}' >a.jsonl
  echo '{"context": "a", "choices": ["b", "d"], "gold": 0}' >b.jsonl
  expect 3 pair "eval run --choices a.jsonl" "eval run --choices b.jsonl"
  expect_text err "'a.jsonl' differs between rank 0 and rank 1"
  expect 3 pair "generate run --prompt-file a.txt" "generate run --prompt-file gone.txt"
  expect_text err "gone.txt"
}

test_prompts_of_a_file_are_continued_in_order() {
  local first
  trained
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 4
  first=$(cat out)
  printf 'the quick\n\nline 3\n' >prompts.txt
  expect 0 "$HEXAD" generate run --prompt-file prompts.txt --max-tokens 4
  expect_equal "$(head -n "$(wc -l <<<"$first")" out)" "$first"
  expect_count 1 out "line 3"
  printf '{"prompt": "the quick"}\n' >prompts.jsonl
  expect 0 "$HEXAD" generate run --prompt-file prompts.jsonl --max-tokens 4
  expect_equal "$(cat out)" "$first"
  printf '{"prompt": "x"}\n{"text": "y"}\n' >prompts.jsonl
  expect 3 "$HEXAD" generate run --prompt-file prompts.jsonl
  expect_text err 'prompts.jsonl:2: has no key "prompt", expected an object with a string under "prompt"'
  printf 'x\n%s\n' "$(seq -s ' ' 100)" >prompts.txt
  expect 3 "$HEXAD" generate run --prompt-file prompts.txt
  expect_text err "prompts.txt:2: the prompt has " " tokens; expected at most 63, because the model's context"
  : >prompts.txt
  expect 3 "$HEXAD" generate run --prompt-file prompts.txt
  expect_text err "has no prompt"
}

test_answers_to_chats_omit_the_conversation() {
  trained
  expect 0 "$HEXAD" generate run --chat-form plain --system "short" --prompt "the quick" --max-tokens 9 --temperature 1
  expect_no_text out "the quick" "user:" "assistant:"
  expect 0 "$HEXAD" generate run --chat-form plain --prompt "the quick" --max-tokens 9 --json
  expect_text out '"prompt": "the quick"'
  expect 2 "$HEXAD" generate run --prompt x --system y
  expect_text err "--system (y) needs --chat-form"
  expect 2 "$HEXAD" generate run --chat-form gemma --system y --prompt x
  expect_text err "--chat-form gemma has user, assistant"
  expect 2 "$HEXAD" generate run --chat-form plain --prompt "$(seq -s ' ' 100)"
  expect_text err "expected at most 63"
}

# Prints the text of the only result of --json, with `\n` for the end of a line.
text_of_result() { sed -nE 's/^ *"text": "(.*)",?$/\1/p' out; }

test_an_answer_ends_with_the_turn() {
  local text i
  mkdir texts
  for i in $(seq 200); do printf 'user: \nassistant: \n'; done >texts/a.txt
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0
  expect 0 "$HEXAD" train tiny.yaml model.vocab=0 model.context=64 data.synthetic=false data.dataset=data train.steps=100 \
    checkpoint.every=0 optim.schedule=constant
  # The prompt has the same ids as the chat below. In the chat form `plain`, the end of a line ends a turn. Without a
  # chat form, the model continues after the end of a line.
  expect 0 "$HEXAD" generate run --prompt $'user: user\nassistant: ' --max-tokens 30 --temperature 0 --json
  expect_text out '"stop": "max_tokens"'
  text=$(text_of_result)
  [[ $text == *'\n'* ]] || failed "the model has not learned to end a line: $text"
  expect 0 "$HEXAD" generate run --chat-form plain --prompt user --max-tokens 30 --temperature 0 --json
  expect_text out '"stop": "end_of_turn"'
  expect_equal "$(text_of_result)" "${text%%'\n'*}"
}

test_questions_have_the_same_answers_on_one_rank_and_on_layouts_of_two() {
  local alone keys
  trained
  cat >questions.jsonl <<'Q'
{"context": "the quick brown", "choices": ["fox", "zzz", "dog jumps"], "gold": 0}
{"query": "line 3 of", "choices": ["text", "0123456789"], "gold": 0}
{"context": "", "choices": ["line", "q"], "gold": 1, "delimiter": ""}
Q
  expect 0 "$HEXAD" eval run --choices questions.jsonl --items items.jsonl
  expect_text out "step 6: acc " ", acc_norm " ", acc_bytes " "(3 items of questions.jsonl)" "forward only:"
  expect_equal "$(wc -l <items.jsonl)" 3
  expect_text items.jsonl '"line":2,"gold":0,"chosen":' '"log_likelihoods":['
  alone=$(sed -n 1p out)
  for keys in parallel.tp=2 parallel.ep=2 parallel.pp=2 parallel.cp=2; do
    expect 0 ranks 2 eval run --choices questions.jsonl $keys
    expect_equal "$(sed -n 1p out)" "$alone"
  done
  expect 0 "$HEXAD" eval run --choices questions.jsonl --json
  expect_text out '"items": 3' '"acc": ' '"acc_norm": ' '"acc_bytes": '
}

test_dataset_with_a_larger_vocabulary_than_the_models_is_refused() {
  local refusal="model.vocab (258) must be at least the vocabulary of wide's tokenizer: 300"
  trained
  expect 0 "$HEXAD" prepare --input texts --output wide --vocab 300 --heldout 0.2
  expect 2 "$HEXAD" generate run --prompt "the quick" data.dataset=wide
  expect_text err "$refusal" "name a dataset whose tokenizer was used to train 'run'"
  printf '{"context": "a", "choices": ["b", "c"], "gold": 0}\n' >q.jsonl
  expect 2 "$HEXAD" eval run --choices q.jsonl data.dataset=wide
  expect_text err "$refusal"
  expect 2 "$HEXAD" eval run data.dataset=wide
  expect_text err "$refusal"
}

test_mistakes_in_questions_name_file_and_line() {
  trained
  printf '{"context": "a", "choices": ["b", "c"], "gold": 0}\n{"context": "a", "choices": ["b", "c"], "gold": 5}\n' >q.jsonl
  expect 3 "$HEXAD" eval run --choices q.jsonl
  expect_text err 'q.jsonl:2: "gold" is 5, expected a whole number from 0 to 1; nearest: 1'
  expect 3 ranks 2 eval run --choices q.jsonl
  expect_count 1 err 'q.jsonl:2: "gold" is 5'
  printf '{"context": "a", "choices": [], "gold": 0}\n' >q.jsonl
  expect 3 "$HEXAD" eval run --choices q.jsonl
  expect_text err 'q.jsonl:1: "choices" is empty'
  expect 3 "$HEXAD" eval run --choices gone.jsonl
  expect_text err "gone.jsonl"
  expect 2 "$HEXAD" eval run --items items.jsonl
  expect_text err "--choices"
  printf '{"context": "a", "choices": ["b", "c"], "gold": 0}\n' >q.jsonl
  cp q.jsonl questions.jsonl
  expect 2 "$HEXAD" eval run --choices q.jsonl --items ./q.jsonl
  expect_text err "--items (./q.jsonl) would replace the file of questions (--choices); name another file"
  cmp questions.jsonl q.jsonl || failed "--items replaced the file of questions"
  expect 2 "$HEXAD" eval run --choices q.jsonl --items none/items.jsonl
  expect_text err "--items (none/items.jsonl) cannot be created: none: no such folder"
  expect 2 "$HEXAD" eval run --choices q.jsonl --items run
  expect_text err "--items (run) is a folder; name a file"
  expect 2 "$HEXAD" eval run --choices q.jsonl --sequences 3
  expect_text err "--sequences selects held-out text"
}

run_tests "$@"
