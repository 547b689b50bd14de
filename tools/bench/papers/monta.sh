#!/usr/bin/env bash
# Measures MoNTA's exchanges of rows in MoE layers under tensor parallelism, by volume: the baseline, O1 (drop,
# all-to-all, all-gather), and O2 and O3 (in chunks). Runs the forward pass of layers with one expert per node, in both
# layouts of Table 1. In row 1, each tensor-parallel rank has whole experts. In row 2, the ranks of a node share the
# width of an expert. In both rows, tensor-parallel ranks are inside nodes and experts are across nodes. In row 1, this
# needs parallel.order. Runs on emulated nodes with one link per rank (tools/testbed/rank_nodes.sh), with several ratios
# of the rate inside nodes to the rate between nodes. Also runs on nodes whose ranks share a link and memory
# (two_nodes.sh).
#
# First profiles each testbed, predicts all layers from the graphs of all ranks, and prints the hash of the predictions.
# Then measures. Prints for each combination of links, row of Table 1, part of the pass, t and volume:
# - the times of O1 and of the best schedule, divided by the baseline's time in the same round (medians over rounds)
# - the values of the formula
# - the share of the links' rates that the baseline reaches
# - the simulator's prediction
#
# Then prints the smallest volumes at which O2 and O3 win, the loss if the simulator chooses, and the links' efficiency
# by volume (Fig. 13).
#
#   tools/bench/papers/monta.sh [--nodes 2] [--ranks '2 4 8'] [--links '25mbit:200mbit 20mbit:360mbit']
#                               [--shared 200mbit] [--bytes 65536,...,4194304] [--large 8388608] [--rounds 2]
#                               [--shared-bytes 1048576,4194304] [--chunks 2,4,8] [--profile-seconds 20]
#                               [--pictures FOLDER] [--output FOLDER]
#
# --ranks: t, the numbers of tensor-parallel ranks per node, ascending. --links: rates of a rank, between nodes and
# inside them. --shared: rate of a node whose ranks share it, measured with --shared-bytes. '' skips --links or
# --shared. --bytes: volumes I, the bytes of all rows that a rank sends in the baseline. --large: further volumes for
# the largest t; 8 MB on 16 ranks need about 6 GB of memory. --pictures: writes an SVG of each schedule's pass for the
# layer that is measured last. --output: keeps profiles, predictions and rows in FOLDER. A later call with the same
# settings, for example after the first call was killed, measures only the layers that are missing. Needs root, iproute2
# and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

nodes=2 ranks='2 4 8' links='25mbit:200mbit 20mbit:360mbit' shared=200mbit
bytes=65536,131072,262144,524288,1048576,2097152,4194304 large=8388608 rounds=2
shared_bytes=1048576,4194304 chunks=2,4,8 profile_seconds=20 pictures= output=
width=1024 expert_width=64  # rows have 4 KiB, and experts compute little
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --ranks) ranks=${2:?} ;;
  --links) links=$2 ;;
  --shared) shared=$2 ;;
  --bytes) bytes=${2:?} ;;
  --large) large=$2 ;;
  --rounds) rounds=${2:?} ;;
  --shared-bytes) shared_bytes=${2:?} ;;
  --chunks) chunks=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
for t in $ranks; do
  [[ $t =~ ^[1-9][0-9]*$ && $t -ge 2 && $((expert_width % t)) -eq 0 ]] ||
    usage "--ranks has '$t', expected divisors of $expert_width (the width of an expert) that are at least 2"
done
need_bench moe_layer

