#!/usr/bin/env bash
# Inputs of users: mixed folders, links, binary files, interrupted preparations.
. "$(dirname "$0")/texts.sh"

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

# Two files of 72 MB take three shards of at most 64 MiB. The program is killed once its journal exists, after the first
# shard.
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
  expect_text err "warning: the held-out part has 1 document with"
  texts
  for i in $(seq 20); do for _ in $(seq 40); do cat texts/$i.txt; done >texts/long-$i.txt; done
  expect 0 prepare --force --exclude '[0-9]*' --split-bytes 1024
  expect_no_text err "held-out part"
}

run_tests "$@"
