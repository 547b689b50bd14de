#!/usr/bin/env bash
# The emulated nodes of tools/testbed, and training across them. Skipped (77) if network namespaces cannot be made.
. "$(dirname "$0")/cli.sh"

nodes=$CLI_TESTS/../../tools/testbed/two_nodes.sh

test_ranks_of_a_node_share_its_name_and_ranks_of_another_node_do_not() {
  expect 0 "$nodes" --ranks 2 bash -c 'echo "$OMPI_COMM_WORLD_RANK $(hostname) $1"' name 'two  words'
  expect_equal "$(awk '{print $2}' out | sort | uniq -c | awk '{print $1}' | xargs)" "2 2"
  expect_count 4 out 'two  words'
}

test_link_has_the_requested_rate() {
  expect 0 "$nodes" --ranks 1 --rate 37mbit tc qdisc show dev eth0
  expect_count 2 out 'rate 37Mbit'
}

test_training_across_nodes_has_the_losses_of_one_rank() {
  expect 0 "$HEXAD" train tiny.yaml run.dir=one
  expect 0 "$nodes" --ranks 2 --rate 1gbit "$HEXAD" train "$PWD/tiny.yaml" run.dir="$PWD/two" parallel.cp=2 parallel.ep=4
  expect_same_losses one two
}

test_exit_code_is_that_of_the_command() { expect 3 "$nodes" --ranks 1 bash -c 'exit 3'; }

test_signal_ends_all_processes_and_removes_the_nodes() {
  "$nodes" --ranks 1 bash -c 'echo "$$" >>"$1"; exec sleep 100' rank "$PWD/ranks" &
  local emulation=$!
  wait_until has_lines ranks 2
  [ -n "$(ip netns list | grep "^hx$emulation")" ] || failed "the testbed of process $emulation has no network namespace"
  kill -TERM $emulation
  wait $emulation
  expect_equal $? 143
  ip netns list | grep "^hx$emulation" && failed "these network namespaces remain, expected none: $(ip netns list)"
  for rank in $(cat ranks); do
    ! kill -0 "$rank" 2>/dev/null || [ "$(sed 's/.*) //; s/ .*//' "/proc/$rank/stat")" == Z ] || failed "process $rank still runs"
  done
}

test_unknown_arguments_are_explained() {
  expect 2 "$nodes" --rank 2 true
  expect_text err 'two_nodes.sh [--nodes 2] [--ranks 2]'
  expect 2 "$nodes" --ranks many true
}

"$nodes" --ranks 1 true >/dev/null
[ $? -ne 77 ] || exit 77
run_tests "$@"
