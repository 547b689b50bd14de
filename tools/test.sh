#!/usr/bin/env bash
# Installs missing packages, builds, and runs the tests.
#
#   tools/test.sh [release|debug|tsan] [--all] [-- CMAKE_OPTION...]
#
# debug: with AddressSanitizer and UndefinedBehaviorSanitizer. tsan: with ThreadSanitizer. --all: also runs the tests
# labelled slow and gpu. CMake options remain in effect for the build folder until they are changed.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
labels=(-LE '^(slow|gpu)$')
while [ $# -gt 0 ]; do
  case $1 in
  release | debug | tsan) preset=$1 ;;
  --all) labels=() ;;
  --)
    shift
    break
    ;;
  *)
    echo "test.sh: unknown argument '$1'" >&2
    sed -n '4,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
  esac
  shift
done

tools/install-dependencies.sh
cmake --preset "$preset" "$@"
cmake --build --preset "$preset" --parallel "$(nproc)"

if [ "$(id -u)" -eq 0 ]; then  # by default, Open MPI refuses to run tests as root
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
ctest --preset "$preset" "${labels[@]}" --no-tests=error --parallel "$(nproc)"
