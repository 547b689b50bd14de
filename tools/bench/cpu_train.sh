#!/usr/bin/env bash
# Compares the training speed of recipes/bench-cpu.yaml on the CPU between Hexad and tools/bench/torch_peer.py, in turn.
# Also measures the rate of plain matrix products (hexad bench gemm) in each round. Prints a table of medians. Ratios
# are medians of the ratios of each round, so a slow minute of the machine affects both terms of a ratio.
#
#   tools/bench/cpu_train.sh [--rounds 5] [--steps 5] [--dtypes 'f32 bf16'] [--threads '1 2'] [--output FOLDER]
#
# Environment: HEXAD (program; build/release/bin/hexad), PEER_PYTHON (Python with PyTorch; /usr/bin/python3).
# Without PyTorch, only Hexad is measured. The raw output is kept in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

rounds=5 steps=5 dtypes='f32 bf16' threads='1 2' output=
warmup=2  # number of uncounted first steps of each run
while [ $# -gt 0 ]; do
  case $1 in
  --rounds) rounds=${2:?} ;;
  --steps) steps=${2:?} ;;
  --dtypes) dtypes=${2:?} ;;
  --threads) threads=${2:?} ;;
  --output) output=${2:?} ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
[ "$steps" -gt $warmup ] ||
  usage "--steps is '$steps', expected at least $((warmup + 1)), because the first $warmup steps are not counted"
python=${PEER_PYTHON:-/usr/bin/python3}
need "$hexad" 'cmake --preset release && cmake --build --preset release'
need /usr/bin/time 'tools/install-dependencies.sh --bench'

output=${output:-runs/bench-cpu/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
results=$output/results.tsv  # columns: round, dtype, threads, program, tokens/s, GFLOP/s, peak resident bytes
: >"$results"

if torch=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null); then
  peer=true
else
  peer=false
  echo "PyTorch is missing for $python: only Hexad is measured; tools/install-dependencies.sh --bench installs it"
fi

pinned() {  # pinned THREADS COMMAND...: runs COMMAND on cores 0 .. THREADS - 1
  taskset -c "0-$(($1 - 1))" "${@:2}"
}

median() { sort -g | awk '{v[NR] = $1} END {if (NR) printf "%.6g\n", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }
peak_bytes() { echo $(($(tail -n 1 "$1") * 1024)); }  # peak_bytes FILE: converts the KiB that GNU time prints

measure_gemm() {  # measure_gemm ROUND DTYPE THREADS: measures matrix products
  local raw=$output/gemm-$2-$3-$1
  pinned "$3" "$hexad" bench gemm --dtype "$2" --threads "$3" --json >"$raw.json"
  printf '%s\t%s\t%s\tgemm\t0\t%s\t0\n' "$1" "$2" "$3" \
    "$(number flops_per_second "$raw.json" | awk '{print $1 / 1e9}')" >>"$results"
}

measure_hexad() {
  local raw=$output/hexad-$2-$3-$1
  pinned "$3" /usr/bin/time -f %M -o "$raw.rss" "$hexad" train recipes/bench-cpu.yaml train.precision="$2" \
    train.threads="$3" train.steps="$steps" checkpoint.resume=none checkpoint.at_end=false run.dir="$raw" >"$raw.log" 2>&1 || {
    cat "$raw.log" >&2
    exit 1
  }

  printf '%s\t%s\t%s\thexad\t%s\t%s\t%s\n' "$1" "$2" "$3" \
    "$(number tokens_per_second "$raw/metrics.jsonl" | tail -n +$((warmup + 1)) | median)" \
    "$(number model_flops_per_second "$raw/metrics.jsonl" | tail -n +$((warmup + 1)) | median | awk '{print $1 / 1e9}')" \
    "$(peak_bytes "$raw.rss")" >>"$results"
}

measure_torch() {
  $peer || return 0
  local raw=$output/torch-$2-$3-$1
  pinned "$3" "$python" tools/bench/torch_peer.py --dtype "$2" --threads "$3" --steps "$steps" --warmup $warmup \
    >"$raw.json" 2>"$raw.log" || {
    cat "$raw.log" >&2
    exit 1
  }
  printf '%s\t%s\t%s\ttorch\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(number tokens_per_second "$raw.json")" \
    "$(number gflops "$raw.json")" "$(number peak_rss_bytes "$raw.json")" >>"$results"
}

{
  echo "date:      $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "commit:    $(commit)"
  echo "processor: $(processor)," \
    "$(grep -q amx_bf16 /proc/cpuinfo && echo 'with AMX' || echo 'without AMX')"
  echo "load:      $(load) at the start"
  $peer && echo "PyTorch:   $torch ($python)"
  echo "rounds:    $rounds of $steps steps, the first $warmup not counted"
} | tee "$output/machine.txt"

for ((round = 1; round <= rounds; round++)); do
  for dtype in $dtypes; do
    for n in $threads; do
      if [ "$n" -gt "$(nproc)" ]; then
        [ $round -gt 1 ] || echo "runs with $n threads are skipped, because the machine has fewer cores ($(nproc))"
        continue
      fi
      measure_gemm $round "$dtype" "$n"
      # Alternates the order, so that the machine is not always warmer for the same program.
      if ((round % 2)); then order='hexad torch'; else order='torch hexad'; fi
      for who in $order; do
        "measure_$who" $round "$dtype" "$n"
      done
    done
  done
done

awk -F '\t' -v rounds="$rounds" -v dtypes="$dtypes" -v threads="$threads" -f tools/bench/median.awk \
  -f tools/bench/cpu_train.awk "$results" |
  tee "$output/table.txt"
echo "raw output: $output"
