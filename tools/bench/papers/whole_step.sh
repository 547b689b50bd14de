#!/usr/bin/env bash
# Measures whole training steps of recipes/steps/whole.yaml (tp 2, etp 2, ep 4) at several rates between nodes. Runs on
# two emulated nodes of four ranks and one core each (tools/testbed/two_nodes.sh). Compares the systems of
# docs/schedules.md with `auto`. A system is a set of schedule choices of the same program, and `auto` chooses before
# the rounds. Prints seconds, the shares of all-to-alls and of exposed communication, bytes, and predictions from a
# profile of the same testbed. Also runs the first system on links that take almost no time, and prints the share of
# communication in its step.
#
# EPS-MoE's two modes have other layouts: D = 4 devices are the ranks of a node, eps-tpep with whole experts (TP+EP) and
# eps-tptp with parts of experts (TP+TP). Their all-to-alls stay inside nodes. Megatron's system needs shared experts,
# and is therefore another model. shared-beside is only compared with shared-after, which computes the shared experts
# afterwards. DeepSpeed-MoE pads the rows of an expert to its capacity, and therefore is another model, too.
# deepspeed-padded (capacity factor 1.2) is only compared with capacity, which sends no padding. `auto` makes every
# choice of schedule.moe that may be auto, except memory_reuse, which is none without a limit of memory.
#
#   tools/bench/papers/whole_step.sh [--rates '100mbit 200mbit 500mbit'] [--rounds 2] [--trials 24]
#                                    [--systems 'fastmoe auto ...'] [--profile-seconds 30] [--output FOLDER]
#
# --trials: number of steps that try open choices. --systems: systems that this script defines, with fastmoe as the
# first one, and with auto. --output: keeps profiles and rows in FOLDER. A later call with the same settings, for
# example after the first call was killed, measures only the rates that are missing. Needs root, iproute2 and
# openmpi-bin (otherwise exits with 77). Environment: HEXAD, BENCH (build/release/bench/train_schedules).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/bench/common.sh

eps=chunk_by=experts,chunks=2,rows=token,gemms=by_load
declare -A choices=(
  [fastmoe]= [deepspeed]=duplicates=baseline [monta-base]=duplicates=replicated [ted]=duplicates=drop
  [monta-o2]=duplicates=drop,overlap=a2a_allgather,chunks=2 [monta-o3]=duplicates=drop,overlap=a2a_allgather_copy,chunks=2
  [parm-s1]=esp_exchange=direct [parm-s2]=duplicates=pause_after_gate,esp_exchange=direct,overlap=a2a_allgather,chunks=8
  [tutel-2]=chunk_by=tokens,chunks=2,order=returns_last [tutel-4]=chunk_by=tokens,chunks=4,order=returns_last
  [mpmoe-s1]=chunk_by=tokens,chunks=4,memory_reuse=s1 [mpmoe-s2]=chunk_by=tokens,chunks=4,memory_reuse=s2
  [mpmoe-s3]=chunk_by=tokens,chunks=4,memory_reuse=s3 [mpmoe-s4]=chunk_by=tokens,chunks=4,memory_reuse=s4
  [pipemoe]=chunk_by=tokens,chunks=auto [fastermoe]=chunk_by=nodes,chunks=2,order=returns_last,hot_experts=shadow
  [2dh]=all_to_all=hierarchical [eps]=$eps
  [eps-tpep]=$eps,parallel.tp=4,parallel.sp=true,parallel.etp=1,parallel.ep=4
  [eps-tptp]=parallel.tp=4,parallel.etp=4,parallel.ep=1,duplicates=replicated,rows=token
  [shared-after]=model.moe.shared_experts=1,shared=after [shared-beside]=model.moe.shared_experts=1,shared=beside
  [capacity]=model.moe.capacity_factor=1.2,duplicates=baseline
  [deepspeed-padded]=model.moe.capacity_factor=1.2,duplicates=baseline,capacity_padding=full
  [auto]=duplicates=auto,overlap=auto,chunk_by=auto,chunks=auto,rows=auto,order=auto,gemms=auto
)
rates='100mbit 200mbit 500mbit' rounds=2 trials=24 profile_seconds=30 free=40gbit output=
systems='fastmoe deepspeed monta-base ted monta-o2 monta-o3 parm-s1 parm-s2 tutel-2 tutel-4 pipemoe
  mpmoe-s1 mpmoe-s2 mpmoe-s3 mpmoe-s4 fastermoe 2dh eps eps-tpep eps-tptp shared-after shared-beside
  capacity deepspeed-padded auto'
while [ $# -gt 0 ]; do
  case $1 in
  --rates) rates=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --trials) trials=${2:?} ;;
  --systems) systems=${2:?} ;;
  --profile-seconds) profile_seconds=${2:?} ;;
  --output) output=$(mkdir -p "${2:?}" && realpath "$2") ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
need_bench train_schedules
args=() layouts= models=  # systems of other layouts and models
for system in $systems; do
  [ -n "${choices[$system]+known}" ] || usage "unknown system '$system', expected one of: ${!choices[*]}"
  args+=(--schedule "$system${choices[$system]:+:${choices[$system]}}")
  case ${choices[$system]} in
  *parallel.*) layouts+=" $system" ;;
  *model.*) models+=" $system" ;;
  esac
done

kept=${output:-$scratch}
keep_settings "$kept" "rounds $rounds, trials $trials, systems $(echo $systems), profile $profile_seconds s"

machine
echo "testbed:   2 nodes of 4 ranks and one core"
echo "rounds:    $rounds; trials of open choices: $trials"
products=(2x256x768)
has_rows "$kept/rows" free || add_whole "$kept/rows" prefixed free tools/testbed/two_nodes.sh --nodes 2 --ranks 4 \
  --rate $free "$bench" recipes/steps/whole.yaml --rounds "$rounds" "${args[@]:0:2}"
for rate in $rates; do
  ! has_rows "$kept/rows" "$rate" || continue
  testbed=(tools/testbed/two_nodes.sh --nodes 2 --ranks 4 --rate "$rate")
  keep_profile "$kept/cluster-$rate.yaml" "$profile_seconds" "${testbed[@]}"
  add_whole "$kept/rows" prefixed "$rate" "${testbed[@]}" "$bench" recipes/steps/whole.yaml "${args[@]}" \
    --rounds "$rounds" --trials "$trials" --profile "$kept/cluster-$rate.yaml"
done
print_runs "$kept/rows"
echo
awk -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/whole_step.awk \
  -v layouts="$layouts" -v models="$models" "$kept/rows"
print_steps "$kept/rows"
