#!/usr/bin/env bash
# Texts of several kinds, and datasets that were damaged or changed after they were written.
. "$(dirname "$0")/cli.sh"

text_recipe=(data.synthetic=false data.dataset=data model.vocab=0)
train() { "$HEXAD" train tiny.yaml "${text_recipe[@]}" "$@"; }

texts() {
  mkdir -p texts
  local i
  for i in $(seq 20); do
    seq -f "line %g of text $i: the quick brown fox jumps over the lazy dog" $((i * 2)) >texts/$i.txt
  done
}
# `prepare SHARE TOKENIZER...`: prepares the texts and holds out SHARE of them.
prepare() { "$HEXAD" prepare --input texts --output data --heldout "$1" --tokenizer "${@:2}"; }
prepared() {
  texts
  expect 0 prepare 0.1 bytes
}

# `damaged NAME TEXT...`: expects training on the dataset to end with exit code 3 before the first step. The message
# must contain the file's NAME and the texts.
damaged() {
  expect 3 train
  expect_text err "$@"
  expect_no_text out "step 1/"
}

test_truncated_dataset_is_refused() {
  local size cut
  prepared
  cp data/train.hxd whole
  size=$(stat -c %s whole)
  for cut in 0 1 7 16 100 $((size / 2)) $((size - 1)); do
    head -c "$cut" whole >data/train.hxd
    damaged data/train.hxd
  done
}

test_flipped_bit_is_found_at_the_beginning_middle_and_end() {
  local size at byte
  prepared
  cp data/train.hxd whole
  size=$(stat -c %s whole)
  for at in 0 8 12 16 40 $((size / 2)) $((size - 1)); do
    cp whole data/train.hxd
    byte=$(od -An -tu1 -j $at -N1 whole)
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of=data/train.hxd bs=1 seek=$at conv=notrunc status=none
    damaged data/train.hxd
  done
}

test_other_file_is_refused_as_a_dataset() {
  prepared
  cp texts/1.txt data/train.hxd
  damaged data/train.hxd
  rm data/train.hxd
  damaged data/train.hxd
  mkdir data/train.hxd
  damaged data/train.hxd
}

test_damaged_tokenizer_is_refused() {
  prepared
  truncate -s 30 data/tokenizer.json
  damaged data/tokenizer.json
}

test_tokenizer_of_another_dataset_is_refused() {
  prepared
  expect 0 "$HEXAD" prepare --input texts --output other --tokenizer bpe --vocab 300
  cp other/tokenizer.json data
  damaged data/train.hxd "was made with tokenizer"
}

test_vocabulary_below_the_tokenizers_is_refused() {
  prepared
  expect 2 "$HEXAD" train tiny.yaml "${text_recipe[@]}" model.vocab=100
  expect_text err "model.vocab (100) must be at least the vocabulary of data's tokenizer: 258"
}

test_changed_data_are_refused_after_a_checkpoint() {
  prepared
  expect 0 train train.steps=2
  echo "one more line" >>texts/1.txt
  expect 0 prepare 0.1 bytes --force
  expect 3 train
  expect_text err data "changed since" run/checkpoints/step-00000002
  local replaced="data: was replaced after run/checkpoints/step-00000002 was saved: fingerprint "
  expect 3 "$HEXAD" eval run
  expect_text err "$replaced"
  expect 0 "$HEXAD" generate run --prompt line --max-tokens 2
  expect_text err "warning: $replaced"
  expect 0 "$HEXAD" eval run data.dataset=data
  expect_no_text err "was replaced"
}

# If --force were not required, a wrong --output would replace a dataset on which other runs may depend.
test_another_dataset_is_not_replaced_without_force() {
  prepared
  expect 0 train train.steps=2
  (cd data && sha256sum -- *) >sums
  expect 2 prepare 0.2 bytes
  expect_text err "data: contains a different dataset, made 20" "from texts (20 files): " "--heldout 0.1 -> 0.2" "--force"
  echo "one more line" >>texts/1.txt
  expect 2 prepare 0.1 bytes
  expect_text err "Differences: the text."
  (cd data && sha256sum --check --quiet ../sums) || failed "files in data have changed"
  expect 0 train
  sed -i '$d' texts/1.txt
  expect 0 prepare 0.1 bytes
  expect_text out "already prepared"
  expect 0 prepare 0.2 bytes --force
  expect 3 train train.steps=8
}

