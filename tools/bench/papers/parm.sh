#!/usr/bin/env bash
# Measures Parm on emulated nodes with one link per rank (tools/testbed/rank_nodes.sh). Draws random MoE layers like
# those of Table III and runs them forward and backward under the DeepSpeed-MoE schedule (Fig. 3(a)), S1 and S2. Prints
# the speedups by (N_MP, N_ESP) next to Table IV, Algorithm 1's choices from collectives that `hexad profile` measured,
# and the simulator's predictions.
#
#   tools/bench/papers/parm.sh [--layers 36] [--seed 1] [--inter 50mbit] [--intra 400mbit] [--rounds R]
#                              [--profile-seconds 60] [--pictures FOLDER] [--output FOLDER]
#
# Runs on 2 nodes of 4 ranks. In a layer, N_MP and N_ESP are 1, 2, 4 in turn. Sizes are those of Table III: B L and
# H/N_ESP over 32, M/N_ESP over 8. Draws k = 1 or 2, and f = 1.2 or 2.4, and no layer twice. All schedules send padding,
# as in the paper (capacity_padding). Each EP rank has one expert; f32. s2 returns rows in N_EP x N_ESP = 8 phases (SAA),
# s2aas is S2 without SAA. --rounds: 2, or 1 for more than 50 layers, because the table's means are over layers. 36
# layers take four minutes, 200 a quarter of an hour. --pictures: writes an SVG of each schedule and pass of the last
# layer. --output: keeps the profile and the rows there, so that a second start with the same settings measures only the
# layers that are missing. All 1620 different layers take more than two hours. Needs root, iproute2 and openmpi-bin (77:
# skipped). Environment: HEXAD, BENCH (build/release/bench/moe_layer).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

count=36 seed=1 inter=50mbit intra=400mbit rounds= profile_seconds=60 pictures= output=
batch=45  # layers of one start of the measuring program
while [ $# -gt 0 ]; do
  case $1 in
  --layers) count=${2:?} ;;
  --seed) seed=${2:?} ;;
  --inter) inter=${2:?} ;;
  --intra) intra=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage ;;
  esac
  shift 2
done
# Five numbers of tokens, three M, three H, two k and two f make 180 different layers for each of the nine pairs.
[ "$count" -le 1620 ] || usage "--layers $count: must be at most 1620, because no layer is drawn twice"
need_bench moe_layer
[ -n "$rounds" ] || rounds=$((count > 50 ? 1 : 2))

# The last pair is (4, 4), because the pictures show the last layer.
layers=$(awk -v n="$count" -v seed="$seed" 'BEGIN {
  srand(seed)
  split("1 2 4", sizes, " ")
  for (i = 0; i < n; i++) {
    pair = (i + 9 - n % 9) % 9
    mp = sizes[int(pair / 3) + 1]
    esp = sizes[pair % 3 + 1]
    do {
      tokens = 2 ^ (1 + int(3 * rand())) * 512 * 2 ^ int(3 * rand()) / 32
      M = esp * 128 * 2 ^ int(3 * rand())
      H = esp * 32 * 2 ^ int(3 * rand())
      k = 1 + int(2 * rand())
      f = rand() < 0.5 ? "1.2" : "2.4"
      layer = sprintf("M=%d,H=%d,B=%d,E=%d,k=%d,tp=%d,etp=%d,ep=%d,model.moe.capacity_factor=%s", M, H, tokens, 8 / esp, k,
        mp, esp, 8 / esp, f)
    } while (layer in drawn)
    drawn[layer] = 1
    print layer
  }
}')
padded=capacity_padding=full
args=(--schedule "baseline:duplicates=baseline,$padded"
  --schedule "s1:duplicates=pause_before_gate,esp_exchange=direct,$padded"
  --schedule "s2aas:duplicates=pause_after_gate,esp_exchange=direct,$padded"
  --schedule "s2:duplicates=pause_after_gate,esp_exchange=direct,overlap=a2a_allgather,chunks=8,$padded")
[ -z "$pictures" ] || args+=(--pictures "$pictures")

settings="layers $count, seed $seed, $inter between nodes, $intra inside, rounds $rounds, profile $profile_seconds s, commit $(
  git describe --always --dirty 2>/dev/null || echo unknown)"
kept=${output:-$scratch}
[ -e "$kept/settings" ] || echo "$settings" >"$kept/settings"
[ "$(cat "$kept/settings")" = "$settings" ] ||
  usage "--output: $output has rows of other settings: $(cat "$kept/settings"); now: $settings; choose another folder"

machine
echo "testbed:   2 nodes of 4 ranks, one link per rank: $inter between nodes, $intra inside"
echo "layers:    $count, seed $seed; rounds: $rounds"
testbed=(tools/testbed/rank_nodes.sh --nodes 2 --ranks 4 --inter "$inter" --intra "$intra")
if [ ! -e "$kept/cluster.yaml" ]; then
  profile_into "$scratch/profiled.yaml" "$profile_seconds" "${testbed[@]}"
  mv "$scratch/profiled.yaml" "$kept/cluster.yaml"
fi
for layer in $layers; do
  awk -f tools/bench/papers/parm_input.awk -v layer="$layer" "$kept/cluster.yaml" >"$scratch/parm.yaml"
  "$hexad" simulate --paper parm "$scratch/parm.yaml" >"$scratch/parm.json"
  printf 'choice\t%s\t%s\n' "$layer" "$(sed -n 's/.*"better": *"\(.*\)".*/\1/p' "$scratch/parm.json")"
done >"$scratch/choices"
touch "$kept/rows"
missing=()
for layer in $layers; do grep -qF "$layer"$'\t' "$kept/rows" || missing+=(--layer "$layer"); done
echo "measured:  $((count - ${#missing[@]} / 2)) layers before"
for ((i = 0; i < ${#missing[@]}; i += 2 * batch)); do
  "${testbed[@]}" "$bench" "${args[@]}" "${missing[@]:i:2 * batch}" --rounds "$rounds" --profile "$kept/cluster.yaml" >"$scratch/part"
  cat "$scratch/part" >>"$kept/rows"
done
awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/parm.awk "$scratch/choices" "$kept/rows"
printf '\nlayer, choice by Algorithm 1\n'
cut -f 2- "$scratch/choices"
print_rows "$kept/rows"
