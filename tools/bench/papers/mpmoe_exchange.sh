#!/usr/bin/env bash
# Measures the communication of MPMoE and FasterMoE alone (MPMoE, Fig. 13): the time in which a forward sends rows to
# the experts and results back. MPMoE divides the tokens into n micro-batches. FasterMoE divides the all-to-all by nodes
# into as many parts as there are nodes. Parts do not overlap anything (overlap: none), and experts are narrow, so that
# communication takes the same time as alone. Runs on emulated nodes of one rank each (tools/testbed/two_nodes.sh) for
# several volumes. Each rank has one expert, and each token goes to one expert (k = 1). Predicts each layer from a
# profile of the same testbed before measuring it.
#
#   tools/bench/papers/mpmoe_exchange.sh [--nodes 4] [--rate 200mbit] [--bytes 65536,262144,1048576,4194304]
#                                        [--chunks '2 4 8 16'] [--rounds 5] [--profile-seconds 30] [--output FOLDER]
#
# --bytes: bytes of all rows of a rank, with 4 KiB a row. --chunks: numbers n of micro-batches. --output: keeps the
# profile and the rows in FOLDER. A later call with the same settings, for example after the first call was killed,
# measures only the layers that are missing. Takes about two minutes, or half a minute with --bytes 1048576 --rounds 2
# --profile-seconds 10. Needs root, iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH
# (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

nodes=4 rate=200mbit bytes=65536,262144,1048576,4194304 chunks='2 4 8 16' rounds=5 profile_seconds=30 output=
width=1024 expert_width=64  # rows have 4 KiB, and experts compute little
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --rate) rate=${2:?} ;;
  --bytes) bytes=${2:?} ;;
  --chunks) chunks=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
[[ $nodes =~ ^[1-9][0-9]*$ && $nodes -ge 2 ]] || usage "--nodes is '$nodes', expected a whole number of at least 2"
for volume in ${bytes//,/ }; do
  [[ $volume =~ ^[1-9][0-9]*$ && $((volume % (4 * width))) -eq 0 ]] ||
    usage "--bytes has '$volume', expected multiples of $((4 * width)), the bytes of a row"
done
need_bench moe_layer

args=(--forward --schedule n1 --schedule "fastermoe:chunk_by=nodes,chunks=$nodes,order=returns_last,overlap=none")
schedules=2
for n in $chunks; do
  args+=(--schedule "n$n:chunk_by=tokens,chunks=$n,overlap=none")
  schedules=$((schedules + 1))
done
kept=${output:-$scratch}
keep_settings "$kept" \
  "nodes $nodes, $rate, bytes $bytes, chunks $chunks, rounds $rounds, profile $profile_seconds s"

machine
echo "testbed:   $nodes nodes of one rank, $rate between them"
echo "rounds:    $rounds"
testbed=(tools/testbed/two_nodes.sh --nodes "$nodes" --ranks 1 --rate "$rate")
products=("1x${width}x$expert_width")
keep_profile "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
keep_complete "$kept/rows" $((schedules * rounds))
layers=()
for volume in ${bytes//,/ }; do
  layers+=("M=$width,H=$expert_width,B=$((volume / 4 / width)),E=$nodes,ep=$nodes")
done
find_missing "$kept/rows" '' "${layers[@]}"
echo "measured:  $((${#layers[@]} - ${#missing[@]} / 2)) layers before"
[ ${#missing[@]} -eq 0 ] || add_rows "$kept/rows" "${testbed[@]}" "$bench" "${args[@]}" "${missing[@]}" \
  --rounds "$rounds" --profile "$kept/cluster.yaml"
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/mpmoe_exchange.awk "$kept/rows"
print_rows "$kept/rows"
