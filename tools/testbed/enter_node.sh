#!/usr/bin/env bash
# Runs a command inside a node of two_nodes.sh: its network, host name, shared memory, temporary folder and cores.
# mpirun calls it in place of ssh:
#
#   enter_node.sh HOST COMMAND...       HOST ends in n and the node's number
set -euo pipefail
: "${HEXAD_TESTBED_STATE:?is set by two_nodes.sh}" "${HEXAD_TESTBED_NODES:?is set by two_nodes.sh}"
host=$1 node=${1##*n}
shift
cores=$(getconf _NPROCESSORS_ONLN)
first=$((node * cores / HEXAD_TESTBED_NODES)) last=$(((node + 1) * cores / HEXAD_TESTBED_NODES - 1))
exec ip netns exec "$host" taskset -c "$first-$((last > first ? last : first))" unshare --uts --mount --ipc bash -c '
  hostname "$0"
  mount -t tmpfs tmpfs /dev/shm
  export TMPDIR=$HEXAD_TESTBED_STATE/$0
  mkdir -p "$TMPDIR"
  eval "$*"' "$host" "$@"
