#!/usr/bin/env bash
# `hexad check-cluster` on this machine: a healthy run, a slow rank, ranks on one core, and failures.
. "$(dirname "$0")/cli.sh"

check=(check-cluster --seconds 3)
cores=($(taskset -cp $$ | sed 's/.*: //; s/[,-]/ /g'))  # ends of the ranges of cores that this test may use

test_healthy_ranks_pass() {
  mkdir shared
  expect 0 ranks 2 "${check[@]}" --folder shared --svg links.svg
  expect_text out '2 ranks on 1 node' 'products of a rank' 'messages inside nodes' 'all_reduce of 2 ranks, intra' \
    'folder: write and fsync 1 MiB'
  expect_no_text out 'failure'
  expect_text links.svg 'from rank 0 to rank 1: '
  expect_equal "$(ls -A shared)" ''
}

test_one_rank_runs_the_checks_that_need_no_other_rank() {
  expect 0 "$HEXAD" "${check[@]}"
  expect_text out '1 rank on 1 node' 'products of a rank' 'not checked; --folder DIR checks one'
  expect_no_text out 'messages'
}

test_nodes_are_named_and_their_links_measured() {
  expect 0 "${launch[@]}" -np 1 env HEXAD_NODE=a "$HEXAD" "${check[@]}" : -np 2 env HEXAD_NODE=b "$HEXAD" "${check[@]}"
  expect_text out '3 ranks on 2 nodes' 'messages between nodes' 'clocks, offset from node 0' 'nodes have 1 to 2 ranks'
}

test_slow_rank_and_ranks_on_one_core_are_named() {
  local first=${cores[0]} last=${cores[-1]}
  expect 0 "${launch[@]}" -np 1 taskset -c "$first" "$HEXAD" "${check[@]}" : \
    -np 1 taskset -c "$last" "$HEXAD" "${check[@]}" : -np 1 taskset -c "$last" nice -n 15 "$HEXAD" "${check[@]}"
  expect_text out "must share core $last and wait for each other" 'warning, rank: rank 2 (node '
  grep 'rank 2 (node .*) computes' out >slow || failed 'the slow rank is not named'
  expect_text slow 'times slower than the other ranks'
}

test_json_holds_figures_and_findings() {
  expect 0 ranks 2 "${check[@]}" --json
  python3 - out <<'P' || failed 'the JSON is wrong'
import json, sys
result = json.load(open(sys.argv[1]))
assert result["exit_code"] == 0, result["findings"]
assert [r["rank"] for r in result["ranks"]] == [0, 1]
assert all(r["product_rate"] > 0 and len(r["links"]) == 1 for r in result["ranks"])
assert all(f["severity"] == "warning" for f in result["findings"])
P
}

test_failures_end_with_the_code_of_a_run() {
  expect 4 ranks 2 "${check[@]}" --folder nowhere
  expect_text out 'failure, folder: rank 0' 'nowhere: cannot create a folder in it' 'a run would end with exit code 4'
  expect_no_text out 'not checked' 'free disk space'
  expect 4 "$HEXAD" "${check[@]}" --memory 1000000
  expect_text out 'failure, memory: node ' 'expected at least'
}

test_another_program_is_named() {
  cp "$HEXAD" other
  echo "another build" >>other
  expect 2 "${launch[@]}" -np 1 "$HEXAD" "${check[@]}" : -np 1 ./other "${check[@]}"
  expect_text out "failure, version: the digest of the program's file differs: " 'a run would end with exit code 2'
  expect_no_text out 'products of a rank' 'messages'
  expect_text err 'differs: ' '; nothing was measured'
}

test_other_files_are_not_replaced() {
  echo mine >links.svg
  expect 2 "$HEXAD" "${check[@]}" --svg links.svg
  expect_text err 'links.svg: exists but is not a picture'
  expect_equal "$(cat links.svg)" mine
}

test_wrong_options_are_explained() {
  expect 2 "$HEXAD" check-cluster --seconds 0
  expect_text err "'0' given, expected a number from 0.1 to 3600"
  expect 2 "$HEXAD" check-cluster --device tpu
}

run_tests "$@"
