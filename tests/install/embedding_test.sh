#!/usr/bin/env bash
# embedding_test.sh SOURCE BUILD: follows docs/embedding.md with the files of that page.
. "$(dirname "$0")/page.sh"
follow_page embedding.md main.cpp CMakeLists.txt recipe.yaml

build_page
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
build/my-training recipe.yaml | tee alone
[ "$(grep -c '^step ' alone)" -eq 8 ] ||
  failed "the run printed $(grep -c '^step ' alone) steps, expected 8: $(cat alone)"
build/my-training recipe.yaml >again
[ ! -s again ] || failed "the complete run trained again: $(cat again)"
# `hexad` can read the checkpoint of this program.
hexad/bin/hexad inspect run/checkpoints/step-00000008 >inspected
grep -q 'step *8' inspected || failed "inspect does not list step 8: $(cat inspected)"
rm -rf run
mpirun -np 2 build/my-training recipe.yaml | tee two
# The values agree up to rounding, which may show in the last digit.
paste -d' ' alone two | awk '$2 != $8 || $6 != $12 || ($4 - $10)^2 > 4e-12 { wrong = 1 } END { exit wrong || NR != 8 }' ||
  failed "the losses of two ranks differ from those of one rank: $(paste alone two)"
# `eval` and `generate` can read a run of this program on text.
mkdir texts
for i in $(seq 10); do seq -f "line %g of text $i" 40 >texts/$i.txt; done
quietly hexad/bin/hexad prepare --input texts --output data --tokenizer bytes --heldout 0.3
sed -e 's/vocab: 64/vocab: 0/' -e 's/synthetic: true/dataset: data/' -e 's/dir: run/dir: text/' recipe.yaml >text.yaml
build/my-training text.yaml
hexad/bin/hexad eval text >evaluated
grep -q '^step 8: held-out loss [0-9.]* nats per token' evaluated || failed "eval does not print the held-out loss: $(cat evaluated)"
for run in text text/checkpoints/step-00000008; do
  hexad/bin/hexad generate $run --prompt 'line 1' --max-tokens 4 >written
  grep -q '^line 1' written || failed "the text does not begin with the prompt: $(cat written)"
done
