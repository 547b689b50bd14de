#!/usr/bin/env bash
# Measures the least number of tokens for which groups of experts save time (EPS-MoE, section 5.2, Table 7, Fig. 10).
# Also compares two divisions of products (section 4.3, Fig. 9).
#
# Products: divides the products of 20 experts into N parts, on one thread. The parts are N groups of experts, or N
# blocks of the input's columns, whose products are summed. Prints the ratio of the two times next to the formula's, and
# the volumes of section 4.3.
#
# Groups: runs the forward of a layer like DeepSeek-V2's (as eps.sh, with random experts) with several numbers of tokens
# m. Runs it on two emulated nodes of one rank each (tools/testbed/two_nodes.sh): undivided, in N groups in sequence,
# and in N groups that overlap. The groups in sequence give the extra times e0 = N S(m/N)/S(m) - 1 of communication and
# e1 = N G(m/N, E/N)/G(m, E) - 1 of products. S and G are the paper's times of communication and of products, and E is
# the number of experts. Prints whether the paper's conditions on e0 and e1 hold. Also prints whether groups save time,
# as measured and as predicted from a profile of the same testbed. Then prints the least m for which groups save time
# (the paper's m0), and the least m for which computation limits the products (m1).
#
#   tools/bench/papers/eps_range.sh [--rate 200mbit] [--tokens '4 8 16 32 64 128 256 512 1024'] [--groups '2 5']
#                                   [--rows 4,16,64,256] [--parts 2,4] [--rounds 5] [--profile-seconds 40]
#                                   [--output FOLDER]
#
# --rows: rows of an expert. --parts: N of the products. --output: keeps the profile and the rows in FOLDER. A later
# call with the same settings, for example after the first call was killed, measures only the missing rows. Takes about
# three minutes, or half a minute with --tokens '16 256' --groups 2 --rows 16 --rounds 1 --profile-seconds 10. Needs
# root, iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/moe_layer;
# expert_products in the same folder).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rate=200mbit tokens='4 8 16 32 64 128 256 512 1024' groups='2 5' rows=4,16,64,256 parts=2,4 rounds=5
profile_seconds=40 output=
while [ $# -gt 0 ]; do
  case $1 in
  --rate) rate=${2:?} ;;
  --tokens) tokens=${2:?} ;;
  --groups) groups=${2:?} ;;
  --rows) rows=${2:?} ;;
  --parts) parts=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench moe_layer
products_bench=$(dirname "$bench")/expert_products
need "$products_bench" 'cmake --build --preset release --target expert_products'

tokens_once=rows=token,gemms=by_load
args=(--token-ranks --forward --schedule "pn1:$tokens_once") schedules=1
for n in $groups; do
  cut="chunk_by=experts,chunks=$n,$tokens_once"
  args+=(--schedule "cut$n:$cut,overlap=none" --schedule "pn$n:$cut") schedules=$((schedules + 2))
done
kept=${output:-$scratch}
keep_settings "$kept" "$rate, tokens $tokens, groups $groups, rows $rows, parts $parts, rounds $rounds, profile \
$profile_seconds s"

machine
echo "testbed:   2 nodes of one rank and one core, $rate between them"
echo "rounds:    $rounds"
add_once "$kept/parts" "$products_bench" --experts 20 --inputs 512 --outputs 1536 --rows "$rows" --parts "$parts" \
  --runs "$rounds"
print_runs "$kept/parts"
awk -f tools/bench/median.awk -f tools/bench/papers/eps_parts.awk -v experts=20 -v inputs=512 -v outputs=1536 "$kept/parts"

testbed=(tools/testbed/two_nodes.sh --nodes 2 --ranks 1 --rate "$rate")
products=(20x512x1536) profile_options=(--threads 1)
keep_profile "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
keep_complete "$kept/rows" $((schedules * rounds))
layers=()
for m in $tokens; do layers+=("M=512,H=1536,B=$m,E=40,k=6,ep=2,routing=random,model.moe.expert=swiglu"); done
find_missing "$kept/rows" '' "${layers[@]}"
[ ${#missing[@]} -eq 0 ] || add_rows "$kept/rows" "${testbed[@]}" "$bench" "${args[@]}" "${missing[@]}" \
  --rounds "$rounds" --profile "$kept/cluster.yaml"
printf '\n'
print_runs "$kept/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/eps_range.awk "$kept/rows"
printf '\nparts, round, N, rows of an expert, seconds of the products: undivided, divided by experts, divided by columns\n'
cat "$kept/parts"
print_rows "$kept/rows"
