#!/usr/bin/env bash
# Formats of inputs: JSON lines, compressed files, conversations, indexes of Megatron-LM.
. "$(dirname "$0")/texts.sh"

test_json_lines_are_read_under_several_file_extensions() {
  local name
  mkdir texts
  for name in a.ndjson a.JSONL a.json; do
    rm -rf texts/* data
    printf '{"text": "one"}\n{"text": "two"}\n' >texts/$name
    expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0
    expect_text out " 2 documents" " 8 tokens" "(JSON lines)"
  done
}

test_compressed_inputs_give_the_same_dataset() {
  mkdir texts packed
  seq -f '{"text": "line %g"}' 20000 >texts/a.jsonl
  seq -f "a text of %g words" 1000 >texts/b.txt
  expect 0 prepare --split-bytes 64
  gzip -c texts/a.jsonl >packed/a.jsonl.gz
  gzip -c texts/b.txt >packed/b.txt.gz
  expect 0 "$HEXAD" prepare --input packed --output other --tokenizer bytes --heldout 0.1 --split-bytes 64
  expect_text out "other: 2 files" "(JSON lines)" "packed/b.txt.gz"
  cmp -s data/train.hxd other/train.hxd || failed "compression changed the dataset"
  cmp -s data/heldout.hxd other/heldout.hxd || failed "compression changed the held-out part"

  head -c 2000 packed/a.jsonl.gz >packed/cut.jsonl.gz
  expect 3 "$HEXAD" prepare --input packed --output third --tokenizer bytes
  expect_text err "packed/cut.jsonl.gz: truncated gzip stream: the file ends at byte 2000 inside the compressed data"
  printf 'words' >packed/words.txt.zst
  expect 3 "$HEXAD" prepare --input packed --output third --tokenizer bytes
  expect_text err "packed/words.txt.zst: damaged zstd stream after byte "
  expect_nothing_at third
}

test_files_of_the_zstd_program_are_read() {
  command -v zstd >/dev/null || return 0
  mkdir texts
  seq -f '{"text": "line %g"}' 20000 >texts/a.ndjson
  expect 0 prepare
  rm -rf packed && mkdir packed
  zstd -q texts/a.ndjson -o packed/a.ndjson.zst
  expect 0 "$HEXAD" prepare --input packed --output other --tokenizer bytes --heldout 0.1
  cmp -s data/train.hxd other/train.hxd || failed "compression changed the dataset"
}

test_text_under_nested_keys_is_read() {
  mkdir texts
  printf '{"meta": {"body": "one"}}\n{"meta": {"body": "two"}}\n' >texts/a.jsonl
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0 --text-key meta.body
  expect_text out " 2 documents" " 8 tokens"
  echo '{"meta": {"title": "three"}}' >>texts/a.jsonl
  expect 3 "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0 --text-key meta.body
  expect_text err 'texts/a.jsonl:3: has no key "meta.body" (--text-key)'
}

test_only_the_answers_of_conversations_are_learned() {
  local line
  mkdir texts
  for line in $(seq 60); do
    echo '{"messages": [{"role": "user", "content": "What is '"$line"' plus 0?"}, {"role": "assistant", "content": "'"$line"'"}]}'
  done >texts/chat.jsonl
  expect 3 "$HEXAD" prepare --input texts --output data --tokenizer bytes
  expect_text err 'texts/chat.jsonl:1: has no key "text"' "for this conversation, pass --chat-form NAME"
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --chat-form chatml --heldout 0.2
  expect_text err "too little for a meaningful held-out loss: give more conversations or a larger --heldout (0.2 now)"
  expect_no_text err "--split-bytes"
  expect 0 "$HEXAD" inspect data
  expect_text out "with a loss mask" '<|im_start|>user\nWhat is '
  expect 0 "$HEXAD" train tiny.yaml data.synthetic=false data.dataset=data model.vocab=0 model.context=64 train.steps=2
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatlm
  expect_text err "chatlm" "chatml"
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatml --text-key body
  expect_text err "--text-key body names one text, but --chat-form chatml takes whole conversations"
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatml --split-bytes 100
  expect_text err "--split-bytes divides texts, but each conversation (--chat-form) is one document: give only one of them"
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatml --split file
  expect_text err "--split divides texts"
  head -n 1 texts/chat.jsonl >one.jsonl
  expect 3 "$HEXAD" prepare --input one.jsonl --output other --tokenizer bytes --chat-form chatml
  expect_text err "one.jsonl: 1 file contains one document, so no part can be held out; give more conversations, or set --heldout 0"
  echo '{"messages": [{"role": "user", "content": "Hi"}]}' >>texts/chat.jsonl
  expect 3 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatml
  expect_text err "texts/chat.jsonl:61: has no answer to train on"
}

test_tools_of_conversations_are_written_or_refused_by_line() {
  local line call='"tool_calls": [{"type": "function", "function": {"name": "rain", "arguments": {"city": "Oslo"}}}]'
  mkdir texts
  for line in $(seq 60); do
    echo '{"tools": [{"name": "rain"}], "messages": [{"role": "user", "content": "Rain in '"$line"' days?"},' \
      '{"role": "assistant", "content": null, '"$call"'}, {"role": "tool", "content": "no"},' \
      '{"role": "assistant", "content": "No."}]}'
  done >texts/chat.jsonl
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --chat-form chatml --heldout 0.2
  expect_text out " documents"
  expect 0 "$HEXAD" inspect data
  expect_text out "with a loss mask" '<|im_start|>system\n<tools>\n'
  expect 3 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form gemma
  expect_text err 'texts/chat.jsonl:1: lists tools ("tools"), which --chat-form gemma cannot express'
  echo '{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "rain"}}]}]}' >>texts/chat.jsonl
  expect 3 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatml
  expect_text err 'texts/chat.jsonl:61: turn 1 of "messages": has a problem in call 1 of "tool_calls": it has no arguments'
}

# `megatron DTYPE FORMAT`: writes an index and its ids, which repeatedly count from 0 to 99.
megatron() {
  python3 - "$1" "$2" <<'END'
import struct, sys
code, form = int(sys.argv[1]), sys.argv[2]
sizes = [50 + i % 7 for i in range(40)]
ids = [i % 100 for i in range(sum(sizes))]
open("x.bin", "wb").write(struct.pack(f"<{len(ids)}{form}", *ids))
width, starts = struct.calcsize("<" + form), [0]
for size in sizes:
    starts.append(starts[-1] + size)
with open("x.idx", "wb") as out:
    out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(sizes), len(sizes) + 1))
    out.write(struct.pack(f"<{len(sizes)}i", *sizes))
    out.write(struct.pack(f"<{len(sizes)}q", *(start * width for start in starts[:-1])))
    out.write(struct.pack(f"<{len(sizes) + 1}q", *range(len(sizes) + 1)))
END
}

test_indexes_of_megatron_are_read() {
  command -v python3 >/dev/null || return 0
  local run=(train tiny.yaml data.synthetic=false data.dataset=x.idx train.steps=2)
  megatron 8 H
  expect 0 "$HEXAD" "${run[@]}" model.vocab=100
  expect_text err "x.heldout.idx: no such file, so this dataset has no held-out loss"
  expect 0 "$HEXAD" inspect x.idx
  expect_text out "x.bin, u16, vocabulary not recorded" "40 documents"
  expect_no_text out "bytes of text"
  expect 3 "$HEXAD" generate run --prompt x
  expect_text err "x.idx has no tokenizer (tokenizer.json), so 'run' cannot generate text; copy the dataset's tokenizer into this folder"
  expect 2 "$HEXAD" "${run[@]}" model.vocab=0 run.dir=other
  expect_text err "model.vocab (0) must be set: x.idx has no tokenizer next to it"
  expect 3 "$HEXAD" "${run[@]}" model.vocab=90 run.dir=other
  expect_text err "x.bin: token 90 has id 90, expected 0 to 89"
  truncate -s -2 x.bin
  expect 3 "$HEXAD" "${run[@]}" model.vocab=100 run.dir=other
  expect_text err "x.idx: sequence 39 of "
  expect 3 "$HEXAD" train tiny.yaml data.synthetic=false data.dataset=gone.idx model.vocab=100 run.dir=other
  expect_text err "data.dataset (gone.idx): no such file in the working directory, $PWD" "expected an index of Megatron-LM"
  megatron 7 f
  expect 3 "$HEXAD" "${run[@]}" model.vocab=100 run.dir=other
  expect_text err "x.idx: dtype code 7 (float32), expected an integer type"
}

run_tests "$@"
