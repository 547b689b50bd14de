#!/usr/bin/env bash
# Emulated nodes with a link for every rank (tools/testbed/rank_nodes.sh). Skipped (77) if network namespaces cannot be
# made.
. "$(dirname "$0")/cli.sh"

nodes=$CLI_TESTS/../../tools/testbed/rank_nodes.sh

test_every_rank_knows_its_node_and_its_index_there() {
  expect 0 "$nodes" --nodes 2 --ranks 3 bash -c \
    'echo "$OMPI_COMM_WORLD_RANK $HEXAD_NODE $HEXAD_LOCAL_RANK $(hostname) $(nproc) $1"' rank 'two  words'
  expect_equal "$(sort out | awk '{print $1, $2, $3}' | xargs)" "0 0 0 1 0 1 2 0 2 3 1 0 4 1 1 5 1 2"
  expect_equal "$(awk '{print $4}' out | sort -u | wc -l)" 6
  expect_equal "$(awk '{print $2, $5}' out | sort -u | wc -l)" 2  # the ranks of a node share its cores
  expect_count 6 out 'two  words'
}

test_placement_sets_the_node_of_each_rank() {
  expect 0 "$nodes" --nodes 2 --ranks 3 --placement 0,1,0,1,1,0 bash -c \
    'echo "$OMPI_COMM_WORLD_RANK $HEXAD_NODE $HEXAD_LOCAL_RANK"'
  expect_equal "$(sort out | xargs)" "0 0 0 1 1 0 2 0 1 3 1 1 4 1 2 5 0 2"
}

# `bytes_per_second OPERATION GROUP`: prints the speed of the largest message in c.yaml.
bytes_per_second() {
  awk -v wanted="$1 $2" '/operation:/ {operation = $3} /group:/ {group = $2}
    /points:/ && operation " " group == wanted {n = split($0, p, /[][, ]+/); printf "%d\n", p[n - 2] / p[n - 1]}' c.yaml
}
# `expect_rate OPERATION GROUP BYTES_PER_SECOND`: expects 50% to 106% of the link's speed. The link's initial burst
# makes the operation faster, and a busy machine makes it slower.
expect_rate() {
  local measured
  measured=$(bytes_per_second "$1" "$2")
  [ "${measured:-0}" -ge $(($3 * 50 / 100)) ] && [ "$measured" -le $(($3 * 106 / 100)) ] ||
    failed "$1 of $2 moves $measured bytes/s, expected 50% to 106% of the link's $3 bytes/s"
}

test_each_rank_has_both_rates_and_the_program_sees_the_nodes() {
  expect 0 "$nodes" --nodes 2 --ranks 2 --inter 50mbit --intra 200mbit "$HEXAD" profile --quick --seconds 16 \
    --out "$PWD/c.yaml"
  expect_text out 'profile of 4 ranks on 2 nodes'
  expect_text c.yaml 'nodes: 2' 'ranks_per_node: 2'
  expect_rate all_to_all inter 6250000
  expect_rate all_to_all intra 25000000
  expect_rate send inter 6250000
}

test_exit_code_is_that_of_the_command() { expect 3 "$nodes" --ranks 1 bash -c 'exit 3'; }

test_several_testbeds_can_run_at_the_same_time() {
  local wait_for_both='touch "$0/$1"; for ((i = 0; i < 300; i++)); do [ -e "$0/a" ] && [ -e "$0/b" ] && exit 0; sleep 0.1; done; exit 1'
  "$nodes" --nodes 2 --ranks 1 bash -c "$wait_for_both" "$PWD" a &
  local first=$!
  expect 0 "$nodes" --nodes 2 --ranks 1 bash -c "$wait_for_both" "$PWD" b
  wait $first
  expect_equal $? 0
}

# `gone PROCESS`: true if the emulation whose script has the process id PROCESS has no network namespace.
gone() { [ -z "$(ip netns list 2>/dev/null | grep "^hx$1")" ]; }

# `ends_after SIGNAL`: expects the signal to end the script and everything that it started.
ends_after() {
  rm -f ranks
  # env makes the script react to SIGINT, which background processes of a shell ignore by default.
  env --default-signal=INT "$nodes" --nodes 2 --ranks 2 bash -c 'echo "$$" >>"$1"; exec sleep 100' rank "$PWD/ranks" \
    2>err &
  local emulation=$! rank
  wait_until has_lines ranks 4
  ! gone $emulation || failed "the testbed of process $emulation has no network namespace"
  kill -"$1" $emulation
  wait $emulation 2>/dev/null
  code=$?
  wait_until gone $emulation
  for rank in $(cat ranks); do
    ! kill -0 "$rank" 2>/dev/null || [ "$(sed 's/.*) //; s/ .*//' "/proc/$rank/stat")" == Z ] || failed "process $rank still runs"
  done
}
test_no_process_remains_after_sigint() { ends_after INT && expect_equal $code 130; }
test_no_process_remains_after_sigterm() { ends_after TERM && expect_equal $code 143; }
test_no_process_remains_after_sigkill() { ends_after KILL && expect_equal $code 137; }

test_kill_of_mpirun_ends_the_script_and_removes_the_nodes() {
  "$nodes" --nodes 2 --ranks 1 bash -c 'echo "$$" >>"$1"; exec sleep 100' rank "$PWD/ranks" 2>err &
  local emulation=$!
  wait_until has_lines ranks 2
  kill -9 $(ip netns pids hx${emulation}n0 | xargs -n 1 ps -o pid=,comm= -p | awk '$2 == "mpirun" {print $1}')
  wait $emulation
  expect_equal $? 137
  gone $emulation || failed "these network namespaces remain, expected none: $(ip netns list)"
}

test_unknown_arguments_are_explained() {
  expect 2 "$nodes" --rank 2 true
  expect_text err "unknown option '--rank'" 'rank_nodes.sh [--nodes 2] [--ranks 2]'
  expect 2 "$nodes" --inter fast true
  expect_text err "--inter is 'fast', expected a number of kbit, mbit or gbit per second, such as 200mbit"
  expect 2 "$nodes" --placement 0,1,1,1 true
  expect_text err "--placement is '0,1,1,1', expected a node (0 to 1) per rank, each 2 times, node 0 first"
  expect 2 "$nodes" --ranks 0 true
  expect_text err "--ranks is '0', expected a whole number from 1 to 99"
  expect 2 "$nodes"
}

test_missing_requirements_are_named() {
  local tool
  mkdir tools
  for tool in bash dirname basename sed awk mktemp; do ln -s "$(command -v $tool)" tools; done
  printf '#!/bin/sh\necho 1000\n' >tools/id
  chmod +x tools/id
  expect 77 env PATH="$PWD/tools" "$nodes" true
  expect_text err 'skipped: network namespaces need root'
  ln -sf "$(command -v id)" tools/id
  expect 77 env PATH="$PWD/tools" "$nodes" true
  expect_text err 'skipped: ip is missing (apt install iproute2)'
}

"$nodes" --ranks 1 true >/dev/null
[ $? -ne 77 ] || exit 77
run_tests "$@"
