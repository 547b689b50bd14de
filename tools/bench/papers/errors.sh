#!/usr/bin/env bash
# Prints the errors of the predictions of scripts in this folder: for each script, and for all rows together. Reads the
# folders that the scripts wrote with --output. An error is the difference between the predicted and the measured time,
# divided by the measured time. The measured time is the median over the rounds of one schedule.
#
#   tools/bench/papers/errors.sh FOLDER...
#
# A row of the table is named after its folder. "passes": forward or backward of a layer in moe_layer. "layers": both
# passes of a layer in training steps. Exits with 2 if a folder has no prediction.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"

[ $# -gt 0 ] || usage 'no folder is given'
for folder in "$@"; do
  [[ $folder != -* ]] || usage "unknown option '$folder'"
  [ -d "$folder" ] || usage "FOLDER is '$folder', expected a folder that a script wrote with --output"
  find "$folder" -maxdepth 1 -type f ! -name '*.yaml' ! -name '*.new' -exec cat {} + >"$scratch/rows"
  awk -f "$here/../median.awk" -f "$here/errors.awk" -v script="$(basename "$folder")" "$scratch/rows" >"$scratch/errors"
  [ -s "$scratch/errors" ] || usage "FOLDER is '$folder', which has no rows with predictions"
  cat "$scratch/errors" >>"$scratch/all"
done
by_error() { sort -t $'\t' -k1,1 -k2,2 -k3,3g; }
{
  by_error <"$scratch/all"
  sed 's/^[^\t]*/all/' "$scratch/all" | by_error
  sed 's/^[^\t]*\t[^\t]*/all\tboth/' "$scratch/all" | by_error
} | awk -f "$here/../median.awk" -f "$here/errors_table.awk"
