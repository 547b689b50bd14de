#!/usr/bin/env bash
# Tests the tables and plots of tools/bench/scale_growth.sh with the rows of a program that measures nothing.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed() {
  echo "FAILED: $*"
  cat "$folder/out" "$folder/err"
  exit 1
}
expect_line() { grep -qE -- "$1" "$folder/out" || failed "no line matches: $1"; }

cat >"$folder/bench" <<'END'
#!/usr/bin/env bash
for ranks; do
  printf '%s\tnodes\t0\t0\t1048576\t0.001\n' "$ranks"
  printf '%s\tcontrol of a step\t256\t1000\t2097152\t0.002\n' "$ranks"
  printf '%s\tcomparison of replicas\t60\t1000\t2097152\t0.002\n' "$ranks"
done
END
chmod +x "$folder/bench"
growth() { BENCH=$folder/bench "$source/tools/bench/scale_growth.sh" "$@" >"$folder/out" 2>"$folder/err"; }

growth --svg "$folder/plot.svg" 64 16384 || failed "exit code $?, expected 0"
# "before" has 8 agreements with every other rank: a barrier, 6 of 8 bytes and one of 160 bytes. Among 16,384 ranks,
# these agreements take 400 ms.
expect_line '^ +64 +1008 +256 +26208 +1000 +- +2\.00 +- +2\.00$'
expect_line '^ +16384 +262128 +256 +6815328 +1000 +- +2\.00 +400\.00 +2\.00$'
# "before" gathers the digests of all ranks: 16,008 bytes of each rank, after 8 bytes for their length.
expect_line '^ +64 +252 +60 +2018016 +1000 +0\.98 +2\.00 +- +2\.00$'
expect_line '^ +64 +- +0 +- +0 +- +1\.00 +- +1\.00$'
expect_line '^ +64 before +1008 #{10}$'
expect_line '^ +now +256 #{8}$'
[ "$(grep -c '<polyline ' "$folder/plot.svg")" -eq 4 ] || failed "the picture does not have two lines for each of two activities"
grep -qF '</svg>' "$folder/plot.svg" || failed 'the picture is incomplete'

growth 64 || failed "exit code $?, expected 0"
expect_line '^ +64 +1008 '
code=0
growth 64 many || code=$?
[ $code -eq 2 ] || failed "exit code $code, expected 2"
grep -qF "a number of ranks is 'many'" "$folder/err" || failed 'the wrong number is not named'
echo passed
