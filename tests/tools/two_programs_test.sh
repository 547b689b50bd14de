#!/usr/bin/env bash
# tools/bench/two_programs.sh runs two programs in turn. It prints a row for each run, and then each program's medians.
set -euo pipefail
bench=$(cd "$(dirname "$0")/../../tools/bench" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed() {
  echo "FAILED: $*"
  exit 1
}
medians() { awk -f "$bench/median.awk" -f "$bench/two_programs.awk"; }

rows=("old 4 1 -" "new 10 2 -" "old 1 9 -" "new 9 2 -" "old 2 3 -" "new 30 2 -" "old 8 4 -" "new 20 2 -")
found=$(printf '%s\n' "${rows[@]}" | medians)
[ "$found" == "old: median 3.000 s, 3.500 s of CPU time
new: median 15.000 s, 2.000 s of CPU time" ] || failed "medians of 4 rounds: $found"
found=$(printf '%s\n' "${rows[@]:0:6}" | medians)
[ "$found" == "old: median 2.000 s, 3.000 s of CPU time
new: median 10.000 s, 2.000 s of CPU time" ] || failed "medians of 3 rounds: $found"

for name in old new; do
  printf '#!/bin/sh\necho %s "$@" >>"%s/calls"\n' $name "$folder" >"$folder/$name"
  chmod +x "$folder/$name"
done
"$bench/two_programs.sh" --rounds 2 "$folder/old" "$folder/new" HEXAD train r.yaml >"$folder/out"
sed 's/ run\.dir=.*//' "$folder/calls" >"$folder/commands"
[ "$(tr '\n' ';' <"$folder/commands")" == "old train r.yaml;new train r.yaml;old train r.yaml;new train r.yaml;" ] ||
  failed "the programs were called as: $(cat "$folder/commands")"
sed -E 's/[0-9.]+/N/g' "$folder/out" >"$folder/form"
medians="old: median N s, N s of CPU time;new: median N s, N s of CPU time;"
[ "$(tr '\n' ';' <"$folder/form")" == "old N N -;new N N -;old N N -;new N N -;$medians" ] ||
  failed "the output is: $(cat "$folder/out")"
