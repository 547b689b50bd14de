#!/usr/bin/env bash
# Installs the missing Debian packages that Hexad needs. Requires root or sudo only if a package is missing.
#
#   tools/install-dependencies.sh              packages for building, testing and the quickstart
#   tools/install-dependencies.sh --dev        also git, clang-format and oneDNN, for CI's checks of the sources
#   tools/install-dependencies.sh --bench      also PyTorch and oneDNN, for comparisons in tools/bench and hexad bench
#   tools/install-dependencies.sh --golden     also PyTorch, which computes tests/golden
#   tools/install-dependencies.sh --slurm      also packages for tools/testbed/slurm_cluster.sh and its test
#   tools/install-dependencies.sh --mpich      also MPICH, for the preset mpich; Open MPI remains the default
#   tools/install-dependencies.sh --cuda       also files from PyPI for the preset cuda: headers in build/headers and
#                                              disassemblers in build/cuda-tools. Needs NVIDIA's CUDA toolkit.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config
  libopenmpi-dev openmpi-bin
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev libxxhash-dev zlib1g-dev libzstd-dev
  libpcre2-dev libicu-dev libsentencepiece-dev  # for tokenizers: regular expressions, Unicode, SentencePiece
  libeigen3-dev                   # for least squares, reference results of tests, and a line of `hexad bench gemm`
  libboost-context-dev            # for two micro-batches that take turns on one thread
  libmimalloc-dev                 # allocates the many small objects of plans and of `hexad verify` faster than glibc
  libjs-chart.js                  # draws the charts of report.html, which contains a copy of it
  perl libreadline8               # for tools/corpus.sh, which reads an R database and runs bible(1)
  libgtest-dev patch
)
peers=(libdnnl-dev ocl-icd-opencl-dev)  # compared by `hexad bench gemm`; the CMake files of oneDNN search for OpenCL
cuda=no
for option in "$@"; do
  case $option in
  --cuda) cuda=yes ;;
  --dev) packages+=(git clang-format "${peers[@]}") ;;
  # python3-torch also accepts the reference BLAS, but is 50 times faster with OpenBLAS. The OpenMP variant of OpenBLAS
  # shares the threads of PyTorch.
  --bench) packages+=(python3-torch libopenblas0-openmp time "${peers[@]}") ;;
  --golden) packages+=(python3-torch) ;;
  # Slurm loads PMIx by a file name that only libpmix-dev contains. Slurm's daemons are not started.
  --slurm) packages+=(slurmctld slurmd slurm-client libpmix-dev iproute2) ;;
  --mpich) packages+=(mpich libmpich-dev) ;;
  *)
    echo "install-dependencies: unknown option '$option'" >&2
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
  esac
done

# wheel_package NAME VERSION TARGET FOLDER...: copies the contents of the given folders of a PyPI wheel to TARGET. Does
# nothing if TARGET exists.
wheel_package() {
  local name=$1 version=$2 target=$3 scratch folder
  [ ! -d "$target" ] || return 0
  echo "install-dependencies: fetching $name $version"
  scratch=$(mktemp -d)
  if ! python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" "$name==$version"; then
    rm -r "$scratch"
    echo "install-dependencies: pip could not download $name==$version; check that pip (python3-pip) and the network are available" >&2
    return 1
  fi
  python3 -m zipfile -e "$scratch"/*.whl "$scratch/wheel"
  mkdir -p "$target.part"
  for folder in "${@:4}"; do
    cp -r "$scratch/wheel/$folder/." "$target.part"
  done
  mv "$target.part" "$target"
  rm -r "$scratch"
}

if [ $cuda = yes ]; then
  headers=$(cd "$(dirname "$0")/.." && pwd)/build/headers
  cutlass=cutlass_library/source
  wheel_package nvidia-cutlass 4.2.0.0 "$headers/cutlass/include" $cutlass/include $cutlass/tools/util/include
  wheel_package nvidia-cudnn-frontend 1.32.0 "$headers/cudnn-frontend/include" include
  for tool in cuobjdump nvdisasm; do  # used by tools/gpu/check_build.py; the toolkit may lack them
    wheel_package nvidia-cuda-$tool 13.5.37 "$headers/../cuda-tools/$tool" nvidia/cu13/bin
    chmod +x "$headers/../cuda-tools/$tool/$tool"
  done
  if ! command -v nvcc >/dev/null && [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
    echo "install-dependencies: nvcc is missing: install NVIDIA's CUDA toolkit 13 with cuDNN 9 and put the toolkit's" \
      "folder bin on the PATH (this script does not install them)" >&2
    exit 1
  fi
fi

if ! command -v dpkg-query >/dev/null; then
  echo "install-dependencies: this is not a Debian system; install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

# Ignores failures of dpkg-query, because a failure only means that a package is unknown and therefore not installed.
installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  [[ $installed == *" installed $package "* ]] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-dependencies: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    echo "install-dependencies: installing needs root or sudo; ask an administrator to run:" \
      "apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install-dependencies: installing ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }
apt update || echo "install-dependencies: 'apt-get update' failed; continuing with the existing package lists" >&2
apt install --yes --no-install-recommends "${missing[@]}" >/dev/null || {
  echo "install-dependencies: apt-get could not install ${missing[*]}; see its messages above" >&2
  exit 1
}
