#!/usr/bin/env bash
# Profiles training steps on a machine with a GPU, without Nsight Systems. Runs `hexad train RECIPE` as packed by
# tools/gpu/pack.sh. Prints the card's time per step by kernel and by stream (lane), its idle time, and the kernels
# around the idle time. Writes profile.txt, profile.json and train.log to the folder OUT. Does not count the first 3
# steps. Recording makes each launch slightly slower, so take step times from a run without recording.
#
#   tools/gpu/profile.sh OUT RECIPE [key=value...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ $# -lt 2 ]; then
  sed -n '7s/^# *//p' "$0" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
rm -f "$out"/profile.* "$out"/train.log

"$here/with_libraries.sh" true  # the first call unpacks the package
library=$(cd "$here/../.." && pwd)/build/pack/unpacked/lib/libhexad_gpu_profile.so
if [ ! -e "$library" ]; then
  echo "profile: $library is missing; run tools/gpu/pack.sh on a machine with CUPTI" >&2
  exit 1
fi
# Checks the library's dependencies, because the driver does not report that it cannot load a library.
if missing=$("$here/with_libraries.sh" ldd "$library" | grep 'not found'); then
  printf 'profile: this machine lacks\n%s\n' "$missing" >&2
  exit 1
fi

runs=$(mktemp -d)
trap 'rm -r "$runs"' EXIT
result=0
CUDA_INJECTION64_PATH=$library HEXAD_GPU_PROFILE=$out/profile OMPI_ALLOW_RUN_AS_ROOT=1 \
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$here/with_libraries.sh" hexad train "$1" "run.dir=$runs/run" "${@:2}" \
  >"$out/train.log" 2>&1 || result=$?
if [ $result -ne 0 ] || [ ! -s "$out/profile.json" ]; then
  tail -n 20 "$out/train.log" >&2
  lacking=
  [ -s "$out/profile.json" ] || lacking=' and wrote no profile'
  echo "profile: hexad ended with exit code $result$lacking; the end of $out/train.log is above" >&2
  exit 1
fi
cat "$out/profile.txt"
