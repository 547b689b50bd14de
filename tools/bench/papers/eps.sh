#!/usr/bin/env bash
# EPS-MoE. Bytes: of a layer's forward on four ranks, counted, against section 4.2, for attention DP + experts EP and
# attention TP + experts EP. Speed: on two emulated nodes of one rank each (tools/testbed/two_nodes.sh), a layer like
# DeepSeek-V2's (Table 5: 20 experts a rank, top 6, width 1536; hidden size 512 in place of 5120, f32), forward, by the
# number of expert groups PN and tokens, with and without fp8 on the wire; PN by the formula and by the simulator.
#
#   tools/bench/papers/eps.sh [--rate 200mbit] [--rounds 3] [--tokens '64 256 1024'] [--profile-seconds 40]
#                             [--pictures FOLDER]
#
# --pictures: an SVG of each schedule and pass of the last number of tokens. Needs root, iproute2 and openmpi-bin (77:
# skipped). Environment: HEXAD, BENCH (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rate=200mbit rounds=3 tokens='64 256 1024' profile_seconds=40 pictures=
while [ $# -gt 0 ]; do
  case $1 in
  --rate) rate=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --tokens) tokens=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage ;;
  esac
  shift 2
done
need_bench moe_layer

machine
echo "bytes:     4 ranks; 16 experts, top 6"
kind=M=256,H=64,E=16,k=6
launch 4 "$bench" --forward --rounds 1 --schedule plain --schedule merged:rows=token --layer "$kind,B=256,ep=4" \
  --layer "$kind,B=1024,tp=4,etp=1,ep=4"
grep "^$kind" "$scratch/log" >"$scratch/bytes"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/eps_bytes.awk "$scratch/bytes"

printf '\ntestbed:   2 nodes of one rank and one core, %s between them\n' "$rate"
echo "rounds:    $rounds"
args=(--schedule pn1 --schedule pn1fp8:wire=fp8)
for n in 2 5 10 20; do
  args+=(--schedule "pn$n:cut=experts,parts=$n" --schedule "pn${n}fp8:cut=experts,parts=$n,wire=fp8")
done
for m in $tokens; do args+=(--layer "M=512,H=1536,B=$m,E=40,k=6,ep=2,model.moe.expert=swiglu"); done
[ -z "$pictures" ] || args+=(--pictures "$pictures")
products=(20x512x1536)
testbed=(tools/testbed/two_nodes.sh --nodes 2 --ranks 1 --rate "$rate")
profile_into "$scratch/cluster.yaml" "$profile_seconds" "${testbed[@]}"
"${testbed[@]}" "$bench" "${args[@]}" --forward --rounds "$rounds" --profile "$scratch/cluster.yaml" >"$scratch/rows"
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/eps.awk "$scratch/rows" \
  >"$scratch/tables"
sed '/^pipeline /d' "$scratch/tables"

# Section 5.2, 5: R(N) = k N + b fitted to what the groups cost beyond the overlap they could gain.
grep '^pipeline ' "$scratch/tables" | while read -r _ m comm comp points found; do
  case $points in
  *'],['*) ;;
  *)
    echo "m = $m: no PN by the formula, R(N) cannot be fitted: fewer than two PN cost anything"
    continue
    ;;
  esac
  printf 'E: 40\nk: 6\nD: 2\nm: %s\nP: %s\npipeline: {T_comm: %s, T_comp: %s, E: 20, R: {measured: %s}}\n' \
    "$m" $((m * 2 * 512 * 4)) "$comm" "$comp" "$points" >"$scratch/eps.yaml"
  "$hexad" simulate --paper eps "$scratch/eps.yaml" >"$scratch/eps.json"
  printf 'm = %5d: sqrt(C/k) = %.1f, best PN by the formula %d, found %d\n' "$m" \
    "$(number N_unrestricted "$scratch/eps.json")" "$(number N "$scratch/eps.json" | tail -n 1)" "$found"
done
print_rows "$scratch/rows"
