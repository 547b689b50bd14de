#!/usr/bin/env bash
# Measures the wall-clock and CPU seconds of the same command with two programs in turn. Prints medians and raw rows.
#
#   tools/bench/two_programs.sh [--rounds 5] [--busy 0] [--limit 120] OLD NEW COMMAND...
#
# HEXAD in COMMAND is replaced by the program, and run.dir=... is appended. Example: mpirun -np 4 HEXAD train r.yaml
# --busy N: runs N other processes that never sleep. A command is ended after --limit seconds; its row still counts.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")

rounds=5 busy=0 limit=120
while [[ ${1:-} == --* ]]; do
  case $1 in
  --rounds) rounds=$2 ;;
  --busy) busy=$2 ;;
  --limit) limit=$2 ;;
  *)
    echo "two_programs: unknown option '$1'" >&2
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2 && exit 2
    ;;
  esac
  shift 2
done
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
programs=("$1" "$2")
shift 2

scratch=$(mktemp -d)
loads=()
end() {
  [ ${#loads[@]} -eq 0 ] || kill "${loads[@]}" 2>/dev/null || true
  rm -rf "$scratch"
}
trap end EXIT
for ((i = 0; i < busy; i++)); do
  while :; do :; done &
  loads+=($!)
done

TIMEFORMAT='%R %U %S'
for ((round = 0; round < rounds; round++)); do
  for which in 0 1; do
    command=("${@/HEXAD/${programs[which]}}")
    rm -rf "$scratch/run"
    if ! { time timeout "$limit" "${command[@]}" run.dir="$scratch/run" >"$scratch/out" 2>&1; } 2>"$scratch/time"; then
      [ "$(awk '{print ($1 >= '"$limit"')}' "$scratch/time")" == 1 ] || { tail -5 "$scratch/out" >&2 && exit 1; }
    fi
    step=$(sed -n 's/.*, \([^,]*\) \(a\|per\) step on average.*/\1/p' "$scratch/out" | tail -1)
    awk -v which=$which -v step="${step:--}" '{print which ? "new" : "old", $1, $2 + $3, step}' "$scratch/time" | tee -a "$scratch/rows"
  done
done
awk -f "$here/median.awk" -f "$here/two_programs.awk" "$scratch/rows"
