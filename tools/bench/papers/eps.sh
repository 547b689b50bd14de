#!/usr/bin/env bash
# Measures EPS-MoE.
#
# Bytes: counts the bytes that the forward of a layer sends on four ranks, and compares them with section 4.2. The
# layers have experts with EP, computed together and in four groups, and attention with DP or TP. Also counts the bytes
# of a whole block with tensor-parallel attention, for TP+EP and TP+TP. Products: measures grouped and dense products by
# load (Fig. 5a).
#
# In all layers, the experts of a token are random and different. Prints g, the mean number of ranks that have experts
# of a token, next to the formula. With round-robin routing, the experts of a token would be neighbours, and therefore
# on fewer ranks.
#
# Speed: measures the forward of a layer like DeepSeek-V2's on two emulated nodes of one rank each
# (tools/testbed/two_nodes.sh). The layer has 20 experts per rank, top 6 and width 1536 as in Table 5. Unlike in Table
# 5, the hidden size is 512 instead of 5120, and the dtype is f32. Varies the number of expert groups (PN) and of
# tokens, with and without fp8 for messages. Compares the best PN by measurement, by the formula and by the simulator.
# Also measures:
# - the combinations of PN, products and wire format of Table 5
# - groups that do not overlap (Fig. 11)
# - the shares of threads of Table 6, if a node has several threads
# - blocks like Mixtral's (Table 3) and Arctic's (Table 4)
#
#   tools/bench/papers/eps.sh [--rate 200mbit] [--rounds 3] [--tokens '64 256 1024'] [--profile-seconds 40]
#                             [--threads N] [--pictures FOLDER] [--output FOLDER]
#
# --threads: threads of a rank for Table 6; default: half of this machine's cores. --pictures: writes an SVG of each
# schedule and pass for the number of tokens that is measured last. --output: keeps profiles and rows in FOLDER. A later
# call with the same settings, for example after the first call was killed, measures only the missing rows. Needs root,
# iproute2 and openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/moe_layer;
# expert_products in the same folder).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

rate=200mbit rounds=3 tokens='64 256 1024' profile_seconds=40 threads=$(($(nproc) / 2))
pictures= output=
while [ $# -gt 0 ]; do
  case $1 in
  --rate) rate=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --tokens) tokens=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --threads) threads=${2:?} ;;
  --pictures) pictures=$(mkdir -p "${2:?}" && realpath "$2") ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench moe_layer
products_bench=$(dirname "$bench")/expert_products
need "$products_bench" 'cmake --build --preset release --target expert_products'

kept=${output:-$scratch}
keep_settings "$kept" "$rate, rounds $rounds, tokens $tokens, threads $threads, profile $profile_seconds s"

# table NAME ROWS: prints the tables that tools/bench/papers/NAME.awk makes from the file ROWS.
table() {
  awk -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f "tools/bench/papers/$1.awk" "$2"
}

machine
echo "bytes:     4 ranks; 16 experts, top 6, random for each token"
kind=M=256,H=64,E=16,k=6,routing=random
add_once "$kept/bytes" launched_rows 4 "$kind" "$bench" --token-ranks --forward --rounds 1 --schedule plain \
  --schedule merged:rows=token --schedule groups:rows=token,chunk_by=experts,chunks=4 --layer "$kind,B=256,ep=4" \
  --layer "$kind,B=1024,tp=4,etp=1,ep=4"
table eps_bytes "$kept/bytes"

# Counts the bytes of a block. The ranks either sum the attention's output or scatter its sum (sp). With sp, the next
# block's attention gathers the output.
count_block() {
  launched_rows 4 "$kind" "$bench" --token-ranks --block --forward --rounds 1 --schedule plain \
    --schedule merged:rows=token --layer "$kind,B=1024,tp=4,etp=1,ep=4,parallel.sp=true" \
    --layer "$kind,B=1024,tp=4,etp=1,ep=4,parallel.sp=false"
  launched_rows 4 "$kind" "$bench" --token-ranks --block --forward --rounds 1 --schedule copies:duplicates=replicated \
    --schedule copies1:duplicates=replicated,rows=token --layer "$kind,B=1024,tp=4,etp=4,ep=1"
}
add_once "$kept/block_bytes" count_block
table eps_attention "$kept/block_bytes"

