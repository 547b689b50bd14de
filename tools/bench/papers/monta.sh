#!/usr/bin/env bash
# Measures MoNTA's dispatch and combine under tensor parallelism, by volume: the baseline, O1 (drop, all-to-all,
# all-gather), and O2 and O3 (in chunks). Runs on emulated nodes with one link per rank (tools/testbed/rank_nodes.sh),
# with several ratios between the rates inside nodes and between them. Also runs on nodes whose ranks share a link and
# memory (two_nodes.sh).
#
# Prints for each combination of links, t, part and volume:
# - the ratio of each schedule's time to the baseline's in the same round, as a median over the rounds
# - the values of the formula
# - the share of the link's rate that the baseline reaches
# - the simulator's prediction from a profile of the same testbed
#
# Then prints the volumes from which on O2 and O3 win, the loss if the simulator chooses, and the links' efficiency by
# volume (Fig. 13).
#
#   tools/bench/papers/monta.sh [--nodes 2] [--ranks '2 4 8'] [--links '25mbit:200mbit 20mbit:360mbit']
#                               [--shared 200mbit] [--bytes 65536,...,4194304] [--rounds 2]
#                               [--large 8388608,16777216] [--large-rounds 1]
#                               [--shared-bytes 1048576,4194304] [--chunks 2,4,8] [--profile-seconds 20]
#                               [--pictures FOLDER]
#
# --ranks: t, the numbers of tensor-parallel ranks per node, ascending. --links: rates of a rank, between nodes and
# inside them. --shared: rate of a node whose ranks share it, measured with --shared-bytes. '' skips --links or
# --shared. --large: further volumes for the largest t. --pictures: writes an SVG of each schedule for the last links, t
# and volume. Needs root, iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH
# (build/release/bench/moe_exchange).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

nodes=2 ranks='2 4 8' links='25mbit:200mbit 20mbit:360mbit' shared=200mbit
bytes=65536,131072,262144,524288,1048576,2097152,4194304 rounds=2 large=8388608,16777216 large_rounds=1
shared_bytes=1048576,4194304 chunks=2,4,8 profile_seconds=20 pictures=
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --links) links=$2 ;;
  --shared) shared=$2 ;;
  --bytes) bytes=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --large) large=$2 ;;
  --large-rounds) large_rounds=${2:?} ;;
  --shared-bytes) shared_bytes=${2:?} ;;
  --chunks) chunks=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench moe_exchange

# compete LINKS T BYTES ROUNDS TESTBED...: adds rows of moe_exchange with predictions to $scratch/rows. Each row begins
# with LINKS.
compete() {
  "${@:5}" "$bench" --ranks "$2" --bytes "$3" --rounds "$4" --chunks "$chunks" --profile "$scratch/cluster.yaml" \
    ${pictures:+--pictures "$pictures"} | sed "s/^/$1\t/" >>"$scratch/rows"
}
# profile_links LINKS T TESTBED...: measures the profile, and adds rows to $scratch/points with the time of each size of
# the collectives in Fig. 13.
profile_links() {
  profile_into "$scratch/cluster.yaml" "$profile_seconds" "${@:3}"
  awk -v links="$1" -v t="$2" -f tools/bench/papers/monta_links.awk "$scratch/cluster.yaml" >>"$scratch/points"
}

machine
echo "testbed:   $nodes nodes; one link per rank, between nodes and inside: ${links:-none}; one link per node: ${shared:-none}"
echo "rounds:    $rounds; $large_rounds of $large bytes"
for link in $links; do
  for t in $ranks; do
    testbed=(tools/testbed/rank_nodes.sh --nodes "$nodes" --ranks "$t" --inter "${link%:*}" --intra "${link#*:}")
    profile_links "$link" "$t" "${testbed[@]}"
    compete "$link" "$t" "$bytes" "$rounds" "${testbed[@]}"
    [ -z "$large" ] || [ "$t" != "${ranks##* }" ] || compete "$link" "$t" "$large" "$large_rounds" "${testbed[@]}"
  done
done
if [ -n "$shared" ]; then
  for t in $ranks; do
    testbed=(tools/testbed/two_nodes.sh --nodes "$nodes" --ranks "$t" --rate "$shared")
    profile_into "$scratch/cluster.yaml" "$profile_seconds" "${testbed[@]}"
    compete "$shared:memory" "$t" "$shared_bytes" "$rounds" "${testbed[@]}"
  done
fi
awk -f tools/bench/median.awk -f tools/bench/papers/monta.awk -v e="$nodes" "$scratch/rows"
awk -f tools/bench/papers/monta_efficiency.awk "$scratch/points"
printf '\nlinks, round, part, t, bytes, schedule, seconds, predicted seconds\n'
cat "$scratch/rows"
