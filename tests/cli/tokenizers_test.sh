#!/usr/bin/env bash
# Tokenizers of other programs, from the text to the model.
. "$(dirname "$0")/cli.sh"

# Writes a tokenizer.json: ids 0 to 255 are the bytes as <0x00> to <0xFF>, followed by `<s>`, `</s>`, `t`, `h`, `e`,
# `th` and `the`.
make_tokenizer() {
  local b vocab=""
  for b in $(seq 0 255); do vocab+="\"$(printf '<0x%02X>' "$b")\": $b, "; done
  mkdir -p "$1"
  cat >"$1/tokenizer.json" <<E
{"added_tokens": [{"id": 256, "content": "<s>", "special": true}, {"id": 257, "content": "</s>", "special": true}],
 "normalizer": null, "pre_tokenizer": null,
 "post_processor": {"type": "TemplateProcessing",
   "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
   "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}},
 "decoder": {"type": "ByteFallback"},
 "model": {"type": "BPE", "byte_fallback": true, "merges": ["t h", "th e"],
   "vocab": {$vocab"<s>": 256, "</s>": 257, "t": 258, "h": 259, "e": 260, "th": 261, "the": 262}}}
E
}
texts() {
  local i
  mkdir -p texts
  for i in $(seq 20); do
    seq -f "line %g of text $i: the quick brown fox jumps over the lazy dog" $((i * 2)) >texts/$i.txt
  done
}

test_model_is_trained_on_a_tokenizer_of_another_program() {
  texts
  make_tokenizer model
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer model --heldout 0.2
  expect_text out "vocabulary 263"
  rm -r model  # the dataset has its own copy
  cat >recipe.yaml <<'E'
include: tiny.yaml
model:
  vocab: 0
  context: 32
train:
  steps: 4
data:
  synthetic: false
  dataset: data
E
  expect 0 "$HEXAD" train recipe.yaml
  expect_text run/recipe.yaml "vocab: 263"
  expect 0 "$HEXAD" eval run
  expect_text out "bits per byte"
  expect 0 "$HEXAD" generate run --prompt "the quick" --max-tokens 5
  expect_text out "the quick"
  expect 0 "$HEXAD" inspect data
  expect_text out "tokenizer huggingface, vocabulary 263"
  mkdir again
  cp data/tokenizer.json again
  expect 0 "$HEXAD" prepare --input texts --output other --tokenizer again --heldout 0.2
  cmp -s data/train.hxd other/train.hxd || failed "the copy of the tokenizer gives different ids"
}

test_continuations_keep_the_space_after_the_prompt() {
  local streamed rules='' name
  texts
  make_tokenizer model
  # Each token begins with a space. Decoding removes the first space, as if encoding had inserted it.
  for name in '<0x' t h e; do
    rules+='{"type": "Replace", "pattern": {"String": "'$name'"}, "content": " '$name'"}, '
  done
  rules+='{"type": "Strip", "content": " ", "start": 1, "stop": 0}'
  sed -i 's/"decoder": .*/"decoder": {"type": "Sequence", "decoders": ['"$rules"']},/' model/tokenizer.json
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer model --heldout 0.2
  expect 0 "$HEXAD" train tiny.yaml model.vocab=0 model.context=64 data.synthetic=false data.dataset=data
  set -- run --max-tokens 3 --temperature 0 --prompt "the quick"
  expect 0 "$HEXAD" generate "$@"
  streamed=$(cat out)
  [[ $streamed == "the quick "* ]] || failed "no space after the prompt: $streamed"
  expect 0 "$HEXAD" generate "$@" --prompt "the quick"
  expect_equal "$(sed -n 1p out)" "$streamed"
  expect_equal "$(sed -n 3p out)" "$streamed"
  expect 0 "$HEXAD" generate "$@" --json
  expect_text out "\"text\": \"${streamed#the quick}\""
}

test_tokenize_prints_ids_and_text() {
  make_tokenizer model
  printf 'the </s>\xff' >text
  expect 0 "$HEXAD" tokenize text --tokenizer model --ids
  expect_equal "$(tr '\n' ' ' <out)" "262 32 60 47 115 62 255 "
  expect 0 "$HEXAD" tokenize text --tokenizer model/tokenizer.json --ids --special
  expect_equal "$(tr '\n' ' ' <out)" "262 32 257 255 "
  expect 0 "$HEXAD" tokenize text --tokenizer model --decode
  cmp -s out text || failed "decoding does not give the original text"
  expect 0 "$HEXAD" tokenize text --tokenizer model
  expect_text out "tokenizer huggingface, vocabulary 263, end of document 257, beginning of document 256" "MB/s"
  expect 2 "$HEXAD" tokenize text --tokenizer model --ids --decode
  expect_text err "--ids and --decode are given; expected at most one of them"
}

test_end_of_documents_can_be_named() {
  texts
  make_tokenizer model
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer model --heldout 0.2 --end-of-document "<s>"
  expect 0 "$HEXAD" tokenize texts/1.txt --tokenizer data
  expect_text out "end of document 256"
  expect 2 "$HEXAD" prepare --input texts --output data --tokenizer model --heldout 0.2
  expect_text err "data: contains a different dataset"
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer model --end-of-document "<x>"
  expect_text err "'<x>' is not a token of model/tokenizer.json"
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer bytes --end-of-document "<s>"
  expect_text err "--end-of-document and --tokenizer-pattern are for tokenizers of other programs"
}

# `make_chat_model FOLDER`: makes a folder with a tokenizer and a chat template.
make_chat_model() {
  make_tokenizer "$1"
  cat >"$1/tokenizer_config.json" <<'E'
{"bos_token": "<s>", "eos_token": {"content": "</s>", "special": true}}
E
  cat >"$1/chat_template.jinja" <<'E'
{{- bos_token }}
{%- for m in messages %}
  {%- if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}
  {{- m.role + ': ' + m.content | trim + eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}
E
}
chats() {
  local line
  mkdir -p chats
  for line in $(seq 60); do
    echo '{"messages": [{"role": "user", "content": " the '"$line"' </s>"}, {"role": "assistant", "content": "'"$line"'"}]}'
  done >chats/a.jsonl
}
prepare_chats() { "$HEXAD" prepare --input chats --output data --heldout 0.2 --chat-form model "$@"; }

test_chat_template_of_a_model_writes_conversations() {
  chats
  make_chat_model model
  expect 0 prepare_chats --tokenizer model
  expect 0 "$HEXAD" inspect data
  expect_text out "with a loss mask" "user: the "
  expect_text data/summary.json '"--chat-form": "model"'
  expect 0 prepare_chats --tokenizer model
  expect_text out "already prepared"
  sed -i 's/: /:/' model/chat_template.jinja
  expect 2 prepare_chats --tokenizer model
  expect_text err "data: contains a different dataset" "Differences: the chat template"
  expect 2 prepare_chats --tokenizer bytes
  expect_text err "--chat-form model needs the folder of a model (--tokenizer FOLDER), but --tokenizer is bytes"
}

test_chat_templates_are_refused_by_line() {
  chats
  make_chat_model model
  echo '{"messages": [{"role": "tool", "content": "1"}, {"role": "assistant", "content": "2"}]}' >>chats/a.jsonl
  expect 3 prepare_chats --tokenizer model
  expect_text err "chats/a.jsonl:61: model/chat_template.jinja:3: the template refuses the conversation: no tools"
  chats
  printf '{{ messages }}\n{%% include "/etc/passwd" %%}' >model/chat_template.jinja
  expect 3 prepare_chats --tokenizer model
  expect_text err 'model/chat_template.jinja:2: the tag {% include %} is not supported; supported tags: if, elif, else, for,'
  printf '{%% for m in messages %%}{{ m.content ~ loop.last }}{%% endfor %%}' >model/chat_template.jinja
  expect 3 prepare_chats --tokenizer model
  expect_text err "chats/a.jsonl:1: turn 2: model/chat_template.jinja: the text with the answer does not begin with the prompt" \
    "choose a named --chat-form" "chats/a.jsonl: 50 more objects have problems"
  rm model/chat_template.jinja
  expect 3 prepare_chats --tokenizer model
  expect_text err "model: has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)"
  expect_nothing_at data/train.hxd
}

test_prompts_of_an_imported_model_follow_its_chat_template() {
  chats
  cp -r "$CLI_TESTS/../golden/hf/mixtral" model
  make_chat_model model
  expect 0 prepare_chats --tokenizer model
  expect 0 "$HEXAD" import model imported
  expect_text out "chat_template.jinja"
  expect 0 "$HEXAD" train imported/recipe.yaml train.init_vocabulary=grow model.vocab=263 data.dataset=data run.dir=run \
    batch.global=4 batch.micro=1 train.steps=2 train.threads=1 train.peak_flops=1000000000 optim.lr=0.01 \
    optim.schedule=constant checkpoint.every=2
  expect 0 "$HEXAD" generate run --chat-form model --prompt "the 3" --max-tokens 3 --json
  expect_text out '"prompt": "the 3"'
  expect_no_text out "assistant: "
  expect_text err "hugging_face/generation_config.json: ignored the eos_token_id 2, which is the text"
  rm -r imported
  expect 2 "$HEXAD" generate run --chat-form model --prompt "the 3"
  expect_text err "this run did not start from an imported model, or the import has been removed" "choose a named form"
}

test_damaged_tokenizers_are_data_errors() {
  texts
  make_tokenizer model
  sed -i 's/"t h"/"t x"/' model/tokenizer.json
  expect 3 "$HEXAD" prepare --input texts --output data --tokenizer model
  expect_text err "model/tokenizer.json: damaged tokenizer: 'model.merges[0]': token 'x' is not in the vocabulary"
  expect_nothing_at data/train.hxd
  echo "YQ== 0" >few.tiktoken
  expect 3 "$HEXAD" tokenize texts/1.txt --tokenizer few.tiktoken
  expect_text err "few.tiktoken: has 1 token, so its pattern is not known; name the pattern with --tokenizer-pattern: gpt2,"
  expect 3 "$HEXAD" tokenize texts/1.txt --tokenizer few.tiktoken --tokenizer-pattern cl100k
  expect_text err "few.tiktoken: damaged tokenizer: no token for the byte 0"
}

run_tests "$@"
