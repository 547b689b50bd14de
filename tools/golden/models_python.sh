#!/usr/bin/env bash
# Prints the path of a Python interpreter with PyTorch (for CPUs, if possible) and transformers. Installs both on the
# first call.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${HEXAD_MODELS_VENV:-build/models-venv}
versions="transformers==5.24.0 safetensors==0.8.0 numpy"
if ! "$venv/bin/python" -c 'import torch, transformers, safetensors' 2>/dev/null; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet torch --index-url https://download.pytorch.org/whl/cpu >&2 ||
    "$venv/bin/pip" install --quiet torch >&2
  # shellcheck disable=SC2086  # split into words on purpose
  "$venv/bin/pip" install --quiet $versions >&2
fi
case $venv in
  /*) echo "$venv/bin/python" ;;
  *) echo "$PWD/$venv/bin/python" ;;
esac
