#!/usr/bin/env bash
# Runs a command inside a host of a testbed, on the cores of the host's node. The command has the host's network, name,
# shared memory and temporary folder. mpirun calls this script instead of ssh:
#
#   enter_node.sh HOST COMMAND...       the name HOST ends with n and the host's number
set -euo pipefail
: "${HEXAD_TESTBED_STATE:?must be set; the scripts of tools/testbed set it}"
: "${HEXAD_TESTBED_HOSTS:?must be set; the scripts of tools/testbed set it}"
: "${HEXAD_TESTBED_NODES:?must be set; the scripts of tools/testbed set it}"
host=$1 nodes=$HEXAD_TESTBED_NODES
shift
node=$((${host##*n} * nodes / HEXAD_TESTBED_HOSTS))
cores=$(getconf _NPROCESSORS_ONLN)
first=$((node * cores / nodes)) last=$(((node + 1) * cores / nodes - 1))
exec ip netns exec "$host" taskset -c "$first-$((last > first ? last : first))" unshare --uts --mount --ipc bash -c '
  hostname "$0"
  mount -t tmpfs tmpfs /dev/shm
  export TMPDIR=$HEXAD_TESTBED_STATE/$0
  mkdir -p "$TMPDIR"
  eval "$*"' "$host" "$@"