printf '\nproducts without other work, one thread; gain: ratio of grouped to dense seconds\n'
add_once "$kept/products" "$products_bench" --rows 1,16,64,256 --runs "$((2 * rounds + 1))"
sed '/^run\t/d' "$kept/products"

printf '\ntestbed:   2 nodes of one rank and one core, %s between them\n' "$rate"
echo "rounds:    $rounds"
tokens_once=rows=token,gemms=by_load  # the same for all PN, so that cases differ only in PN
args=(--schedule "pn1:$tokens_once" --schedule "pn1fp8:$tokens_once,wire=fp8") layers=()
for n in 2 5 10 20; do
  groups="chunk_by=experts,chunks=$n,$tokens_once"
  args+=(--schedule "pn$n:$groups" --schedule "pn${n}fp8:$groups,wire=fp8")
done
for m in $tokens; do layers+=("M=512,H=1536,B=$m,E=40,k=6,ep=2,routing=random,model.moe.expert=swiglu"); done
[ -z "$pictures" ] || args+=(--pictures "$pictures")
products=(20x512x1536) profile_options=(--threads 1)
testbed=(tools/testbed/two_nodes.sh --nodes 2 --ranks 1 --rate "$rate")
keep_profile "$kept/cluster.yaml" "$profile_seconds" "${testbed[@]}"
keep_complete "$kept/rows" $((10 * rounds))  # ten schedules
find_missing "$kept/rows" '' "${layers[@]}"
[ ${#missing[@]} -eq 0 ] || add_rows "$kept/rows" "${testbed[@]}" "$bench" --token-ranks "${args[@]}" "${missing[@]}" \
  --forward --rounds "$rounds" --profile "$kept/cluster.yaml"
table eps "$kept/rows" >"$scratch/tables"
sed '/^pipeline /d' "$scratch/tables"

# Section 5.2, item 5: fits R(N) = k N + b to the overhead of N groups. The overhead is the time that they lose compared
# with the largest possible overlap.
grep '^pipeline ' "$scratch/tables" | while read -r _ m comm comp points found; do
  case $points in
  *'],['*) ;;
  *)
    echo "m = $m: no PN by the formula: R(N) cannot be fitted, because fewer than two PN have an overhead"
    continue
    ;;
  esac
  printf 'E: 40\nk: 6\nD: 2\nm: %s\nP: %s\npipeline: {T_comm: %s, T_comp: %s, E: 20, R: {measured: %s}}\n' \
    "$m" $((m * 2 * 512 * 4)) "$comm" "$comp" "$points" >"$scratch/eps.yaml"
  if ! "$hexad" simulate --paper eps "$scratch/eps.yaml" >"$scratch/eps.json" 2>"$scratch/eps.error"; then
    # This command usually fails because the measured overhead does not rise with the number of groups.
    echo "m = $m: no PN by the formula: $(sed 's/^[^(]*measured/R measured/' "$scratch/eps.error")"
    continue
  fi
  printf 'm = %5d: sqrt(C/k) = %.1f, best PN by the formula %d, found %d\n' "$m" \
    "$(number N_unrestricted "$scratch/eps.json")" "$(number N "$scratch/eps.json" | tail -n 1)" "$found"
done

