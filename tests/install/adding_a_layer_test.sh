#!/usr/bin/env bash
# adding_a_layer_test.sh SOURCE BUILD: does what docs/adding-a-layer.md says, with the files of that page, against a
# fresh installation of BUILD.
set -euo pipefail
source=$(realpath "$1")
build=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

cmake --install "$build" --prefix "$scratch/hexad" >install.log || { cat install.log; exit 1; }

# A line "`NAME`:" names the fenced block that follows it.
awk '/^`[^`]+`:$/ { name = substr($0, 2, length($0) - 3); next }
     /^```/ { if (inside) { inside = 0; name = "" } else if (name != "") inside = 1; next }
     inside { print > name }' "$source/docs/adding-a-layer.md"
for file in main.cpp CMakeLists.txt recipe.yaml; do
  [ -s $file ] || { echo "docs/adding-a-layer.md does not hold $file"; exit 1; }
done

# The plain program must refuse the recipe first.
code=0
hexad/bin/hexad validate recipe.yaml 2>refused || code=$?
[ $code -eq 2 ] && grep -q 'bottleneck) is no registered layer' refused || { echo "exit code $code"; cat refused; exit 1; }

cmake -B build -DCMAKE_PREFIX_PATH="$scratch/hexad" -DCMAKE_BUILD_TYPE=Release >configure.log || {
  cat configure.log
  exit 1
}
cmake --build build
build/my-hexad train recipe.yaml
build/my-hexad inspect run >inspected
grep -q '^layers.1.mlp.down.weight .*\[32, 16\]' inspected || { cat inspected; exit 1; }
build/my-hexad train recipe.yaml train.steps=4 2>&1 | tee resumed
grep -q 'resumed from' resumed
