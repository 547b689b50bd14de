#!/usr/bin/env bash
# Tests the generator of reference trajectories. Options set other sizes and seeds. Without options, and with the
# PyTorch that made the stored files, the generator reproduces these files up to rounding.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
version=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null) || {
  echo "skipped: PyTorch is not installed"
  exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
golden() { "$python" tools/golden/make_golden.py "$@"; }
failed() {
  echo "FAILED: $*"
  exit 1
}

golden "$folder/other" --seed 5 --steps 2 --sequences 1 --decoder layers=1 experts=8 --encoder heads=2 >/dev/null
"$python" - "$folder/other" <<'E' || failed "the options for sizes or seed have no effect"
import json, sys
decoder, encoder = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("moe_decoder", "encoder"))
assert decoder["seed"] == encoder["seed"] == 5
assert len(decoder["steps"]) == 2 and decoder["micro_batch_sequences"] == 1
assert decoder["model"]["layers"] == 1 and decoder["model"]["experts"] == 8 and decoder["model"]["hidden"] == 32
assert encoder["model"]["heads"] == 2
E
if golden "$folder/wrong" --decoder lyers=1 2>"$folder/err"; then failed "the unknown size 'lyers' was accepted, expected an error"; fi
grep -q "unknown size lyers, expected one of: layers, hidden" "$folder/err" || failed "the message does not list the known sizes: $(cat "$folder/err")"

if grep -q "\"torch\": \"$version\"" tests/golden/moe_decoder.json; then
  golden "$folder/same" >/dev/null
  "$python" tests/tools/golden_compare.py "$folder/same" tests/golden || failed "the generated files differ from those in tests/golden"
fi
