#!/usr/bin/env bash
# adding_a_kernel_test.sh SOURCE: applies the diffs of docs/adding-a-kernel.md to a copy of the sources, and runs what it runs.
set -euo pipefail
source=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/hexad"
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$scratch/hexad" -xf -
cd "$scratch/hexad"

failed() {
  echo "$1"
  exit 1
}
# The page's diffs, one file each.
awk '/^```diff$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside { print > sprintf("../diff-%d", n) }' docs/adding-a-kernel.md
apply() { patch --strip=1 --fuzz=0 --quiet <"../diff-$1" || failed "diff $1 of the page does not apply"; }
build() { cmake --build --preset release --target test_kernels_parity test_kernels_emulated >../build.log 2>&1 || failed "$(tail -30 ../build.log)"; }
parity=build/release/tests/test_kernels_parity

apply 1 && apply 2
cmake --preset release >../configure.log || failed "$(cat ../configure.log)"
build
$parity --gtest_filter='*HasNoHoles*' >../holes.log && failed 'there is no hole'
grep -q 'entry .* in declaration order' ../holes.log || failed "$(cat ../holes.log)"

for diff in 3 4 5 6; do apply $diff; done
build
$parity --gtest_filter='*HasNoHoles*:*multiply*' | tee ../parity.log
grep -q 'multiply' ../parity.log || failed 'no case of multiply ran'
build/release/tests/test_kernels_emulated
