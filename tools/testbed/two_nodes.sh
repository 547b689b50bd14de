#!/usr/bin/env bash
# Runs a command under mpirun on emulated nodes of this machine: network namespaces joined by a bridge in a namespace of
# its own, each node's link shaped in both directions. Ranks of one node meet in shared memory, ranks of different nodes
# through TCP over the shaped link, so that traffic inside and between nodes really differs.
#
#   tools/testbed/two_nodes.sh [--nodes 2] [--ranks 2] [--rate 200mbit] COMMAND...
#
# --ranks: on every node; --rate: of a node's link, in kbit, mbit or gbit a second. Nothing outside the new namespaces
# changes, and they are gone with everything that runs in them when this ends. The cores of the machine are shared out
# evenly; with fewer cores than nodes, several nodes share one. Needs root, iproute2 and openmpi-bin: without them it
# says so and exits with 77 (a skipped test). rank_nodes.sh gives every rank a link of its own.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

nodes=2 ranks=2 rate=200mbit
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --rate) rate=${2:?} ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || usage
check_count --nodes "$nodes"
check_count --ranks "$ranks"
check_rate --rate "$rate"

build_testbed
for ((i = 0; i < nodes; i++)); do
  add_host $i 10.77.0.$((i + 1))/24
  for end in host port; do shape_$end $i qdisc add root tbf rate "$rate" burst 128kb latency 50ms; done
done
run_ranks $nodes $ranks $nodes 10.77.0.0/24 "$@"
