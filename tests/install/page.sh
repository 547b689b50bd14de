# This file is sourced by the tests of pages that show a project built against the installed package. The tests take the
# arguments SOURCE BUILD. `follow_page PAGE FILE...` makes a new folder and writes the files of docs/PAGE to it. Then it
# installs BUILD, a build of SOURCE, into the subfolder hexad. The page must show each FILE.
set -euo pipefail
source=$(realpath "$1")
build=$(realpath "$2")

follow_page() {
  local page=$source/docs/$1 file
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  cd "$scratch"
  quietly cmake --install "$build" --prefix "$scratch/hexad"
  # A line "`NAME`:" names the fenced block that follows it.
  awk '/^`[^`]+`:$/ { name = substr($0, 2, length($0) - 3); next }
       /^```/ { if (inside) { inside = 0; name = "" } else if (name != "") inside = 1; next }
       inside { print > name }' "$page"
  for file in "${@:2}"; do [ -s "$file" ] || failed "$page does not show $file"; done
}

# Builds the project of the page.
build_page() {
  quietly cmake -B build -DCMAKE_PREFIX_PATH="$scratch/hexad" -DCMAKE_BUILD_TYPE=Release
  cmake --build build
}

# `expect_refused TEXT`: expects the installed `hexad`, which lacks the code of the page, to refuse the recipe with exit
# code 2 and this text.
expect_refused() {
  local code=0
  hexad/bin/hexad validate recipe.yaml 2>refused || code=$?
  [ $code -eq 2 ] && grep -qF "$1" refused || failed "exit code $code, expected 2 and the text $1: $(cat refused)"
}

quietly() { "$@" >quiet.log 2>&1 || failed "$*: $(cat quiet.log)"; }
failed() {
  echo "$1"
  exit 1
}
