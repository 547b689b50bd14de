#!/usr/bin/env bash
# Goes the way of a user who trains a model of the Hugging Face library on chats: a small random model by transformers,
# import, data with the model's chat template, training on four ranks (tp 2, ep 2), answers, export, answers of the export by
# transformers, and a second import whose export has the same bytes.
#
#   tools/golden/chats.sh [FOLDER]
#
# FOLDER keeps all files (default: a temporary folder). HEXAD: the program (build/release/bin/hexad). Installs PyTorch and
# transformers by models_python.sh. Takes about three minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/launcher.sh
hexad=$(realpath "${HEXAD:-build/release/bin/hexad}")
scripts=$PWD/tools/golden
python=$(tools/golden/models_python.sh)
folder=${1:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
cd "$folder"

show() {  # show COMMAND...: prints and runs it
  printf '\n$ %s\n' "${*/#$hexad/hexad}"
  "$@"
}
question="Mia has 9 cups and gets 9 more. How many cups does Mia have?"
"$python" "$scripts/chat_model.py" make . 2>log
show "$hexad" import model imported
show "$hexad" prepare --input chats.jsonl --output data --chat-form model --tokenizer model --heldout 0.05
set_launcher 4
show "${mpi[@]}" "$hexad" train imported/recipe.yaml data.dataset=data run.dir=runs/tuned parallel.tp=2 parallel.ep=2 \
  batch.global=16 batch.micro=4 train.steps=400 train.log_every=100 optim.lr=0.003 optim.schedule=cosine optim.warmup=20
show "$hexad" generate runs/tuned --chat-form model --prompt "$question"
show "$hexad" export runs/tuned exported
show "$python" "$scripts/chat_model.py" answer exported 2>log
show "$hexad" import exported again
show "$hexad" export again exported-again
show diff -r exported exported-again
echo "the second export is the first one"