layer="M=512,H=1536,B=256,E=40,k=6,ep=2,routing=random,model.moe.expert=swiglu"
args=(--layer "$layer")
for n in 1 5 20; do
  cut=$([ $n = 1 ] || echo "chunk_by=experts,chunks=$n,")
  for wire in model fp8; do
    suffix=${wire#model}
    args+=(--schedule "pn$n$suffix:${cut}rows=token,wire=$wire"
      --schedule "pn${n}d$suffix:${cut}rows=token,wire=$wire,gemms=dense")
  done
done
add_once "$kept/factors" "${testbed[@]}" "$bench" --token-ranks "${args[@]}" --forward --rounds "$rounds" \
  --profile "$kept/cluster.yaml"
table eps_factors "$kept/factors"

args=(--layer "$layer" --schedule "pn1:$tokens_once")
for n in 2 5 10 20; do
  groups="chunk_by=experts,chunks=$n,$tokens_once"
  args+=(--schedule "pn$n:$groups" --schedule "cut$n:$groups,overlap=none")
done
add_once "$kept/cutting" "${testbed[@]}" "$bench" --token-ranks "${args[@]}" --forward --rounds "$rounds" \
  --profile "$kept/cluster.yaml"
table eps_cutting "$kept/cutting"

if [ "$threads" -lt 2 ]; then
  printf '\nTable 6, shares of the cores: skipped, because --threads is %s; expected at least 2 (default: half of nproc, %s)\n' \
    "$threads" "$(nproc)"
else
  args=(--layer "$layer")
  for ((t = threads; t >= 1; t--)); do
    share=$(awk "BEGIN { printf \"%.2f\", $t / $threads }")
    args+=(--schedule "$share:chunk_by=experts,chunks=5,$tokens_once,compute_share=$share")
  done
  profile_options=(--threads "$threads")
  keep_profile "$kept/threads.yaml" "$profile_seconds" "${testbed[@]}"
  add_once "$kept/shares" "${testbed[@]}" "$bench" --token-ranks "${args[@]}" --threads "$threads" --forward \
    --rounds "$rounds" --profile "$kept/threads.yaml"
  table eps_share "$kept/shares"
fi

# blocks SETTINGS SCHEDULE...: measures the forward of blocks like Mixtral's or Arctic's if the rows are not stored. The
# schedules must have the names that eps_blocks.awk expects.
blocks() {
  local wanted=("${@:2}")
  local layer="M=512,B=1024,k=2,routing=random,model.moe.expert=swiglu,model.heads=8,model.head_size=64,$1"
  has_rows "$kept/blocks" "$layer" || add_whole "$kept/blocks" "${testbed[@]}" "$bench" --token-ranks --block \
    --forward --rounds "$rounds" "${wanted[@]/#/--schedule=}" --layer "$layer"
}
# cut_into PN...: sets the array `schedules`. PN is a number of groups of experts. The array has two schedules for one
# group, and two for each PN: with grouped products, and with dense products.
cut_into() {
  local n
  schedules=(pn1:rows=token pn1d:rows=token,gemms=dense)
  for n in "$@"; do
    schedules+=("pn$n:chunk_by=experts,chunks=$n,rows=token" "pn${n}d:chunk_by=experts,chunks=$n,rows=token,gemms=dense")
  done
}
mixtral=H=1792,E=8,tp=2
blocks "$mixtral,etp=2,ep=1" copies1:duplicates=replicated,rows=token
blocks "$mixtral,etp=1,ep=2,parallel.sp=false" pn1:rows=token
cut_into 2 4
blocks "$mixtral,etp=1,ep=2,parallel.sp=true" "${schedules[@]}"
cut_into 4 8
for pn in pn1:rows=token pn4:chunk_by=experts,chunks=4,rows=token pn8:chunk_by=experts,chunks=8,rows=token; do
  schedules+=("${pn/:/b:},shared=beside")  # the dense MLP computes during the all-to-all
done
blocks "H=352,E=32,ep=2,model.moe.dense_residual=true,model.mlp_hidden=512" "${schedules[@]}"
table eps_blocks "$kept/blocks"

stored=("$kept"/{bytes,block_bytes,rows,factors,cutting,blocks})
[ ! -e "$kept/shares" ] || stored+=("$kept/shares")
printf '\n'
print_runs "${stored[@]}"
print_rows "${stored[@]}"
