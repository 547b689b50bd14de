#!/usr/bin/env bash
# Runs a command under mpirun on emulated nodes of this machine: network namespaces joined by a bridge in a namespace of
# its own, each node's link shaped in both directions. Ranks of one node meet in shared memory, ranks of different nodes
# through TCP over the shaped link, so that traffic inside and between nodes really differs.
#
#   tools/testbed/two_nodes.sh [--nodes 2] [--ranks 2] [--rate 200mbit] COMMAND...
#
# --ranks: on every node; --rate: of a node's link, as tc(8) writes it. Nothing outside the new namespaces changes, and
# they are gone with everything that runs in them when this ends. The cores of the machine are shared out evenly; with
# fewer cores than nodes, several nodes share one. Needs root, iproute2 and openmpi-bin: without them it says so and
# exits with 77 (a skipped test).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

nodes=2 ranks=2 rate=200mbit
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --rate) rate=${2:?} ;;
  *) break ;;
  esac
  shift 2
done
if [ $# -eq 0 ] || ! [[ $nodes =~ ^[1-9][0-9]?$ && $ranks =~ ^[1-9][0-9]?$ && $1 != -* ]]; then
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

skip() {
  echo "two_nodes: skipped: $1" >&2
  exit 77
}
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
for program in ip tc; do command -v $program >/dev/null || skip "$program is missing (apt install iproute2)"; done
command -v mpirun >/dev/null || skip "mpirun is missing (apt install openmpi-bin)"

name=hx$$  # interface names have at most 15 letters
state=$(mktemp -d)
spaces() { ip netns list | awk -v own="$name" '$1 == own "sw" || index($1, own "n") == 1 {print $1}'; }
down() {
  trap - EXIT
  local space
  for space in $(spaces); do ip netns pids "$space" | xargs -r kill -9 2>/dev/null || true; done
  # Links and the bridge go with their namespaces.
  for space in $(spaces); do ip netns del "$space"; done
  rm -rf "$state"
}
trap down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

ip netns add ${name}sw 2>"$state/error" || skip "no right to make network namespaces: $(cat "$state/error")"
ip -n ${name}sw link add bridge type bridge
ip -n ${name}sw link set bridge up
hosts=
for ((i = 0; i < nodes; i++)); do
  node=${name}n$i hosts+=${hosts:+,}${name}n$i:$ranks
  ip netns add $node
  # Large frames: with 1500 bytes the shaper's timers take half of a core from the products that run beside it.
  ip -n ${name}sw link add port$i mtu 32000 type veth peer name eth0 mtu 32000 netns $node
  ip -n ${name}sw link set port$i master bridge up
  ip -n $node addr add 10.77.0.$((i + 1))/24 dev eth0
  ip -n $node link set lo up
  ip -n $node link set eth0 up
  ip netns exec $node sysctl -qw net.ipv4.tcp_slow_start_after_idle=0
  tc -n $node qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 50ms
  tc -n ${name}sw qdisc add dev port$i root tbf rate "$rate" burst 128kb latency 50ms
done

# bind-to none: the daemon of every node would bind its first rank to core 0; enter_node.sh gives a node its cores.
# Eager limits: the answer of a rendezvous queues behind bulk data in its own socket, and exchanges in both directions
# become half duplex; eager sends keep both busy.
mca=(
  plm_rsh_agent "$here/enter_node.sh" plm_rsh_no_tree_spawn 1
  btl tcp,self,vader btl_vader_single_copy_mechanism none
  btl_tcp_if_include 10.77.0.0/24 oob_tcp_if_include 10.77.0.0/24
  btl_tcp_eager_limit 8388608 btl_tcp_rndv_eager_limit 8388608 btl_tcp_max_send_size 8388608
  mpi_yield_when_idle 1
)
export HEXAD_TESTBED_STATE=$state HEXAD_TESTBED_NODES=$nodes
# In the background, so that a signal ends the nodes at once and not after the command.
"$here/enter_node.sh" ${name}n0 mpirun --allow-run-as-root --oversubscribe --bind-to none \
  $(printf -- '--mca %s %s ' "${mca[@]}") --host "$hosts" -np $((nodes * ranks)) "$(printf '%q ' "$@")" <&0 &
wait $!
