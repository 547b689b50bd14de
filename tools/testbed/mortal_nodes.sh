#!/usr/bin/env bash
# Runs a command next to emulated nodes of this machine that can be killed and brought back. The nodes are network
# namespaces. A bridge in another namespace connects the nodes and the host of the command. The command starts ranks on
# the nodes with `mpirun --host NODE:RANKS,... -np N ...`.
#
#   tools/testbed/mortal_nodes.sh [--nodes 3] COMMAND...
#   tools/testbed/mortal_nodes.sh kill NODE      in COMMAND: kills all processes of the node and takes its link down
#   tools/testbed/mortal_nodes.sh revive NODE    in COMMAND: brings the link up again
#   tools/testbed/mortal_nodes.sh reach NODE true
#
# In COMMAND, HEXAD_TESTBED_NAMES has the names of the nodes. `reach` succeeds if the node answers over its link, and is
# meant for `tools/elastic.sh --reach`, which appends NODE and true. Nothing outside the new namespaces changes. When
# this script ends, it removes the namespaces and all processes in them. Needs root, iproute2 and openmpi-bin.
# Otherwise, prints the reason and exits with 77 (a skipped test).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# link_of NODE up|down: switches the port of the node's link.
link_of() { ip -n "${1%n*}sw" link set "port${1##*n}" "$2"; }
case ${1-} in
kill)
  kill -9 $(ip netns pids "$2")
  link_of "$2" down
  exit
  ;;
revive)
  link_of "$2" up
  exit
  ;;
reach)
  # No process listens at this port, so a node that answers refuses the connection.
  answer=$(timeout 2 bash -c ": </dev/tcp/10.80.0.$((${2##*n} + 1))/9" 2>&1) || true
  [[ $answer == *refused* ]]
  exit
  ;;
esac

nodes=3
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || usage
check_count --nodes "$nodes"

build_testbed
HEXAD_TESTBED_NAMES=''
for ((i = 0; i <= nodes; i++)); do
  add_host $i 10.80.0.$((i + 1))/24
  [ $i -eq 0 ] || HEXAD_TESTBED_NAMES+="${HEXAD_TESTBED_NAMES:+ }${name}n$i"
done
set_mca 10.80.0.0/24
for ((i = 0; i < ${#mca[@]}; i += 2)); do export "OMPI_MCA_${mca[i]}=${mca[i + 1]}"; done
export HEXAD_TESTBED_NAMES HEXAD_TESTBED_STATE=$state HEXAD_TESTBED_HOSTS=$((nodes + 1)) HEXAD_TESTBED_NODES=1
# Runs in the background, so that a signal ends the nodes immediately and not after the command.
setsid "$here/enter_node.sh" "${name}n0" "$(printf '%q ' "$@")" <&0 {alive}>&- &
wait $!
