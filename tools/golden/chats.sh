#!/usr/bin/env bash
# Trains a small random model of the Hugging Face library on chats, as a user would: makes the model with transformers,
# imports it, prepares data with its chat template, trains on four ranks (tp 2, ep 2), and exports it. Checks that most
# of 20 answers are right, and that transformers gives the same answers with the export. Also checks that a second
# import and export have the same bytes.
#
#   tools/golden/chats.sh [FOLDER]
#
# FOLDER gets all files (a new or empty folder; default: a temporary one). HEXAD: the program (build/release/bin/hexad).
# models_python.sh installs PyTorch and transformers. Takes about three minutes on two cores.
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

show() {  # show COMMAND...: prints COMMAND on standard error, and runs it
  { printf '\n$' && printf ' %q' "${@/#"$hexad"/hexad}" && echo; } >&2
  "$@"
}
quietly() { "$@" 2>log || { cat log >&2 && exit 1; }; }  # hides progress bars

quietly "$python" "$scripts/chat_model.py" make .
show "$hexad" import model imported
show "$hexad" prepare --input chats.jsonl --output data --chat-form model --tokenizer model --heldout 0.05
set_launcher 4
show "${mpi[@]}" "$hexad" train imported/recipe.yaml data.dataset=data run.dir=runs/tuned parallel.tp=2 parallel.ep=2 \
  batch.global=16 batch.micro=4 train.steps=400 train.log_every=100 optim.lr=0.003 optim.schedule=cosine optim.warmup=20
show "$hexad" export runs/tuned exported
quietly "$python" "$scripts/chat_model.py" answer exported
show "$hexad" tokenize prompts.txt --tokenizer model --special --ids >ids.txt
show "$hexad" generate runs/tuned --chat-form model --prompt-file questions.jsonl --temperature 0 --json >answers.json
quietly "$python" "$scripts/chat_model.py" compare .
show "$hexad" import exported again
show "$hexad" export again exported-again
show diff -r exported exported-again
echo "the second export equals the first one"
