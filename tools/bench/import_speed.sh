#!/usr/bin/env bash
# Compares the speed of `hexad import` and `hexad export` with a copy of the same files by dd. Like these commands, dd
# waits until the data are on the disk. The model is random: qwen3_moe in bf16, in shards. The three programs run in a
# different order in each round; six rounds have all orders. The output of each program is removed before the next one
# starts.
#
#   tools/bench/import_speed.sh [--bytes 1000000000] [--rounds 6] [--folder FOLDER]
#   tools/bench/import_speed.sh --rows FILE
#
# FOLDER, on the disk to be measured (default: a temporary folder), needs free space for three times --bytes. --rows
# prints the table of a stored output. Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

bytes=1000000000 rounds=6 folder=$scratch rows=
while [ $# -gt 0 ]; do
  case $1 in
  --bytes) bytes=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --folder) folder=${2:?} ;;
  --rows) rows=${2:?} ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
table() { awk -F '\t' -f tools/bench/median.awk -f tools/bench/import_speed.awk "$1"; }
if [ -n "$rows" ]; then
  table "$rows"
  exit
fi
for option in bytes rounds; do
  [[ ${!option} =~ ^[1-9][0-9]*$ ]] || usage "--$option is '${!option}', expected a whole number above 0"
done
need "$hexad" 'cmake --preset release && cmake --build --preset release'
work=$(mktemp -d "$folder/import_speed.XXXXXX")
trap 'rm -rf "$work" "$scratch"' EXIT
python3 tools/bench/large_model.py "$work/model" "$bytes"
size=$(cat "$work"/model/*.safetensors | wc -c)

copy() {
  mkdir "$work/copy"
  local file
  for file in "$work"/model/*; do dd if="$file" of="$work/copy/${file##*/}" bs=4M conv=fsync status=none; done
}
import() { "$hexad" import "$work/model" "$work/imported" >"$scratch/log"; }
export_() { "$hexad" export "$work/source" "$work/exported" >"$scratch/log"; }

measure() {  # measure ROUND NAME COMMAND: adds a row: round, name, bytes, seconds, CPU seconds
  local TIMEFORMAT='%R %U %S'
  { time "$3" 2>&3; } 3>&2 2>"$scratch/time"
  awk -v OFS='\t' -v round="$1" -v name="$2" -v size="$size" '{ print round, name, size, $1, $2 + $3 }' "$scratch/time" |
    tee -a "$scratch/rows"
}
order_of_round() {  # order_of_round ROUND: prints the names of the programs; six rounds have all orders
  case $(($1 % 6)) in
  1) echo copy import export ;;
  2) echo export import copy ;;
  3) echo import export copy ;;
  4) echo copy export import ;;
  5) echo export copy import ;;
  0) echo import copy export ;;
  esac
}

"$hexad" import "$work/model" "$work/source" >"$scratch/log"
machine
echo "model:     $size bytes in $(find "$work/model" -name '*.safetensors' | wc -l) shards; disk of $folder"
printf '\nround, program, bytes, seconds, CPU seconds\n'
for ((round = 1; round <= rounds; round++)); do
  for name in $(order_of_round "$round"); do
    program=$name
    [ "$name" != export ] || program=export_
    measure "$round" "$name" "$program"
    rm -rf "$work/copy" "$work/imported" "$work/exported"
  done
done
echo
table "$scratch/rows"
