#!/usr/bin/env bash
# Runs what tools/gpu/pack.sh packed, on a machine with a GPU. A line a stage; results in the folder OUT: summary.md,
# summary.json and logs. Exits with 1 when a stage failed.
#
#   tools/gpu/check.sh OUT [--only parity,train,ways,bench,step,peer]
#
# parity: every CUDA kernel against the reference. train: 20 steps of recipes/verify-moe.yaml on the card and on the CPU,
# whose losses must agree. ways: the same model on the card under other schedules, recomputed, offloaded, with ZeRO, and
# handed over between card and CPU by a checkpoint. bench: rates of the kernels at the sizes of bench-gpu. step: recipes/bench-gpu.yaml,
# with routing as it comes and balanced. peer: the same model in PyTorch (tools/gpu/torch_peer.py), where there is one.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
  sed -n '5s/^# *//p' "$0" >&2
  exit 2
}
[ $# -eq 1 ] || { [ $# -eq 3 ] && [ "$2" = --only ]; } || usage
mkdir -p "$1" && cd "$1" || exit 1
stages=${3:-parity,train,ways,bench,step,peer}
"$here/with_libraries.sh" true || exit 1  # unpacks, once
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >machine.txt 2>/dev/null

# The reference takes most of the time, on one core each.
parity() {
  local shards running=() i failed=0
  shards=$(($(nproc) > 16 ? 16 : $(nproc)))
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$here/with_libraries.sh" \
      test_gpu_cuda_parity --gtest_brief=1 "--gtest_output=json:parity.$i.json" >"parity.$i.log" 2>&1 &
    running+=($!)
  done
  for i in "${running[@]}"; do wait "$i" || failed=1; done
  return $failed
}

bench() { "$here/with_libraries.sh" cuda_kernels --json bench.jsonl >bench.log 2>&1; }

# hexad_train NAME RECIPE [key=value...]: metrics land in NAME.jsonl, what it says in NAME.log. The run directory is in
# the folder keep_runs, if that is set.
hexad_train() {
  local name=$1 recipe=$2 runs
  shift 2
  runs=${keep_runs:-$(mktemp -d)}
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$here/with_libraries.sh" hexad train \
    "$here/../../recipes/$recipe.yaml" "run.dir=$runs/run" "$@" >"$name.log" 2>&1
  local result=$?
  cp "$runs/run/metrics.jsonl" "$name.jsonl" 2>/dev/null
  [ -n "${keep_runs:-}" ] || rm -r "$runs"
  return $result
}

train() {
  local precision device failed=0
  for precision in f64 f32 bf16; do
    for device in cpu cuda; do
      hexad_train "train.$precision.$device" verify-moe "device=$device" "train.precision=$precision" train.steps=20 \
        train.threads=4 train.peak_flops=1e12 || failed=1
    done
  done
  python3 "$here/compare_losses.py" >train.compared.log 2>&1 || failed=1
  return $failed
}

# Each line: a name and what differs from the plain run.
ways_of_training() {
  cat <<'END'
tokens schedule.moe.cut=tokens schedule.moe.parts=3
experts schedule.moe.cut=experts schedule.moe.parts=2
merged schedule.moe.overlap=a2a_allgather schedule.moe.parts=2
dense schedule.moe.products=dense
beside schedule.moe.shared=beside
turns schedule.pipeline.overlap=micro_batches
norms recompute=norms
attention recompute=attention
block recompute=block
offload offload.activations=true offload.min_bytes=0
states offload.optimizer=file
zero1 parallel.zero=1
zero3 parallel.zero=3 distributed.bucket_bytes=4096
END
}

ways() {
  local name overrides failed=0 runs from to
  local plain=(train.precision=f64 train.threads=4 train.peak_flops=1e12)
  hexad_train ways.plain verify-moe device=cpu "${plain[@]}" train.steps=10 || failed=1
  while read -r name overrides; do
    # shellcheck disable=SC2086  # several words
    hexad_train "ways.$name" verify-moe device=cuda "${plain[@]}" train.steps=5 $overrides || failed=1
  done < <(ways_of_training)
  for from in cpu cuda; do
    to=$([ $from = cpu ] && echo cuda || echo cpu)
    runs=$(mktemp -d)
    keep_runs=$runs hexad_train "ways.from_$from" verify-moe "device=$from" "${plain[@]}" train.steps=5 || failed=1
    keep_runs=$runs hexad_train "ways.to_$to" verify-moe "device=$to" "${plain[@]}" train.steps=10 || failed=1
    rm -r "$runs"
  done
  python3 "$here/compare_losses.py" --ways >ways.compared.log 2>&1 || failed=1
  return $failed
}

step() {
  hexad_train step.run bench-gpu && hexad_train step.balanced bench-gpu model.moe.routing=balanced
}

peer() {
  python3 -c 'import torch' 2>/dev/null || { echo 'no PyTorch here' >peer.log && return 0; }
  python3 "$here/torch_peer.py" >peer.jsonl 2>peer.log
}

status=0
for stage in ${stages//,/ }; do
  case $stage in
  parity | train | ways | bench | step | peer) ;;
  *) usage ;;
  esac
  rm -f "$stage".*
  begin=$SECONDS
  "$stage"
  result=$?
  [ $result -eq 0 ] || status=1
  python3 "$here/summary.py" "$stage" "$result" $((SECONDS - begin))
done
exit $status
