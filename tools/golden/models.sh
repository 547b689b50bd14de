#!/usr/bin/env bash
# Makes tests/golden/hf again: small random models of every family that `hexad import` reads, with what `transformers`
# computes from them. Installs PyTorch and transformers from PyPI into a virtual environment of its own.
#
#   tools/golden/models.sh                      all families, into tests/golden/hf
#   tools/golden/models.sh --out DIR qwen3_moe  one family, into DIR/qwen3_moe
#
# HEXAD_MODELS_VENV names the folder of the environment (default: build/models-venv); it is kept for the next call.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=tests/golden/hf
if [ "${1:-}" = --out ]; then
  [ $# -ge 2 ] || { echo "models.sh: --out needs a folder" >&2; exit 2; }
  out=$2
  shift 2
fi
python=$(tools/golden/models_python.sh)
exec "$python" tools/golden/models.py "$out" "$@"
