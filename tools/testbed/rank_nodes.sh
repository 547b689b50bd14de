#!/usr/bin/env bash
# Runs a command under mpirun on emulated nodes of this machine. Every rank has its own link, as GPUs have. Traffic
# inside a node and traffic between nodes have separate rates, so that their ratio can be chosen freely. A rate holds in
# each direction. (In two_nodes.sh, the ranks of a node share a link and memory.)
#
#   tools/testbed/rank_nodes.sh [--nodes 2] [--ranks 2] [--inter 25mbit] [--intra 200mbit] [--placement 0,0,1,1]
#                               COMMAND...
#   tools/testbed/rank_nodes.sh [--inter 25mbit] [--intra 200mbit] --bursts
#
# --ranks: number of ranks on every node. --inter, --intra: a rank's rate to other nodes and inside its node, in kbit,
# mbit or gbit per second. --placement: the node of each rank, 0 for the first rank; default: node by node. Every rank
# has its own network namespace and host name. HEXAD_NODE is the number of its node, HEXAD_LOCAL_RANK the number of the
# rank on that node. Nothing outside the new namespaces changes. When this script ends, it removes the namespaces and
# all processes in them. The cores of the machine are divided among the nodes, and the ranks of a node share its cores.
# Needs root, iproute2 and openmpi-bin. Otherwise, prints the reason and exits with 77 (a skipped test). --bursts: only
# prints the bursts of idle links (docs/profile.md), as a list for a cluster file.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

nodes=2 ranks=2 inter=25mbit intra=200mbit placement= bursts=
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --placement) placement=${2:?} ;;
  --bursts) bursts=yes && shift && continue ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || [ -n "$bursts" ] || usage
check_count --nodes "$nodes"
check_count --ranks "$ranks"
check_rate --inter "$inter"
check_rate --intra "$intra"

if [ -n "$bursts" ]; then
  between=$(burst_entry inter "$(burst_of "$inter")" "$inter")
  inside=$(burst_entry intra "$(burst_of "$intra")" "$intra")
  echo "[$between, $inside]"
  exit
fi

# Assigns to each rank the next free host of the rank's node. Hosts are numbered node by node.
place_ranks() {
  local node taken=()
  for node in ${placement//,/ }; do
    [[ $node =~ ^[0-9]+$ && $node -lt $nodes && ${taken[node]:-0} -lt $ranks ]] || break
    order+=($((node * ranks + ${taken[node]:-0})))
    taken[node]=$((${taken[node]:-0} + 1))
  done
  # mpirun runs on host 0 and always puts the first rank there.
  [ ${#order[@]} -eq $((nodes * ranks)) ] && [ "${order[0]}" -eq 0 ] ||
    usage "--placement is '$placement', expected a node (0 to $((nodes - 1))) per rank, each $ranks times, node 0 first"
}
[ -z "$placement" ] || place_ranks

# shape END RANK src|dst SUBNET: limits one end of a rank's link. One traffic class is for the rank's own node (SUBNET),
# the other class for all other nodes.
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