# The order of data of a run cannot change. With `data.shuffle: auto`, the default, a resumed run keeps its earlier
# order.
test_run_keeps_the_order_of_its_data() {
  prepared
  expect 0 train run.dir=whole optim.schedule=constant data.shuffle=documents
  expect 0 train run.dir=run optim.schedule=constant data.shuffle=documents train.steps=4
  expect 2 train optim.schedule=constant data.shuffle=sequences
  expect_text err "cannot continue from run/checkpoints/step-00000004" "data.shuffle: documents -> sequences"
  expect 0 train optim.schedule=constant
  expect_text err "resumed from run/checkpoints/step-00000004 (step 4), data.shuffle: documents"
  expect_same_weights run whole 6
  expect_text run/recipe.yaml "shuffle: documents"
  expect 0 train run.dir=other optim.schedule=constant
  expect_text other/recipe.yaml "shuffle: sequences"
  cmp -s other/checkpoints/step-00000006/*.safetensors run/checkpoints/step-00000006/*.safetensors
  [ $? -eq 1 ] || failed "both orders of data give the same weights, or a file is missing"
}

test_changed_packing_is_reported() {
  prepared
  expect 0 train optim.schedule=constant train.steps=2
  expect 0 train optim.schedule=constant data.packing=joined
  expect_text err "warning: data.packing: isolated -> joined since run/checkpoints/step-00000002"
  cp -r data elsewhere
  expect 0 train optim.schedule=constant data.packing=joined data.dataset=elsewhere data.check=structure train.steps=8
  expect_no_text err "warning: data."
}

test_another_or_missing_dataset_is_named() {
  prepared
  expect 0 train train.steps=2
  expect 0 "$HEXAD" prepare --input texts --output other --heldout 0.2 --tokenizer bytes
  expect 3 train data.dataset=other
  expect_text err "data.dataset: data -> other: has changed since run/checkpoints/step-00000002 was saved" \
    "use another run.dir, or set train.init_from to start from these weights"
  mkdir elsewhere
  cd elsewhere || failed "the folder elsewhere is missing"
  expect 3 "$HEXAD" eval ../run
  expect_text err "data.dataset (data): no such folder in the working directory, $PWD"
}

test_dataset_without_a_held_out_part_causes_a_warning() {
  local text="warning: data/heldout.hxd: no such file, so this dataset has no held-out loss; to make the file, run \`hexad prepare --heldout 0.02\`"
  texts
  expect 0 prepare 0 bytes
  expect 0 train train.steps=2 train.eval_every=1
  expect_count 1 err "$text"
  expect_no_text err "nats per token"
  expect 0 prepare 0.1 bytes --force
  expect 0 train run.dir=other train.steps=2
  expect_no_text err "heldout.hxd"
  expect_text out "nats per token"
}

test_bytes_that_are_not_text_are_refused_with_file_and_byte() {
  texts
  printf 'caf\xc3\xa9 \0' >texts/zero.txt
  expect 3 prepare 0.1 bytes
  expect_text err "texts/zero.txt: is not text: byte 6 is 0x00; leave the file out, or pass --binary"
  printf 'caf\xe9 au lait' >texts/zero.txt
  expect 3 prepare 0.1 bytes
  expect_text err "texts/zero.txt: is not text: byte 3 is 0xe9, which is not UTF-8"
  expect_nothing_at data/train.hxd
  expect 0 prepare 0.1 bytes --binary
}

# `expect_bytes_in_dataset FILE`: expects the ids of the dataset to be the bytes of FILE, and one id for the end of the
# document. FILE is the only document.
expect_bytes_in_dataset() {
  local tokens
  # The header of a dataset has 96 bytes, with the number of tokens from byte 16 on. Ids of two bytes follow.
  tokens=$(od -An -tu8 -j16 -N8 data/train.hxd)
  expect_equal $((tokens)) $(($(stat -c %s "$1") + 1))
  od -An -v -tu2 -w2 -j96 -N$((2 * tokens)) data/train.hxd | tr -d ' ' >ids
  od -An -v -tu1 -w1 "$1" | tr -d ' ' >bytes
  head -n -1 ids | cmp -s - bytes || failed "ids and bytes differ: $(diff ids bytes | head -n 5)"
  [ "$(tail -n 1 ids)" -ge 256 ] || failed "the last id is $(tail -n 1 ids), expected that of the end of the document"
}

test_bytes_of_texts_are_the_ids_of_the_dataset() {
  local i
  mkdir texts
  printf 'caf\xc3\xa9\r\n\n  two\t \n\n' >texts/a.txt
  expect 0 prepare 0 bytes
  expect_bytes_in_dataset texts/a.txt
  for i in $(seq 0 255); do printf '%b' "\\x$(printf %x "$i")"; done >texts/a.txt
  expect 0 prepare 0 bytes --binary --force
  expect_bytes_in_dataset texts/a.txt
}

test_jsonl_files_are_read_line_by_line() {
  mkdir texts
  printf '{"id": 1, "text": "one\\ntwo \\u00e9"}\n\n{"text": "three", "body": "four"}\r\n' >texts/a.jsonl
  expect 0 prepare 0 bytes
  expect_text out " 2 documents" " 17 tokens"
  expect_equal "$(grep -c '"--text-key": "text"' data/summary.json)" 1
  expect 0 prepare 0 bytes
  expect_text out "already prepared"
  expect 3 prepare 0 bytes --text-key body
  expect_text err 'texts/a.jsonl:1: has no key "body" (--text-key), expected an object such as {"body": "..."}; keys with strings: text'
  expect 3 prepare 0 bytes --text-key id
  expect_text err 'texts/a.jsonl:1: "id" is a number, expected a string (--text-key); keys with strings: text'
  echo '{"text": "five" "six"}' >>texts/a.jsonl
  expect 3 prepare 0 bytes
  expect_text err "texts/a.jsonl:4: is not JSON: column 21: " \
    '; expected one object in one line, such as {"text": "..."}; correct or remove the object, because no option skips'
  sed -i '$s/.*/"seven"/' texts/a.jsonl
  expect 3 prepare 0 bytes
  expect_text err 'texts/a.jsonl:4: is not a JSON object but "seven"'
}

