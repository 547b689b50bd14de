#!/usr/bin/env bash
# Measures Parm's four placements (section IV). The placement of an MoE layer's ranks on nodes determines which
# collectives load each link. Uses a layer whose 8 ranks are 4 EP ranks x 2 ESP ranks, first without tensor parallelism,
# then with N_MP = 2. With --layers, uses layers of Table III instead. The placements are: (1) on one node; (2) ESP
# groups within nodes, which is the order of Hexad's own mesh; (3) EP groups within nodes; (4) neither. Prints the
# measured and predicted speedups of S1 and S2 (with SAA in 8 phases) over the DeepSpeed-MoE schedule. Speedups are
# means over the layers of each (N_MP, N_ESP). Also prints the share of each collective's traffic that leaves the node.
#
#   tools/bench/papers/parm_placements.sh [--layer M=512,H=256,B=256] [--inter 50mbit] [--intra 400mbit] [--rounds 3]
#                                         [--profile-seconds 30] [--layers N] [--seed 1] [--output FOLDER]
#
# --layer: hidden size, width of an expert, tokens of a data-parallel rank. --layers: measures N layers of Table III
# instead (at most 1296), chosen as in parm.sh and with padding. --output: keeps profiles and rows in FOLDER; a later
# call with the same settings, for example after the first call was killed, measures only the missing rows. Needs root,
# iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

layer=M=512,H=256,B=256 inter=50mbit intra=400mbit rounds=3 profile_seconds=30 count=0 seed=1 output=
while [ $# -gt 0 ]; do
  case $1 in
  --layer) layer=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --layers) count=${2:?} ;;
  --seed) seed=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
[ "$count" -le 1296 ] || usage "--layers is '$count', expected at most 1296, the number of layers of Table III"
need_bench moe_layer

layers="$layer,E=4,k=1,tp=1,etp=2,ep=4 $layer,E=4,k=1,tp=2,etp=2,ep=4" padded=
if [ "$count" -gt 0 ]; then
  layers=$(awk -f tools/bench/random.awk -f tools/bench/papers/parm_layers.awk -v count="$count" -v seed="$seed" </dev/null)
  padded=,capacity_padding=full
fi
args=(--schedule "baseline:duplicates=baseline$padded"
  --schedule "s1:duplicates=pause_before_gate,esp_exchange=direct$padded"
  --schedule "s2:duplicates=pause_after_gate,esp_exchange=direct,overlap=a2a_allgather,chunks=8$padded" --rounds "$rounds")
kept=${output:-$scratch}
which="layer $layer"
[ "$count" -eq 0 ] || which="layers $count, seed $seed"
keep_settings "$kept" "$which, $inter between nodes, $intra inside, rounds $rounds, profile $profile_seconds s"

# profile NODES RANKS_OF_A_NODE: measures a testbed of NODES nodes if its profile is not stored.
profile() {
  keep_profile "$kept/cluster-$1.yaml" "$profile_seconds" \
    tools/testbed/rank_nodes.sh --nodes "$1" --ranks "$2" --inter "$inter" --intra "$intra"
}

# compete CASE NODES RANKS_OF_A_NODE NODE_OF_EACH_RANK: adds rows of moe_layer for the layers that have none. Each row
# begins with the case and the nodes.
compete() {
  local missing
  find_missing "$kept/rows" "$1"$'\t'"$4"$'\t' $layers
  [ ${#missing[@]} -gt 0 ] || return 0
  add_rows "$kept/rows" prefixed "$1\t$4" tools/testbed/rank_nodes.sh --nodes "$2" --ranks "$3" \
    --inter "$inter" --intra "$intra" --placement "$4" "$bench" "${args[@]}" "${missing[@]}" --profile "$kept/cluster-$2.yaml"
}

machine
echo "testbed:   8 ranks, one link per rank: $inter between nodes, $intra inside"
echo "rounds:    $rounds"
profile 1 8
profile 2 4
keep_complete "$kept/rows" $((6 * rounds))  # three schedules, two passes
compete 1 1 8 0,0,0,0,0,0,0,0
compete 2 2 4 0,0,0,0,1,1,1,1
compete 3 2 4 0,1,0,1,0,1,0,1
compete 4 2 4 0,1,0,1,1,0,1,0
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/parm_placements.awk "$kept/rows"
printf '\ncase, node of each rank, then'
print_rows "$kept/rows"
