#!/usr/bin/env bash
# Inputs of users: mixed folders, links, binary files, unreadable paths.
. "$(dirname "$0")/cli.sh"

texts() {
  mkdir -p texts
  local i
  for i in $(seq 20); do
    seq -f "line %g of text $i: the quick brown fox jumps over the lazy dog" $((i * 2)) >texts/$i.txt
  done
}
prepare() { "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0.1 "$@"; }
long_name() { head -c 300 /dev/zero | tr '\0' x; }

test_read_and_skipped_files_are_listed() {
  texts
  mkdir texts/.git
  echo config >texts/.git/config
  echo "# About" >texts/README.md
  echo '{"hidden": 64}' >texts/config.json
  printf '\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR' >texts/logo.png
  gzip -c texts/1.txt >texts/packed
  ln -s /etc/passwd texts/passwd.txt
  ln -s 1.txt texts/one.txt
  expect 0 prepare
  expect_text out "data: 22 files" "20 .txt, " "1 .md, 8 B: texts/README.md" "1 .json, 15 B: texts/config.json" \
    "1 hidden: texts/.git/" "1 PNG image: texts/logo.png" \
    "2 links (not followed without --follow-links): texts/one.txt -> 1.txt, texts/passwd.txt -> /etc/passwd" \
    "1 gzip-compressed file (to extract the text: gunzip, or name it .gz): texts/packed" "all files are listed in data/summary.json"
  expect_text err "warning: not taken: 1 gzip-compressed file (to extract the text: gunzip, or name it .gz): texts/packed"
  expect_equal "$(grep -c '^      "texts/' data/summary.json)" 27
  expect 0 prepare
  expect_text out "already prepared" "1 .md, 8 B: texts/README.md"
}

test_dot_in_a_name_does_not_always_begin_an_extension() {
  texts
  local name
  for name in notes.2024-05-01 notes.2024-05-02 "Chapter 1. The end" Makefile; do echo "text of $name" >"texts/$name"; done
  echo "one more" >texts/MORE.TXT
  echo "a page" >texts/ls.1
  expect 0 prepare
  expect_text out "data: 26 files" "21 .txt, " "4 without extension, " "1 .1, 7 B: texts/ls.1"
}

test_patterns_select_files() {
  texts
  echo "# About" >texts/README.md
  mkdir texts/old
  echo "an old text" >texts/old/21.txt
  expect 0 prepare --exclude README.md old
  expect_text out "data: 20 files" "2 left out by --exclude: texts/README.md, texts/old/"
  expect 0 prepare --include '*.txt' --exclude 'old/*'
  expect_text out "already prepared"
  expect 0 prepare --include '*.md' 1.txt --force
  expect_text out "data: 2 files"
  expect 0 prepare --include '*.txt' --exclude '*.text' --force
  expect_text err "warning: --exclude *.text matches no file"
  expect 3 prepare --include '*.text'
  expect_text err "texts: contains no file to prepare; not taken:" "22 without a match in --include"
}

test_text_with_several_names_counts_once() {
  texts
  expect 0 prepare
  cp data/train.hxd before.hxd
  ln -s 1.txt texts/again.txt
  ln texts/2.txt texts/two.txt
  ln -s . texts/loop
  ln -s ../texts texts/up
  expect 0 prepare --follow-links
  expect_text out "already prepared" "already taken under another name: "
  cmp -s before.hxd data/train.hxd || failed "the order of listing changed the dataset"
  mkdir outside
  echo "from outside" >outside/far.txt
  ln -s ../outside texts/far
  expect 0 prepare --force
  expect_text out "20 files"
  expect 0 prepare --follow-links --force
  expect_text out "21 files"
}

# Some file systems list files in the order of their creation.
test_order_of_listing_does_not_matter() {
  local i
  texts
  expect 0 prepare
  mv texts first
  mkdir texts
  for i in $(seq 20 -1 1); do cp first/$i.txt texts; done
  expect 0 prepare
  expect_text out "already prepared"
}

test_forty_bad_files_are_named_together() {
  local i
  texts
  for i in $(seq 40); do printf 'caf\xe9 %s\n' "$i" >texts/bad-$i.txt; done
  expect 3 prepare
  expect_text err "40 problems of the input:"
  for i in $(seq 40); do expect_text err "texts/bad-$i.txt: is not text: byte 3 is 0xe9, which is not UTF-8"; done
  expect_count 1 err "or pass --binary"
  expect_text err "iconv -f LATIN1 -t UTF-8"
  expect_nothing_at data
}

test_bytes_far_into_a_file_are_checked() {
  local bad
  mkdir texts
  for bad in '\x00' '\xe9' '\xff\xfe\x41'; do
    { seq 400000 && printf "$bad" && seq 10; } >texts/1.txt
    [ "$(stat -c %s texts/1.txt)" -gt 2000000 ] ||
      failed "texts/1.txt has $(stat -c %s texts/1.txt) bytes, expected more than 2000000"
    expect 3 prepare
    expect_text err "texts/1.txt: is not text: byte 2688895 is 0x" "(line 400001)"
  done
}

test_json_lines_have_several_names() {
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

test_number_of_workers_does_not_change_the_dataset() {
  local n
  mkdir texts
  seq -f '{"text": "line %g of a long list"}' 50000 >texts/a.jsonl
  for n in 1 3; do
    expect 0 "$HEXAD" prepare --input texts --output data-$n --vocab 300 --workers $n
    (cd data-$n && sha256sum train.hxd heldout.hxd tokenizer.json) >sums-$n
    expect_nothing_at data-$n/unfinished
  done
  cmp sums-1 sums-3 || failed "the dataset depends on the number of workers"
  expect 2 "$HEXAD" prepare --input texts --output data --workers -1
  expect_text err "--workers"
}

# Two files of 72 MB take three shards of 64 MiB. The program is killed once its journal exists, after the first shard.
test_killed_preparation_is_continued() {
  local i
  mkdir texts
  for i in 1 2; do seq ${i}0000000 ${i}8000000 >texts/$i.txt; done
  "$HEXAD" prepare --input texts --output data --tokenizer bytes --workers 1 >out 2>err &
  local pid=$!
  wait_until test -f data/unfinished/journal.json
  kill -9 $pid
  wait $pid 2>/dev/null
  expect_nothing_at data/train.hxd
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes
  expect_text err "continued an interrupted preparation: "
  expect_nothing_at data/unfinished
  expect 0 "$HEXAD" prepare --input texts --output whole --tokenizer bytes
  cmp -s data/train.hxd whole/train.hxd || failed "the continued dataset differs"
  cmp -s data/heldout.hxd whole/heldout.hxd || failed "the continued held-out part differs"
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

test_conversations_are_learned_by_their_answers() {
  local line
  mkdir texts
  for line in $(seq 60); do
    echo '{"messages": [{"role": "user", "content": "What is '"$line"' plus 0?"}, {"role": "assistant", "content": "'"$line"'"}]}'
  done >texts/chat.jsonl
  expect 3 "$HEXAD" prepare --input texts --output data --tokenizer bytes
  expect_text err 'texts/chat.jsonl:1: has no key "text"' "it is a conversation: pass --chat-form NAME"
  expect 0 "$HEXAD" prepare --input texts --output data --tokenizer bytes --chat-form chatml --heldout 0.2
  expect 0 "$HEXAD" inspect data
  expect_text out "with a loss mask" '<|im_start|>user\nWhat is '
  expect 0 "$HEXAD" train tiny.yaml data.synthetic=false data.dataset=data model.vocab=0 model.context=64 train.steps=2
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatlm
  expect_text err "chatlm" "chatml"
  expect 2 "$HEXAD" prepare --input texts --output other --tokenizer bytes --chat-form chatml --text-key body
  expect_text err "--text-key body names one text, but --chat-form chatml takes whole conversations"
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
  expect_text err 'texts/chat.jsonl:61: turn 1 of "messages" has a problem in call 1 of "tool_calls": it has no arguments'
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

test_run_reports_the_data_that_it_sees() {
  texts
  expect 0 prepare
  expect 0 "$HEXAD" prepare --input texts/1.txt texts/2.txt --output two --tokenizer data/tokenizer.json --heldout 0.5
  local mixture=(data.synthetic=false model.vocab=0 "data.mixture=[{dataset: data, weight: 3}, {dataset: two, weight: 1}]")
  expect 0 "$HEXAD" train tiny.yaml "${mixture[@]}" train.steps=4
  expect_text err "data: data: 75.0% of the sequences, " "data: two: 25.0% of the sequences, "
  expect_text run/data.json '"step": 4' '"sequences": 32' '"sequences": 24' '"sequences": 8' '"seen_tokens": 384' \
    '"dataset": "two"' '"epochs": '
  expect 0 "$HEXAD" train tiny.yaml "${mixture[@]}" train.steps=6
  expect_text run/data.json '"step": 6' '"sequences": 48'
}

test_binary_inputs_are_named_with_their_kind() {
  texts
  gzip texts/1.txt
  mv texts/1.txt.gz texts/1.txt
  printf 'PAR1\x15\x04\x15\x10PAR1' >table
  expect 3 "$HEXAD" prepare --input texts/1.txt table --output data
  expect_text err "texts/1.txt: is not text but a gzip-compressed file" "table: is not text but a Parquet file" \
    "to extract its text: gunzip" "to extract its text: convert to JSON lines (.jsonl) with tools/parquet_to_jsonl.py"
}

test_tiny_held_out_part_causes_a_warning() {
  mkdir texts
  echo "one short text" >texts/1.txt
  seq 20000 >texts/2.txt
  expect 0 prepare
  expect_text err "warning: the held-out part is 1 document of"
  texts
  for i in $(seq 20); do for _ in $(seq 40); do cat texts/$i.txt; done >texts/long-$i.txt; done
  expect 0 prepare --force --exclude '[0-9]*' --split-bytes 1024
  expect_no_text err "held-out part"
}

# `refuses CODE TEXT -- COMMAND...`: expects the command to end with the code and to print the text, without internal terms
# of the program.
refuses() {
  local wanted=$1 text=$2
  shift 3
  expect "$wanted" timeout 20 "$@"
  expect_text err "$text"
  expect_no_text err "filesystem error" "iterator" "internal error" "basic_string"
}

test_paths_that_cannot_be_read_are_named_with_their_reason() {
  local long
  long=$(long_name)
  texts
  expect 0 prepare
  ln -s loop loop
  ln -s gone dangling
  mkfifo pipe
  mkdir folder
  local loop="Too many levels of symbolic links" name="File name too long"
  # Paths of corpora
  refuses 2 "loop: $loop" -- "$HEXAD" prepare --input loop --output other
  refuses 2 "$long: $name" -- "$HEXAD" prepare --input "$long" --output other
  refuses 2 "dangling: is a link to gone, which does not exist" -- "$HEXAD" prepare --input dangling --output other
  refuses 2 "tiny.yaml is not a directory" -- "$HEXAD" prepare --input tiny.yaml/x --output other
  refuses 2 "pipe: is not a regular file but a pipe" -- "$HEXAD" prepare --input pipe --output other
  refuses 2 "/dev/stdin: is not a regular file but a" -- "$HEXAD" prepare --input /dev/stdin --output other < <(seq 9)
  refuses 2 "$long: cannot be created: $name" -- "$HEXAD" prepare --input texts --output "$long"
  refuses 2 "loop: cannot be created: $loop" -- "$HEXAD" prepare --input texts --output loop
  # Paths of tokenizers
  refuses 3 "loop: cannot be opened: $loop" -- "$HEXAD" prepare --input texts --output other --tokenizer loop
  refuses 3 "folder: has no tokenizer, expected tokenizer.json" -- "$HEXAD" prepare --input texts --output other --tokenizer folder
  refuses 3 "pipe: is not a regular file but a pipe" -- "$HEXAD" prepare --input texts --output other --tokenizer pipe
  # Paths of recipes
  refuses 2 "loop: $loop" -- "$HEXAD" validate loop
  refuses 2 "$long: $name" -- "$HEXAD" train "$long"
  refuses 2 "/dev/stdin: is not a regular file but a" -- "$HEXAD" validate /dev/stdin < <(cat tiny.yaml)
  refuses 2 "pipe: is not a regular file but a pipe" -- "$HEXAD" train pipe
  refuses 2 "texts/1.txt is not a directory" -- "$HEXAD" train texts/1.txt/recipe.yaml
  # Paths of datasets
  local dataset="data.synthetic=false" text
  for text in "loop $loop" "$long $name" "tiny.yaml is a regular file, not a folder" "pipe is a pipe, not a folder" \
    "dangling is a link to gone, which does not exist"; do
    refuses 3 "data.dataset (${text%% *}): ${text#* }" -- "$HEXAD" train tiny.yaml $dataset data.dataset="${text%% *}"
  done
  # Paths of run directories and checkpoints
  local command
  for command in eval report "generate --prompt x"; do
    # shellcheck disable=SC2086
    refuses 2 "'loop' is not a run directory: loop/recipe.yaml: $loop" -- "$HEXAD" $command loop
    # shellcheck disable=SC2086
    refuses 2 "$name" -- "$HEXAD" $command "$long"
    # shellcheck disable=SC2086
    refuses 2 "tiny.yaml is not a directory" -- "$HEXAD" $command tiny.yaml
  done
  refuses 2 "'loop' is not a run directory: loop/recipe.yaml: $loop" -- "$HEXAD" report loop data
  refuses 2 "loop: $loop" -- "$HEXAD" inspect loop
  refuses 2 "$name" -- "$HEXAD" inspect "$long" --verify
  refuses 2 "'tiny.yaml' is not a checkpoint folder, run directory, prepared folder, .hxd or .idx file" \
    -- "$HEXAD" inspect tiny.yaml
  refuses 2 "the run directory cannot be created: $name" -- "$HEXAD" train tiny.yaml run.dir="$long"
  refuses 2 "the run directory cannot be created: $loop" -- "$HEXAD" train tiny.yaml run.dir=loop/run
  refuses 3 "train.init_from (loop) is not a checkpoint: manifest.json: $loop" -- "$HEXAD" train tiny.yaml train.init_from=loop
  # Paths of cluster files and traces
  refuses 2 "loop: $loop" -- "$HEXAD" train tiny.yaml schedule.profile=loop schedule.trace=1
  local moe=(model.moe.experts=2 model.moe.routing=trace)
  refuses 3 "model.moe.trace: cannot read 'folder': is a directory" -- "$HEXAD" train tiny.yaml "${moe[@]}" model.moe.trace=folder
  refuses 3 "model.moe.trace: cannot read 'pipe': is not a regular file but a pipe" -- \
    "$HEXAD" train tiny.yaml "${moe[@]}" model.moe.trace=pipe
  expect_nothing_at other
}

test_unreadable_files_and_folders_are_named_together() {
  [ "$(id -u)" != 0 ] || return 0  # root may read everything
  texts
  mkdir texts/private
  chmod 0 texts/private texts/1.txt
  expect 3 prepare
  expect_text err "texts/1.txt: cannot be opened: Permission denied" "texts/private: cannot be listed: Permission denied"
  chmod 700 texts/private
  expect 0 prepare --exclude 1.txt
}

test_tilde_is_the_home_folder_at_the_beginning_of_paths() {
  export HOME=$PWD/home
  mkdir home
  texts
  expect 0 "$HEXAD" prepare --input=~/../texts --output=~/data --tokenizer=bytes --heldout=0.1
  expect_file home/data/train.hxd
  expect 0 "$HEXAD" prepare --input=texts --output='~/other' '--tokenizer=~/data/tokenizer.json'
  local dataset=(data.synthetic=false model.vocab=0)
  expect 0 "$HEXAD" train tiny.yaml "${dataset[@]}" 'data.dataset=~/data' 'run.dir=~/runs/x' train.steps=2
  expect_file home/runs/x/metrics.jsonl
  expect 0 "$HEXAD" train tiny.yaml "${dataset[@]}" 'data.mixture=[{dataset: ~/data}, {dataset: "~/data"}]' \
    run.dir=mixed train.steps=2 'train.init_from=~/runs/x/checkpoints/step-00000002' 'offload.folder=~'
  { sed '/^run:/,$d' tiny.yaml && printf 'run:\n  dir: ~/runs/y\n'; } >home.yaml
  expect 0 "$HEXAD" train home.yaml
  expect_file home/runs/y/metrics.jsonl
  printf 'include: ~/base.yaml\n' >including.yaml
  cp tiny.yaml home/base.yaml
  expect 0 "$HEXAD" validate including.yaml
  expect 2 "$HEXAD" train tiny.yaml 'run.dir=~no-such-user/x'
  expect_text err "run.dir (~no-such-user/x) begins with ~no-such-user, but there is no user no-such-user"
  expect 2 "$HEXAD" prepare --input texts '--output=~no-such-user/x'
  expect_text err "there is no user no-such-user"
  expect 0 "$HEXAD" train tiny.yaml run.dir=./~/x train.steps=1
  expect_file "./~/x/metrics.jsonl"
  rm -r ./~
  expect_equal "$(find . -name '~*')" ""
}

test_values_on_the_command_line_are_literal() {
  local name
  for name in 'runs/a #2' 'runs/a: b' '*a' 'it'"'"'s' 'a, b' '&x' '"a" b'; do
    expect 0 "$HEXAD" train tiny.yaml run.dir="$name" train.steps=1
    expect_file "$name/metrics.jsonl"
  done
  expect_nothing_at runs/a
  expect 2 "$HEXAD" validate tiny.yaml 'train.steps=3 # three'
  expect_text err "train.steps (3 # three) must be an integer"
  expect 0 "$HEXAD" validate tiny.yaml 'model.moe={experts: 2, top_k: 1}' 'model.moe={experts: 4}' 'optim={lr: 0.02}'
}

test_includes_need_a_root_or_an_absolute_path() {
  mkdir inside common
  cp tiny.yaml common/base.yaml
  printf 'include: %s/common/base.yaml\n' "$PWD" >inside/a.yaml
  expect 0 "$HEXAD" validate inside/a.yaml
  printf 'include: ../common/base.yaml\n' >inside/b.yaml
  expect 2 "$HEXAD" validate inside/b.yaml
  expect_text err "is outside the recipe's folder" "--include-root"
  expect 0 "$HEXAD" validate inside/b.yaml --include-root . --world 2 train.steps=3
  expect_text out "train inside/b.yaml --include-root . 'train.steps=3'"
  expect 0 "$HEXAD" train inside/b.yaml --include-root common train.steps=1
  expect 2 "$HEXAD" train inside/b.yaml --include-root nowhere
  expect_text err "--include-root nowhere: no such folder"
  expect 2 "$HEXAD" train inside/b.yaml --include-root inside
  expect_text err "is outside the recipe's folder"
}

run_tests "$@"
