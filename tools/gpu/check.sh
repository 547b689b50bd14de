#!/usr/bin/env bash
# Runs the package of tools/gpu/pack.sh on a machine with a GPU. Prints one line per stage. Writes summary.md,
# summary.json and logs to the folder OUT. Exits with 1 if a stage failed.
#
#   tools/gpu/check.sh OUT [--only STAGE,...] [--all] [--layouts N] [--device cuda|emulated] [--build FOLDER]
#
# --only: runs only these stages. --all: runs every layout of 4 and of 8 ranks in f64 in `verify`, and every kernel in
# `sanitize` (except products under racecheck). --layouts: number of layouts in `share`, and in `verify` for each
# precision. The defaults are 6 in `share`, and in `verify` 30 for f64, 10 for f32 and 10 for bf16. --device emulated:
# rehearses on a machine without a GPU, and skips stages that need a GPU. --build: uses the programs of a build folder
# instead of the packed ones.
#
# Stages:
# - parity: compares every CUDA kernel with the reference.
# - gradients: compares the gradients of every op with finite differences, on the device.
# - train: runs 20 steps of recipes/verify-moe.yaml on the device and on the CPU. The losses must agree.
# - ways: runs the same model on the device in other ways: other schedules, recomputation, offload, ZeRO, and
#   checkpoints that move a run between device and CPU.
# - share: runs two processes, and two threads, as ranks that share the card.
# - verify: compares layouts of four ranks (--all: also of eight) with one rank on the CPU.
# - options: compares layouts of two ranks with one rank on the CPU. Uses windows of attention, delta nets, the fused
#   expert layer, bf16 gradients, and main weights that are stored as rests.
# - sanitize: runs NVIDIA's compute-sanitizer on a short list of kernels (--all: on every kernel).
# - bench: measures kernels at the sizes of bench-gpu, and the experts' first product and activation as one kernel.
# - step: runs recipes/bench-gpu.yaml, with unchanged and with balanced routing.
# - peer: runs the model of bench-gpu in PyTorch (tools/gpu/torch_peer.py).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
recipes=$here/../../recipes
known=parity,gradients,train,ways,share,verify,options,sanitize,bench,step,peer

usage() {
  sed -n '5s/^# *//p' "$0" >&2
  echo "stages: $known" >&2
  exit 2
}

[ $# -ge 1 ] && [[ $1 != -* ]] || usage
out=$1 stages=$known device=cuda all=no layouts=
shift
while [ $# -gt 0 ]; do
  case $1 in
  --all)
    all=yes
    shift
    continue
    ;;
  esac
  [ $# -ge 2 ] || usage
  case $1 in
  --only) stages=$2 ;;
  --layouts) layouts=$2 ;;
  --device) device=$2 ;;
  --build) HEXAD_BUILD=$(realpath -e "$2") && export HEXAD_BUILD || exit 2 ;;
  *) usage ;;
  esac
  shift 2
