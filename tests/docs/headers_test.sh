#!/usr/bin/env bash
# headers_test.sh: checks that no two headers outside tests have the same file name, so that a reader finds a header by
# its name alone.
set -euo pipefail
cd "$(dirname "$0")/../.."

headers=$(find framework layers optim parallel tools -name '*.h' -o -name '*.cuh')
[ -n "$headers" ] || { echo "no headers in $PWD"; exit 1; }
names=$(sed 's#.*/##' <<<"$headers" | sort)
bad=0
for name in $(uniq -d <<<"$names"); do
  printf 'several headers are named %s, expected one header of this name; rename all but the most central:\n' "$name"
  grep "/$name\$" <<<"$headers"
  bad=1
done
echo "checked the names of $(wc -l <<<"$headers") headers"
exit $bad
