#!/usr/bin/env bash
# Generates tests/golden/hf: small random models of every family that `hexad import` reads, and the results that
# `transformers` computes with them. Installs PyTorch and transformers into a separate virtual environment.
#
#   tools/golden/models.sh                      all families, into tests/golden/hf
#   tools/golden/models.sh --out DIR qwen3_moe  one family, into DIR/qwen3_moe
#
# HEXAD_MODELS_VENV: folder of the environment (default: build/models-venv), which is kept for the next call.
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
