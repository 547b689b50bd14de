# This file is sourced by tests that prepare a folder of texts.
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

# Writes 20 files to the folder texts.
texts() {
  mkdir -p texts
  local i
  for i in $(seq 20); do
    seq -f "line %g of text $i: the quick brown fox jumps over the lazy dog" $((i * 2)) >texts/$i.txt
  done
}
# Prepares the dataset `data` from the folder texts.
prepare() { "$HEXAD" prepare --input texts --output data --tokenizer bytes --heldout 0.1 "$@"; }
