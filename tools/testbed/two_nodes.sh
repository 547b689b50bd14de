#!/usr/bin/env bash
# Runs a command under mpirun on emulated nodes of this machine. The nodes are network namespaces. A bridge in another
# namespace connects them, and each node's link has a limited rate in both directions. Ranks of one node communicate
# through shared memory, ranks of different nodes through TCP over the limited links.
#
#   tools/testbed/two_nodes.sh [--nodes 2] [--ranks 2] [--rate 200mbit] COMMAND...
#   tools/testbed/two_nodes.sh [--rate 200mbit] --bursts
#
# --ranks: number of ranks on every node. --rate: rate of a node's link, in kbit, mbit or gbit per second. Nothing
# outside the new namespaces changes. When this script ends, it removes the namespaces and all processes in them. The
# cores of the machine are divided evenly among the nodes. If the machine has fewer cores than nodes, several nodes
# share a core. Needs root, iproute2 and openmpi-bin. Otherwise, prints the reason and exits with 77 (a skipped test).
# rank_nodes.sh gives every rank its own link. --bursts: only prints the burst of idle links (docs/profile.md), as a
# list for a cluster file.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

nodes=2 ranks=2 rate=200mbit bursts=
burst=131072  # bytes that a node's link sends at once after an idle time
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --rate) rate=${2:?} ;;
  --bursts) bursts=yes && shift && continue ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || [ -n "$bursts" ] || usage
check_count --nodes "$nodes"
check_count --ranks "$ranks"
check_rate --rate "$rate"

if [ -n "$bursts" ]; then
  echo "[$(burst_entry inter $burst "$rate")]"
  exit
fi

build_testbed
for ((i = 0; i < nodes; i++)); do
  add_host $i 10.77.0.$((i + 1))/24
  for end in host port; do shape_$end $i qdisc add root tbf rate "$rate" burst $burst latency 50ms; done
done
run_ranks $nodes $ranks $nodes 10.77.0.0/24 "$@"
