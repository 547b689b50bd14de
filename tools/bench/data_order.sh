#!/usr/bin/env bash
# Measures the effect of data order on training. Trains a recipe on one rank twice: with data.shuffle=documents and with
# data.shuffle=sequences. For each order, prints the held-out loss during training. Also prints the standard deviation
# and the lag-1 autocorrelation of the training loss in the last steps. The linear trend of the loss is subtracted
# first.
#
#   tools/bench/data_order.sh [--recipe recipes/quickstart.yaml] [--last 120] [--output FOLDER] [key.path=value ...]
#
# Needs data/quickstart (tools/quickstart.sh prepares it). Environment: HEXAD (program; build/release/bin/hexad).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

recipe=recipes/quickstart.yaml last=120 output=
while [ $# -gt 0 ]; do
  case $1 in
  --recipe) recipe=${2:?} ;;
  --last) last=${2:?} ;;
  --output) output=${2:?} ;;
  *=*) break ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
output=${output:-runs/data-order/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
need "$hexad" 'cmake --preset release && cmake --build --preset release'

for order in documents sequences; do
  "$hexad" train "$recipe" "$@" data.shuffle=$order run.dir="$output/$order" >"$output/$order.log" 2>&1
  grep eval_loss "$output/$order/metrics.jsonl" >"$scratch/held-out"
  paste -d' ' <(number step "$scratch/held-out") <(number eval_loss "$scratch/held-out") \
    <(number eval_bits_per_byte "$scratch/held-out") <(number eval_sequences "$scratch/held-out") |
    awk -v order=$order '{
      printf "%-9s step %d: held-out %.4f nats per token, %.4f bits per byte (%d sequences)\n", order, $1, $2, $3, $4 }'
  grep grad_norm "$output/$order/metrics.jsonl" >"$scratch/steps"
  number loss "$scratch/steps" | tail -n "$last" | awk -v order=$order '
    { y[NR] = $1; sx += NR; sy += $1; sxx += NR * NR; sxy += NR * $1 }
    END {
      slope = (NR * sxy - sx * sy) / (NR * sxx - sx * sx)
      for (i = 1; i <= NR; ++i) { d[i] = y[i] - sy / NR - slope * (i - sx / NR); v += d[i] ^ 2 }
      for (i = 1; i < NR; ++i) c += d[i] * d[i + 1]
      printf "%-9s last %d steps: standard deviation %.3f, lag-1 autocorrelation %.3f\n", order, NR, sqrt(v / NR), c / v
    }'
done
