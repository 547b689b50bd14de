#!/usr/bin/env bash
# diffs_test.sh: applies the diffs of README.md, CONTRIBUTING.md and the pages in docs to copies of the files. The diffs
# of a page are applied in their order on the page.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

blocks=0
for page in $(grep -l '^```diff$' README.md CONTRIBUTING.md docs/*.md); do
  copy=$scratch/${page//\//-}
  mkdir "$copy"
  awk -v folder="$copy" '/^```diff$/ { n++; inside = 1; next } /^```$/ { inside = 0 }
    inside { print > sprintf("%s/%02d.diff", folder, n) }' "$page"
  for diff in "$copy"/*.diff; do
    for file in $(sed -n 's#^--- a/##p' "$diff"); do
      [ -e "$copy/$file" ] || install -D "$file" "$copy/$file"
    done
    if ! patch --directory="$copy" --strip=1 --fuzz=0 <"$diff" >"$scratch/log"; then
      echo "$page: diff $((10#$(basename "$diff" .diff))) does not apply:"
      cat "$scratch/log"
      exit 1
    fi
    blocks=$((blocks + 1))
  done
done
[ $blocks -gt 0 ] || { echo "no page has a diff"; exit 1; }
echo "$blocks diffs apply"
