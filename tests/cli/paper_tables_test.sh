#!/usr/bin/env bash
# Tables of tools/bench. awk must be able to read every combination of programs that a script names.
# Nothing is measured.
. "$(dirname "$0")/cli.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)

# Prints the options -f of each awk command in the scripts, one command per line.
programs() {
  local script line name
  for script in "$root"/tools/bench/*.sh "$root"/tools/bench/papers/*.sh; do
    sed -e '/^ *#/d' -e ':again' -e '/\\$/N' -e 's/\\\n//' -e 't again' "$script" | tr -d '"' | grep -- '-f tools/bench/' >commands
    while read -r line; do
      line=$(grep -oE -- '-f tools/bench/[A-Za-z0-9_/$]*\.awk' <<<"$line" | tr '\n' ' ')
      if [[ $line != *'$1'* ]]; then
        echo "$line"
      else  # a function `table NAME ROWS`
        for name in $(sed -n 's/^ *table \([a-z_]*\) .*/\1/p' "$script" | sort -u); do echo "${line//\$1/$name}"; done
      fi
    done <commands
  done
}

test_programs_of_tables_can_be_read() {
  echo 'END { exit 0 }' >end.awk  # ends awk before other END blocks divide by the number of rows, zero
  programs >all
  [ "$(wc -l <all)" -ge 12 ] || failed "found only $(wc -l <all) programs"
  local options end=$PWD/end.awk
  while read -r options; do
    # shellcheck disable=SC2086
    (cd "$root" && awk -f "$end" $options </dev/null) >out 2>err || failed "awk cannot read these programs together: $options"
    [ ! -s err ] || failed "awk cannot read these programs together: $options"
  done <all
}

run_tests "$@"
