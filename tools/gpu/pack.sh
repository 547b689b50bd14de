#!/usr/bin/env bash
# Builds the preset cuda. Packs the files that tools/gpu/check.sh and profile.sh need on a machine with a GPU into
# build/pack/hexad.tar.gz. The files are the program, the tests of kernels and of gradients, the benchmark of kernels,
# the profiler, their Debian libraries, and Open MPI with its mpirun. Prints the contents. The target machine need not
# run Debian. On that machine, tools/gpu/with_libraries.sh unpacks the package and finds NVIDIA's libraries.
#
#   tools/gpu/pack.sh [--tests]     --tests: without the program hexad, which takes longest to build
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/launcher.sh
require_open_mpi 'the package contains it'

programs=(tests/test_gpu_cuda_parity tests/test_device_gradients bench/cuda_kernels bin/hexad)
targets=(test_gpu_cuda_parity test_device_gradients cuda_kernels hexad)
profile=libhexad_gpu_profile.so  # profiler for tools/gpu/profile.sh
case ${1:-} in
'') ;;
--tests) unset 'programs[3]' 'targets[3]' ;;
*)
  sed -n '7s/^# *//p' "$0" >&2
  exit 2
  ;;
esac

cmake --preset cuda >/dev/null
if cmake --build --preset cuda --target help | grep '^hexad_gpu_profile:' >/dev/null; then
  targets+=(hexad_gpu_profile)
else
  profile=  # CUPTI is missing, so there is no profiler
fi
cmake --build --preset cuda --parallel "$(nproc)" --target "${targets[@]}"

pack=build/pack/unpacked
rm -rf build/pack
mkdir -p $pack/bin $pack/lib $pack/openmpi
for program in "${programs[@]}"; do
  strip -o "$pack/bin/$(basename "$program")" "build/cuda/$program"
done
[ -z "$profile" ] || strip -o "$pack/lib/$profile" "build/cuda/lib/$profile"
if [ -e $pack/bin/hexad ]; then
  cp -L "$(command -v mpirun)" $pack/bin/mpirun
  plugins=$(dirname "$(ldd $pack/bin/hexad | awk '/libopen-pal/ {print $3}' | xargs readlink -f)")/openmpi/lib/openmpi3
  for plugin in "$plugins"/*.so; do
    # Skips network plugins, because these need many more libraries, and a single machine does not use such plugins.
    case $(basename "$plugin") in
    *ofi* | *ucx* | *verbs* | *openib* | *psm* | *usnic* | *portals* | *hcoll* | *cuda*) ;;
    *) cp "$plugin" $pack/openmpi ;;
    esac
  done
fi

# Libraries that are not packed: C and C++ libraries, which every machine has, and NVIDIA's libraries, which are large.
theirs='/(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)|lib(cu|nv)[^/]*)\.so'
find $pack/bin $pack/lib $pack/openmpi -type f -print0 | xargs -0 ldd | awk '$2 == "=>" && $3 ~ "^/" {print $3}' |
  sort -u | grep -Ev "$theirs" | xargs -I{} cp -L {} $pack/lib

archive=build/pack/hexad.tar.gz
tar -czf $archive -C $pack .
(cd $pack && for part in bin/* lib openmpi; do echo "pack: $(du -shL "$part" | tr '\t' ' ')"; done)
rm -r $pack
size=$(du -m $archive | cut -f1)
echo "pack: $archive, $size MB"
if [ "$size" -ge 50 ]; then
  echo "pack: $archive has $size MB, expected less than 50 MB" >&2
  exit 1
fi
