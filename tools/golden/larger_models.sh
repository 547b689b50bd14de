#!/usr/bin/env bash
# Makes small random models with a vision encoder, as `transformers` saves them. Imports the text model of each model,
# exports the text model, and loads the export in `transformers` as a text model. Prints the largest difference of the
# logits, divided by the largest logit. Needs a built tree.
#
#   tools/golden/larger_models.sh [BUILD]   BUILD is build/release by default
#
# HEXAD_MODELS_VENV: as in tools/golden/models.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(tools/golden/models_python.sh)
"$python" tools/golden/models.py --larger "$work" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}
for folder in "$work"/*/; do
  family=$(basename "$folder")
  "$build/bin/hexad" import --text-only "$folder" "$work/imported.$family" >"$work/log" 2>"$work/notes"
  "$build/bin/hexad" export "$work/imported.$family" "$work/exported.$family" >"$work/log" 2>"$work/notes"
  loaded=$("$python" tools/golden/models.py --load "$work/exported.$family" "$folder" 2>/dev/null)
  echo "$family: loads in transformers as a text model, difference of logits $loaded"
done