test_json_without_the_named_key_is_refused() {
  mkdir texts
  echo '[{"content": "alpha one"}, {"content": "beta"}]' >texts/a.json
  expect 3 prepare 0 bytes --text-key contents.text
  expect_text err 'texts/a.json: object 1: has no key "contents.text" (--text-key)' "keys with strings: content"
  expect 0 prepare 0 bytes
  expect_text err "texts/a.json: taken as text, with brackets and quotes" "keys with strings: content"
}

test_vocabulary_too_large_for_the_text_is_reported() {
  texts
  expect 0 prepare 0.1 bpe --vocab 100000
  local reached
  reached=$(sed -nE 's/.*vocabulary ([0-9]+),.*/\1/p' out)
  expect_text out \
    "the vocabulary has $reached ids, fewer than --vocab 100000: no further pair occurs twice in the text"
  expect 0 prepare 0.1 bpe --vocab 300 --force
  expect_no_text out "fewer than --vocab"
}

test_input_without_text_is_refused() {
  mkdir texts
  expect 3 prepare 0 bytes
  expect_text err "texts: contains no file to prepare"
  : >texts/empty.txt
  expect 3 prepare 0 bytes
  expect_text err "expected at least one document"
  expect_nothing_at data/train.hxd
}

test_options_that_would_do_nothing_are_refused() {
  texts
  expect 2 prepare 0.1 bytes --vocab 5000
  expect_text err "--vocab needs --tokenizer bpe"
  expect 2 prepare 0.1 bytes --separator %
  expect_text err "--separator has no meaning with --split file; remove --separator, or use --split separator"
  expect 2 prepare 0.1 bytes --split separator
  expect_text err "--split is separator, but --separator is empty, expected the line between documents"
  expect 2 prepare 0.1 bytes --split-bytes 1
  expect_text err "--split-bytes" "'1' given, expected 0, or at least 16"
  expect 2 prepare 0.1 bytes --input texts/1.txt
  expect_text err "texts/1.txt: is given twice by --input; name each input once"
  expect_nothing_at data
  expect 0 prepare 0.1 bytes --split separator --separator %
}

test_output_is_not_read() {
  texts
  expect 2 "$HEXAD" prepare --input texts --output texts
  expect_text err "texts: is the --output folder, which is not read, and --input has no other files"
}

test_empty_documents_are_omitted() {
  texts
  local files
  files=$(find texts -type f | wc -l)
  : >texts/empty.txt
  printf ' \n' >texts/blank.txt
  expect 0 prepare 0.1 bytes
  expect_text out "data: $files files, " "not taken 2 files without text: texts/blank.txt, texts/empty.txt"
  expect_no_text out "$((files + 2)) .txt"
  expect_equal "$(sed -n '/"without_text"/,/]/p' data/summary.json | grep -c '/empty.txt\|/blank.txt')" 2
  expect 0 train
}

test_one_document_is_printed_in_the_singular() {
  mkdir texts
  echo one >texts/a.txt
  expect 0 prepare 0 bytes
  expect_text out "data: 1 file, " " 1 document "
  expect_no_text out " 1 documents" " 1 files"
  expect 0 "$HEXAD" inspect data
  expect_text out " 1 document "
  echo ' ' >texts/a.txt
  expect 3 prepare 0 bytes --force
  expect_text err "texts: 1 file contains no text (1 empty document); expected at least one document with text"
}

# Trains on two documents of some thousand tokens, in sequences of 16 tokens.
test_documents_may_exceed_the_context() {
  mkdir texts
  seq 2000 >texts/long.txt
  seq 3000 >texts/longer.txt
  expect 0 prepare 0 bytes
  expect 0 train
  expect_text out "step 6/6"
}

test_text_below_one_sequence_trains_or_is_refused() {
  mkdir texts
  echo hi >texts/short.txt
  expect 0 prepare 0 bytes
  run train
  [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || failed "exit code $code, expected 0 or 3"
  [ "$code" -eq 0 ] || expect_text err data
}

test_bytes_that_are_not_text_can_be_trained_on() {
  mkdir texts
  head -c 3000 /dev/urandom >texts/noise.txt
  printf '\xff\xfe\x00\xc3\x28' >texts/bad.txt
  expect 0 prepare 0 bpe --vocab 300 --binary
  expect 0 train
}

run_tests "$@"