done
[[ $device == cuda || $device == emulated ]] || usage
for stage in ${stages//,/ }; do [[ ,$known, == *,$stage,* ]] || usage; done

mkdir -p "$out" && cd "$out" || exit 1
with() { "$here/with_libraries.sh" "$@"; }
with true || exit 1  # the first call unpacks the package
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
skip() {  # skip STAGE REASON: writes the reason to STAGE.skipped, and returns the status of a skipped stage
  echo "$2" >"$1.skipped"
  return 77
}
has_program() { with bash -c 'command -v "$0" >/dev/null' "$1"; }

# Runs the tests in several processes, because the reference takes most of the time and uses one core per process. Eight
# processes fit on a card of 80 GB. With sixteen processes, some could not allocate their CUDA context.
parity() {
  local shards running=() i failed=0
  [ "$device" = cuda ] || skip parity 'needs a GPU' || return
  shards=$(($(nproc) > 8 ? 8 : $(nproc)))
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i with \
      test_gpu_cuda_parity --gtest_brief=1 "--gtest_output=json:parity.$i.json" >"parity.$i.log" 2>&1 &
    running+=($!)
  done
  for ((i = 0; i < shards; ++i)); do
    wait "${running[i]}" && continue
    failed=1
    [ -e "parity.$i.json" ] || echo "process $i of $shards: $(tail -n 1 "parity.$i.log")" >>parity.not_run
  done
  return $failed
}

gradients() {
  HEXAD_TEST_DEVICE=$device HEXAD_DEVICE=$device with test_device_gradients --gtest_brief=1 \
    --gtest_output=json:gradients.json >gradients.log 2>&1
}

# hexad_train NAME RECIPE [key=value...]: trains; writes metrics to NAME.jsonl and output to NAME.log. Keeps the run
# directory only if the variable keep_runs names a folder for it.
hexad_train() {
  local name=$1 recipe=$2 runs
  shift 2
  runs=${keep_runs:-$(mktemp -d)}
  with hexad train "$recipes/$recipe.yaml" "run.dir=$runs/run" "$@" >"$name.log" 2>&1
  local result=$?
  cp "$runs/run/metrics.jsonl" "$name.jsonl" 2>/dev/null
  [ -n "${keep_runs:-}" ] || rm -r "$runs"
  return $result
}

train() {
  local precision on failed=0
  for precision in f64 f32 bf16; do
    for on in cpu "$device"; do
      hexad_train "train.$precision.$on" verify-moe "device=$on" "train.precision=$precision" train.steps=20 \
        train.threads=4 train.peak_flops=1e12 || failed=1
    done
  done
  python3 "$here/compare_losses.py" "$device" >train.compared.log 2>&1 || failed=1
  return $failed
}

# Prints the variants of the plain run, one per line: a name and the overrides that the variant adds.
ways_of_training() {
  cat <<'END'
tokens schedule.moe.chunk_by=tokens schedule.moe.chunks=3
experts schedule.moe.chunk_by=experts schedule.moe.chunks=2
merged schedule.moe.overlap=a2a_allgather schedule.moe.chunks=2
dense schedule.moe.gemms=dense
beside schedule.moe.shared=beside
turns schedule.pipeline.overlap=micro_batches
restored schedule.moe.memory_reuse=s1 schedule.moe.chunk_by=tokens schedule.moe.chunks=3
norms recompute=norms
attention recompute=attention
block recompute=block
offload offload.activations=true offload.min_bytes=0
states offload.optimizer=file
zero1 parallel.zero=1
zero3 parallel.zero=3 distributed.bucket_bytes=4096
updates optim.overlap=true
updates3 optim.overlap=true parallel.zero=3 distributed.bucket_bytes=4096
END
}

ways() {
  local name overrides failed=0 runs from to
  local plain=(train.precision=f64 train.threads=4 train.peak_flops=1e12)
  hexad_train ways.plain verify-moe device=cpu "${plain[@]}" train.steps=10 || failed=1
  while read -r name overrides; do
    # shellcheck disable=SC2086  # split into words on purpose
    hexad_train "ways.$name" verify-moe "device=$device" "${plain[@]}" train.steps=5 $overrides || failed=1
  done < <(ways_of_training)
  for from in cpu "$device"; do
    to=$([ "$from" = cpu ] && echo "$device" || echo cpu)
    runs=$(mktemp -d)
    keep_runs=$runs hexad_train "ways.from_$from" verify-moe "device=$from" "${plain[@]}" train.steps=5 || failed=1
    keep_runs=$runs hexad_train "ways.to_$to" verify-moe "device=$to" "${plain[@]}" train.steps=10 || failed=1
    rm -r "$runs"
  done
  python3 "$here/compare_losses.py" --ways >ways.compared.log 2>&1 || failed=1
  return $failed
}

# hexad_verify NAME [option...]: runs `hexad verify` on the device; writes its output to NAME.log.
hexad_verify() { with hexad verify "$recipes/verify-moe.yaml" --device "$device" "${@:2}" >"$1.log" 2>&1; }

share() {
  local failed=0
  hexad_verify share.threads --world 2 --layouts "${layouts:-6}" || failed=1
  if ! has_program mpirun; then
    [ $failed -eq 0 ] || return 1
    skip share 'mpirun is missing, so only threads were compared' || return
  fi
  with mpirun --oversubscribe --bind-to none -np 2 hexad verify "$recipes/verify-moe.yaml" --device "$device" --mpi \
    --layouts "${layouts:-6}" >share.processes.log 2>&1 || failed=1
  return $failed
}

verify() {
  local failed=0
  if [ $all = yes ]; then
    hexad_verify verify.f64.4 --world 4 || failed=1
    hexad_verify verify.f64.8 --world 8 || failed=1
  else
    hexad_verify verify.f64 --world 4 --layouts "${layouts:-30}" || failed=1
  fi
  hexad_verify verify.f32 --world 4 --layouts "${layouts:-10}" --precision f32 || failed=1
  hexad_verify verify.bf16 --world 4 --layouts "${layouts:-10}" --precision bf16 || failed=1
  return $failed
}

# A width of 128 elements lets the experts' first product and activation run as one kernel on an H100. The runs below do
# not use --layouts of this script, because a sample of layouts may lack the tested options.
options() {
  local failed=0 bf16=(--world 2 --layouts 'dp=2;dp=2,ep=2' --precision bf16 model.layers=2)
  hexad_verify options.subjects --world 2 --layouts \
    'dp=2,subject=forms;dp=2,subject=delta_net;dp=2,subject=bf16_rests;dp=2,subject=bf16_gradients;dp=2,subject=bf16_logits' || failed=1
  hexad_verify options.window "${bf16[@]}" model.window=5 || failed=1
  hexad_verify options.delta_net "${bf16[@]}" model.full_attention_every=2 model.delta_net.heads=8 \
    model.delta_net.key_heads=4 model.delta_net.key_size=8 model.delta_net.value_size=8 model.delta_net.norm_eps=0.1 ||
    failed=1
  hexad_verify options.fused "${bf16[@]}" schedule.moe.fused=on model.moe.expert_hidden=128 \
    model.moe.expert_bias=false || failed=1
  return $failed
}

# Excludes matrix products from racecheck, because racecheck would take minutes for the products. CUTLASS and cuBLAS
# manage the shared memory of most of these products.
sanitize() {
  local tool filter some='CudaDevice.*:Kernels/Edge.*:*rms_norm_*_bf16*:*router_*_f32*:*grouped_matmul_*_bf16*:*combine*_bf16*' failed=0
  [ "$device" = cuda ] || skip sanitize 'needs a GPU' || return
  has_program compute-sanitizer || skip sanitize 'compute-sanitizer is missing' || return
  [ $all = yes ] && some='*'
  for tool in memcheck initcheck racecheck; do
    filter=$some
    [ $tool != racecheck ] || filter+=":-*matmul*"
    with compute-sanitizer --tool $tool --error-exitcode 9 test_gpu_cuda_parity --gtest_brief=1 "--gtest_filter=$filter" \
      >"sanitize.$tool.log" 2>&1 || failed=1
  done
  return $failed
}

bench() {
  [ "$device" = cuda ] || skip bench 'needs a GPU' || return
  with cuda_kernels --json bench.jsonl >bench.log 2>&1 || return
  with timeout 120 hexad bench fused --device cuda --rows 65536 --hidden 2048 --width 1024 --experts 32 >bench.fused.log 2>&1
}

step() {
  [ "$device" = cuda ] || skip step 'needs a GPU' || return
  hexad_train step.run bench-gpu && hexad_train step.balanced bench-gpu model.moe.routing=balanced
}

peer() {
  [ "$device" = cuda ] || skip peer 'needs a GPU' || return
  python3 -c 'import torch' 2>/dev/null || skip peer 'PyTorch is missing' || return
  python3 "$here/torch_peer.py" >peer.jsonl 2>peer.log
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >machine.txt 2>/dev/null ||
  echo 'no card' >machine.txt
HEXAD_DEVICE=$device with hexad env >>machine.txt 2>&1
status=0
for stage in ${stages//,/ }; do
  rm -f "$stage".*
  begin=$SECONDS
  "$stage"
  result=$?
  [ $result -eq 0 ] || [ $result -eq 77 ] || status=1
  python3 "$here/summary.py" "$stage" "$result" $((SECONDS - begin)) "$device" || status=1
done
exit $status
