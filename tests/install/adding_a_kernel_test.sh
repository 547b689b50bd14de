#!/usr/bin/env bash
# adding_a_kernel_test.sh SOURCE: applies the diffs of docs/adding-a-kernel.md to a copy of the sources, and runs the
# commands of that page.
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
# Writes each diff of the page to its own file.
awk '/^```diff$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside { print > sprintf("../diff-%d", n) }' docs/adding-a-kernel.md
# Applies a diff of the page, given by its number.
apply() { patch --strip=1 --fuzz=0 --quiet <"../diff-$1" || failed "diff $1 of the page does not apply"; }
configure() { cmake --preset release >../configure.log 2>&1 || failed "CMake failed: $(cat ../configure.log)"; }
build() { cmake --build --preset release --target test_kernels_parity test_kernels_emulated >../build.log 2>&1; }

# After the diffs of the contract and its test case, everything compiles, and the linker names the missing functions.
apply 1 && apply 2
configure
build && failed 'the linker does not report the missing functions'
for backend in reference cpu; do
  grep -q "MultiplyKernels::of_$backend" ../build.log || failed "the linker does not report the function for $backend: $(tail -30 ../build.log)"
done

# The build configures itself again, because CMake finds the new sources.
for diff in 3 4 5; do apply $diff; done
build || failed "the build failed: $(tail -30 ../build.log)"
parity=build/release/tests/test_kernels_parity
$parity --gtest_filter='*HasNoHoles*:*EveryEntryHasAParityCase*:*multiply*' | tee ../parity.log
grep -q 'multiply_backward' ../parity.log || failed 'no case of multiply ran'
build/release/tests/test_kernels_emulated
