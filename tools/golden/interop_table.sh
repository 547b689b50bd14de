#!/usr/bin/env bash
# Prints the table of docs/interop.md. For each family that has a small golden model (tools/golden/models.sh), the table
# shows how well the imported model agrees with transformers. Needs a built tree.
#
#   tools/golden/interop_table.sh [BUILD]           print the table; BUILD is build/release by default
#   tools/golden/interop_table.sh [BUILD] --write   put the table into docs/interop.md
#
# For the column "loads in transformers", exports each model. Then compares the logits of the export with those of the
# original model. transformers computes both (tools/golden/models_python.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/release write=
for argument in "$@"; do
  case $argument in
    --write) write=yes ;;
    -*) echo "interop_table.sh: unknown option '$argument', expected [BUILD] [--write]" >&2; exit 2 ;;
    *) build=$argument ;;
  esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(tools/golden/models_python.sh)
HEXAD_INTEROP_TABLE=$work/rows "$build/tests/test_interop_golden_models" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}

{
  echo "| family | parameters | logits | gradients | export | loads in transformers |"
  echo "|---|---|---|---|---|---|"
  while read -r family parameters logits gradients bytes; do
    "$build/bin/hexad" import "tests/golden/hf/$family" "$work/$family" >"$work/log"
    "$build/bin/hexad" export "$work/$family" "$work/$family.exported" >"$work/log"
    loaded=$("$python" tools/golden/models.py --load "$work/$family.exported" "tests/golden/hf/$family" 2>/dev/null)
    [ "$gradients" = nan ] && gradients=- || gradients=$(printf '%.0e' "$gradients")
    printf '| `%s` | %s | %.0e | %s | %s | %s |\n' "$family" "$parameters" "$logits" "$gradients" "$bytes" "$loaded"
  done <"$work/rows"
} >"$work/table"

if [ -z "$write" ]; then
  cat "$work/table"
else
  awk -v table="$work/table" '
    /^<!-- table/ { print; while ((getline line < table) > 0) print line; skipping = 1; next }
    /^<!-- end/ { skipping = 0 }
    !skipping' docs/interop.md >"$work/page"
  cp "$work/page" docs/interop.md
fi
