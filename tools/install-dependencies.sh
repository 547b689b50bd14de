#!/usr/bin/env bash
# Installs the Debian packages that Hexad is built from, as far as they are missing. Needs root or sudo only then.
#
#   tools/install-dependencies.sh              what building, testing and the quickstart need
#   tools/install-dependencies.sh --dev        also what CI checks the sources with
#   tools/install-dependencies.sh --bench      also the PyTorch that tools/bench compares with
#   tools/install-dependencies.sh --golden     also the PyTorch that computes tests/golden
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config
  libopenmpi-dev openmpi-bin
  libdnnl-dev ocl-icd-opencl-dev  # the CMake files of oneDNN look for OpenCL, which is not used
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev libxxhash-dev zlib1g-dev
  libboost-context-dev            # two micro-batches that take turns on one thread
  libjs-chart.js                  # drawn into report.html
  perl libreadline8               # tools/corpus.sh: unpacks an R data base, runs bible(1)
  libgtest-dev
)
for option in "$@"; do
  case $option in
  --dev) packages+=(git clang-format) ;;
  # With the reference BLAS, which python3-torch is content with, PyTorch is 50 times slower than with OpenBLAS,
  # whose OpenMP variant shares its threads with it.
  --bench) packages+=(python3-torch libopenblas0-openmp time) ;;
  --golden) packages+=(python3-torch) ;;
  *)
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install-dependencies: this is not a Debian system; install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

# dpkg-query fails when it does not know a package at all, which is an answer here.
installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  [[ $installed == *" installed $package "* ]] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-dependencies: everything is there (${#packages[@]} packages)"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    echo "install-dependencies: neither root nor sudo; ask for: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install-dependencies: installing ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }
apt update || echo "install-dependencies: 'apt-get update' failed; going on with the package lists that are there" >&2
apt install --yes --no-install-recommends "${missing[@]}" >/dev/null || {
  echo "install-dependencies: apt-get could not install: ${missing[*]}" >&2
  exit 1
}
