#!/usr/bin/env bash
# Draws docs/reports/images/mesh-*.svg. --check: changes no file, and fails if the stored pictures differ from newly
# drawn pictures. Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
hexad=$(realpath "${HEXAD:-build/release/bin/hexad}")
check=false
[ "${1:-}" != --check ] || check=true
drawn=$(mktemp -d "${TMPDIR:-/tmp}/hexad-pictures.XXXXXX")
trap 'rm -rf "$drawn"' EXIT

mkdir "$drawn/new" "$drawn/stored"
picture() { # picture NAME RANKS OVERRIDES...: draws mesh-NAME.svg
  "$hexad" validate recipes/verify-moe.yaml --world "$2" --mesh --svg "$drawn/new/mesh-$1.svg" "${@:3}" >"$drawn/out"
}
picture horizontal 8 parallel.cp=2 parallel.ep=4 parallel.cp_expansion=horizontal
picture vertical 8 parallel.cp=2 parallel.ep=4 parallel.cp_expansion=vertical
picture folded 8 parallel.tp=2 parallel.ep=4 parallel.etp=1
picture everything 16 parallel.pp=2 parallel.tp=2 parallel.sp=true parallel.cp=2 parallel.ep=4

if $check; then
  cp docs/reports/images/mesh-*.svg "$drawn/stored"
  diff -rq "$drawn/new" "$drawn/stored" || {
    echo "docs/reports/images/mesh-*.svg differ from the new pictures; run tools/docs/mesh_pictures.sh to replace them" >&2
    exit 1
  }
else
  rm -f docs/reports/images/mesh-*.svg
  cp "$drawn"/new/mesh-*.svg docs/reports/images/
fi
