#!/usr/bin/env bash
# Trains a model on a bare Debian 12 machine. Installs missing packages, builds, and prepares about 10 MB of English
# text. Then trains recipes/quickstart.yaml on two ranks, generates text, and prints the path of the report. A later run
# skips a complete training. An interrupted training continues from its last checkpoint.
#
#   tools/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/launcher.sh

if [ $# -gt 0 ]; then
  echo "quickstart: unknown argument '$1', expected none" >&2
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

hexad=build/release/bin/hexad
recipe=recipes/quickstart.yaml
data=data/quickstart
run=runs/quickstart
done_stamp=$run/.quickstart  # digests of the recipe and data of the last completed run

heading='starting'
step() {
  heading=$1
  printf '\n[%d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$heading"
}
interrupted=no
on_exit() {
  local status=$?
  [ $status -eq 75 ] && interrupted=yes  # exit code of a run that was asked to save and end
  if [ $interrupted = yes ]; then
    printf '\nquickstart: interrupted while %s; run it again to continue\n' "$heading" >&2
  elif [ $status -ne 0 ]; then
    printf '\nquickstart: failed while %s (exit code %d)\n' "$heading" $status >&2
  fi
}
trap on_exit EXIT
trap 'interrupted=yes; exit 130' INT
trap 'interrupted=yes; exit 143' TERM

step 'installing missing packages'
tools/install-dependencies.sh

step 'building'
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || {
  cat build/configure.log >&2
  exit 1
}
cmake --build --preset release --parallel "$(nproc)" --target hexad

step 'preparing the text'
tools/corpus.sh data/corpus
# Splits the text into documents of 16 KiB, so that the held-out two percent of the documents come from every book.
"$hexad" prepare --input data/corpus --output "$data" --tokenizer bpe --vocab 4096 --split-bytes 16384

step 'training'
if [ -f "$done_stamp" ] && [ -f "$run/report.html" ] && sha256sum --check --status "$done_stamp"; then
  echo "$run is complete, nothing to do"
else
  # btl_vader_single_copy_mechanism is none, because containers often do not allow processes to read each other's
  # memory. odls_base_sigkill_timeout is the time in seconds from Ctrl-C to SIGTERM, and from SIGTERM to SIGKILL.
  set_launcher 2 btl_vader_single_copy_mechanism none odls_base_sigkill_timeout 5
  "${mpi[@]}" "$hexad" train "$recipe" parallel.ep=2 run.dir="$run"
  sha256sum "$recipe" "$data/summary.json" >"$done_stamp"
fi

step 'generating text'
"$hexad" generate "$run" --prompt 'It was a pleasant morning, and' --temperature 0.7

step 'done'
last_value() { sed -n "s/.*\"$1\": *\([0-9.eE+-]\+\).*/\1/p" "$run/metrics.jsonl" | tail -n 1; }
printf 'held-out loss: %.3f nats per token, %.3f bits per byte\n' "$(last_value eval_loss)" \
  "$(last_value eval_bits_per_byte)"
echo "report: $PWD/$run/report.html"
