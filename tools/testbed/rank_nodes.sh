#!/usr/bin/env bash
# Runs a command under mpirun on emulated nodes of this machine in which every rank has a link of its own, as GPUs have:
# what a rank exchanges with ranks of its node and with those of other nodes is shaped apart, in both directions, so that
# the ratio of the two rates is a choice. (Ranks of one node of two_nodes.sh share a link, and memory.)
#
#   tools/testbed/rank_nodes.sh [--nodes 2] [--ranks 2] [--inter 25mbit] [--intra 200mbit] [--placement 0,0,1,1]
#                               COMMAND...
#
# --ranks: on every node; --inter, --intra: a rank's rate to other nodes and inside its node, in kbit, mbit or gbit a
# second; --placement: the node of each rank, the first one's being 0 (default: node by node). Every rank lives in a network
# namespace of its own with its own host name; HEXAD_NODE and HEXAD_LOCAL_RANK tell it where it is. Nothing outside the
# new namespaces changes, and they are gone with everything that runs in them when this ends. The cores of the machine are
# shared out among the nodes; the ranks of a node share its cores. Needs root, iproute2 and openmpi-bin: without them it
# says so and exits with 77 (a skipped test).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

nodes=2 ranks=2 inter=25mbit intra=200mbit placement=
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --placement) placement=${2:?} ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || usage
check_count --nodes "$nodes"
check_count --ranks "$ranks"
check_rate --inter "$inter"
check_rate --intra "$intra"

# Hosts are numbered node by node: the host of each rank is the next one of its node.
place_ranks() {
  local node taken=()
  for node in ${placement//,/ }; do
    [[ $node =~ ^[0-9]+$ && $node -lt $nodes && ${taken[node]:-0} -lt $ranks ]] || break
    order+=($((node * ranks + ${taken[node]:-0})))
    taken[node]=$((${taken[node]:-0} + 1))
  done
  # mpirun runs on host 0 and gives that one the first rank, whatever the order.
  [ ${#order[@]} -eq $((nodes * ranks)) ] && [ "${order[0]}" -eq 0 ] ||
    usage "--placement is '$placement', expected the node of each rank, 0 to $((nodes - 1)), each $ranks times, 0 first"
}
[ -z "$placement" ] || place_ranks

# shape END RANK src|dst SUBNET: one class for what is exchanged with the rank's own node, one for the rest.
shape() {
  local class rate
  "shape_$1" "$2" qdisc add root handle 1: htb default 10
  for class in 10 20; do
    rate=$([ $class -eq 10 ] && echo "$inter" || echo "$intra")
    "shape_$1" "$2" class add parent 1: classid 1:$class htb rate "$rate" \
      burst "$(burst_of "$rate")" cburst "$(burst_of "$rate")" quantum $frame
  done
  "shape_$1" "$2" filter add parent 1: protocol ip u32 match ip "$3" "$4" flowid 1:20
}

build_testbed
for ((rank = 0; rank < nodes * ranks; rank++)); do
  node=$((rank / ranks))
  add_host $rank 10.78.$node.$((rank % ranks + 1))/16
  shape host $rank dst 10.78.$node.0/24
  shape port $rank src 10.78.$node.0/24
done
place='host=$(hostname); host=${host##*n}; export HEXAD_NODE=$((host / $0)) HEXAD_LOCAL_RANK=$((host % $0)); exec "$@"'
run_ranks $((nodes * ranks)) 1 $nodes 10.78.0.0/16 bash -c "$place" $ranks "$@"