args=(--forward --exchange --schedule baseline:duplicates=replicated --schedule o1:duplicates=drop) schedules=2
for n in ${chunks//,/ }; do
  args+=(--schedule "o2x$n:duplicates=drop,overlap=a2a_allgather,chunks=$n"
    --schedule "o3x$n:duplicates=drop,overlap=a2a_allgather_copy,chunks=$n") schedules=$((schedules + 2))
done
kept=${output:-$scratch}
keep_settings "$kept" "nodes $nodes, ranks $ranks, links $links, shared $shared, bytes $bytes, large $large, rounds \
$rounds, shared bytes $shared_bytes, chunks $chunks, profile $profile_seconds s"

# layers_of T BYTES: prints a layer for each volume and each row of Table 1.
layers_of() {
  local volume layer
  for volume in ${2//,/ }; do
    layer=M=$width,H=$expert_width,B=$((volume / 4 / width)),E=$nodes,tp=$1,ep=$nodes
    echo "$layer,etp=1,parallel.order=tp-cp-dp-ep-pp"
    echo "$layer,etp=$1"
  done
}

# each_testbed COMMAND: calls COMMAND LINKS T BYTES TESTBED... for each testbed.
each_testbed() {
  local link t volumes
  for link in $links; do
    for t in $ranks; do
      volumes=$bytes
      [ -z "$large" ] || [ "$t" != "${ranks##* }" ] || volumes+=,$large
      "$1" "$link" "$t" "$volumes" \
        tools/testbed/rank_nodes.sh --nodes "$nodes" --ranks "$t" --inter "${link%:*}" --intra "${link#*:}"
    done
  done
  [ -n "$shared" ] || return 0
  for t in $ranks; do
    "$1" "$shared:memory" "$t" "$shared_bytes" tools/testbed/two_nodes.sh --nodes "$nodes" --ranks "$t" --rate "$shared"
  done
}

# foresee LINKS T BYTES TESTBED...: measures the profile and predicts all layers. Skips a result that is stored.
foresee() {
  local layer layers=() of=${1//:/-}-$2
  products=("1x${width}x$expert_width" "1x${width}x$((expert_width / $2))")
  keep_profile "$kept/cluster-$of.yaml" "$profile_seconds" "${@:4}"
  [ ! -e "$kept/predictions-$of" ] || return 0
  for layer in $(layers_of "$2" "$3"); do layers+=(--layer "$layer"); done
  "${@:4}" "$bench" "${args[@]}" "${layers[@]}" --rounds 0 --profile "$kept/cluster-$of.yaml" |
    sed "s/^predicted/&\t$1/" >"$scratch/predicted"
  mv "$scratch/predicted" "$kept/predictions-$of"
}

# compete LINKS T BYTES TESTBED...: adds rows of moe_layer for the layers that have none. Each row begins with LINKS.
compete() {
  local missing of=${1//:/-}-$2
  find_missing "$kept/rows" "$1"$'\t' $(layers_of "$2" "$3")
  [ ${#missing[@]} -gt 0 ] || return 0
  add_rows "$kept/rows" prefixed "$1" "${@:4}" "$bench" "${args[@]}" "${missing[@]}" --rounds "$rounds" \
    --profile "$kept/cluster-$of.yaml" ${pictures:+--pictures "$pictures"}
}

# points_of LINKS T BYTES TESTBED...: prints rows with the time of each size of the collectives in Fig. 13. Skips shared
# memory, whose nominal rate is not known.
points_of() {
  [ "${1#*:}" = memory ] ||
    awk -v links="$1" -v t="$2" -f tools/bench/papers/monta_links.awk "$kept/cluster-${1//:/-}-$2.yaml"
}

machine
echo "testbed:   $nodes nodes; one link per rank (between nodes:inside nodes): ${links:-none}; one link per node: ${shared:-none}"
echo "rounds:    $rounds"
each_testbed foresee
cat "$kept"/predictions-* >"$scratch/predictions"
keep_complete "$kept/rows" $((3 * schedules * rounds))  # forward, dispatch, combine
echo "measured:  $(sed '/^run\t/d' "$kept/rows" | cut -f 1,2 | sort -u | wc -l) layers before"
hash=$(sha256sum <"$scratch/predictions" | cut -d' ' -f1)
echo "predicted: $(cut -f 2,3 "$scratch/predictions" | sort -u | wc -l) layers; sha256 $hash"
each_testbed compete
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/monta.awk -v e="$nodes" \
  "$scratch/predictions" "$kept/rows"
each_testbed points_of >"$scratch/points"
awk -f tools/bench/papers/monta_efficiency.awk "$scratch/points"
printf '\npredicted, links, layer, schedule, pass, seconds: graph, gathering outside the graph\n'
cat "$scratch/predictions"
printf '\nlinks, then'
print_rows "$kept/rows"
