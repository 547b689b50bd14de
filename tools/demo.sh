#!/usr/bin/env bash
# Demonstrates Hexad in ten minutes, on two emulated nodes of four ranks each (tools/testbed/two_nodes.sh):
# - predicted times next to measured times
# - a run that continues on fewer ranks in another layout after a rank was killed
# - a wrong gradient that `hexad verify` finds
# - a slower network, for which `auto` chooses another schedule
#
#   tools/demo.sh
#
# Exit code: 0 if all acts succeed, 1 if an act fails, 2 if there is an argument, 77 if the demo cannot run on this
# machine. The demo needs root, iproute2, openmpi-bin, and build/release/bin/hexad (tools/test.sh builds it). All output
# files are in runs/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
  echo "demo.sh: unknown argument '$1', expected none" >&2
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

hexad=${HEXAD:-$PWD/build/release/bin/hexad}
recipe=recipes/demo.yaml
out=$PWD/runs/demo
rate=400mbit steps=60

act() { printf '\n[%d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$1"; }
showed() { printf '  -> %s\n' "$1"; }
fail() {
  printf '  -> NOT SHOWN: %s\n' "$*"
  exit 1
}
say_command() { printf '  $ %s\n' "${*//"$PWD/"/}"; }
# run EXIT_CODE LOG COMMAND...: runs COMMAND, which must end with EXIT_CODE. Writes its output to the terminal and to
# runs/demo/LOG.
run() {
  local expected=$1 log=$out/$2 code=0
  shift 2
  say_command "$@"
  "$@" 2>&1 | tee "$log" | sed -u 's/^/    /' || code=${PIPESTATUS[0]}
  [ "$code" -eq "$expected" ] || fail "the command ended with exit code $code, expected $expected; see $log"
}
# Commands that run the program on all ranks of two nodes: "${eight[@]}" train ...
nodes=(tools/testbed/two_nodes.sh --nodes 2)
eight=("${nodes[@]}" --ranks 4 --rate $rate "$hexad")
six=("${nodes[@]}" --ranks 3 --rate $rate "$hexad")
# measure NAME LAUNCH...: writes the cluster file runs/demo/NAME.yaml, with measured links and the kernels of an example
# file. The measured kernels are not used, because ranks that share a core measure each other's time slices.
measure() {
  local example=recipes/clusters/two-nodes-200mbit.yaml
  run 0 profile-$1.log "${@:2}" profile --quick --seconds 20 --out "$out/$1-wire.yaml"
  { sed '/^products:/,$d' "$out/$1-wire.yaml" && sed -n '/^products:/,$p' $example; } >"$out/$1.yaml"
  echo "  # with products, copies and slowdowns of $example: runs/demo/$1.yaml"
}
# losses RUN: prints "STEP LOSS" for each step. If a step was computed twice, prints its later loss.
losses() {
  sed -nE 's/.*"step":([0-9]+),.*"loss":([^,]+),.*/\1 \2/p' "$1/metrics.jsonl" |
    awk '{last[$1] = $2} END {for (step in last) print step, last[step]}' | sort
}
last_step() { losses "$1" | sort -n | tail -1 | cut -d' ' -f1; }

skip() {
  echo "demo.sh: skipped: $1" >&2
  exit 77
}
code=0
tools/testbed/two_nodes.sh --ranks 1 true >/dev/null || code=$?
[ $code -eq 0 ] || skip 'it needs tools/testbed/two_nodes.sh, which cannot run on this machine'
[ -x "$hexad" ] || skip "there is no $hexad; tools/test.sh builds it"
job=
trap '[ -z "$job" ] || kill $job 2>/dev/null || true' EXIT
rm -rf "$out"
mkdir -p "$out"

act 'Hexad prepares its own documentation as training data.'
run 0 prepare.log "$hexad" prepare --input docs --output "$out/data" --tokenizer bpe --vocab 512

act 'Act 1. Eight ranks on two nodes train; predicted step times are printed next to measured ones.'
measure eight "${eight[@]}"
run 0 whole.log "${eight[@]}" train $recipe run.dir="$out/whole" schedule.trace=10 schedule.profile="$out/eight.yaml"
for pass in forward backward; do
  line=$(grep -o "$pass: predicted .*, exposed communication [^:]*" "$out/whole.log") ||
    fail "$out/whole.log has no line '$pass: predicted ...', expected this line for the traced step"
  showed "$line"
done
[ -s "$out/whole/trace.json.gz" ] || fail "$out/whole/trace.json.gz is missing or empty, expected the trace of step 10"
showed "the lanes of all eight ranks, predicted below measured: runs/demo/whole/trace.json.gz (ui.perfetto.dev)"

act 'Act 2. A rank is killed; six ranks continue from the checkpoint in another layout.'
# Uses f64. In f32, another order of summation may route a token to another expert, and then the losses change visibly.
recipe64=($recipe train.precision=f64)
run 0 unbroken.log "${eight[@]}" train "${recipe64[@]}" run.dir="$out/unbroken"
say_command "${eight[@]}" train "${recipe64[@]}" run.dir="$out/broken"
# Starts the same training again, in runs/demo/broken. Every rank writes its process id to a file.
"${nodes[@]}" --ranks 4 --rate $rate bash -c 'echo $$ >"$0-$OMPI_COMM_WORLD_RANK"; exec "$@"' "$out/rank" \
  "$hexad" train "${recipe64[@]}" run.dir="$out/broken" >"$out/broken.log" 2>&1 &
job=$!
for ((i = 0; i < 1200; i++)); do
  [ ! -f "$out/broken/metrics.jsonl" ] || [ "$(grep -c '"loss"' "$out/broken/metrics.jsonl")" -lt 22 ] || break
  kill -0 $job 2>/dev/null || fail "the run ended before its rank was killed; see $out/broken.log"
  sleep 0.1
done
victim=$(cat "$out/rank-5")
[ "$(cat /proc/$victim/comm)" == "$(basename "$hexad")" ] ||
  fail "process $victim of $out/rank-5 runs $(cat /proc/$victim/comm), expected $(basename "$hexad")"
say_command kill -9 $victim '# rank 5'
kill -9 $victim
code=0
wait $job || code=$?
job=
[ $code -ne 0 ] || fail 'the job that lost a rank ended with exit code 0, expected another code'
showed "the job ended with exit code $code after step $(last_step "$out/broken") of $steps"
# Removes the lock of the run directory, which rank 0 could not release before it ended. The next emulated hosts have
# other names, so they would watch the lock for 20 seconds before they take it over. Removing the lock is safe, because
# all ranks have ended.
if [ -e "$out/broken/lock" ]; then
  say_command rm "$out/broken/lock" '# saves 20 seconds'
  rm "$out/broken/lock"
fi
run 0 resumed.log "${six[@]}" train "${recipe64[@]}" run.dir="$out/broken" parallel.pp=2 parallel.tp=1 parallel.ep=3
resumed=$(sed -nE 's/.*resumed from .*step-0*([0-9]+) .*/\1/p' "$out/resumed.log")
[ "${resumed:-0}" -ge 20 ] && [ "$resumed" -lt $steps ] ||
  fail "the run resumed from step '$resumed', expected a step from 20 to $((steps - 1)); see $out/resumed.log"
difference=$(join <(losses "$out/unbroken") <(losses "$out/broken") | awk -v from=$resumed '
  $1 > from {d = ($2 - $3) / $2; if (d < 0) d = -d; if (d > most) most = d; n++} END {print n + 0, most + 0}')
awk -v steps=$((steps - resumed)) '{exit !($1 == steps && $2 <= 1e-9)}' <<<"$difference" ||
  fail "steps compared: ${difference% *}, expected $((steps - resumed)); largest relative difference of the losses:" \
    "${difference#* }, expected at most 1e-9"
showed 'six ranks (pp 2 x dp 3, ep 3; runs/demo/broken) repeat the losses of eight (dp 4 x tp 2, ep 8; runs/demo/unbroken)'
showed "steps compared: ${difference% *}; largest relative difference of the losses in f64: ${difference#* }"

act 'Act 3. A gradient is scaled wrongly; hexad verify names it and the smallest layout with the error.'
layouts='dp=2,cp=2,tp=2,ep=4;pp=2,dp=2,tp=2,ep=4,etp=1,moe=returns_last'
run 0 right.log "$hexad" verify recipes/verify-moe.yaml --world 8 --steps 1 --layouts "$layouts"
tensor=layers.3.moe.experts.down.weight
run 5 wrong.log env HEXAD_FAULT=gradient@0,1,$tensor \
  "$hexad" verify recipes/verify-moe.yaml --world 8 --steps 1 --layouts "$layouts"
found=$(grep "^dp=2,ep=2: step 1: gradient $tensor: off by" "$out/wrong.log") ||
  fail "verify did not name $tensor in the layout dp=2,ep=2; see $out/wrong.log"
showed "injected error: the gradient of $tensor times ep; verify reduces these layouts of 8 ranks to: ${found%%;*}"

act 'Act 4. The network becomes four times slower; auto chooses another schedule.'
auto=(schedule.moe.duplicates=auto schedule.moe.overlap=auto schedule.moe.chunk_by=auto schedule.moe.chunks=auto
  schedule.moe.trial_share=0 model.hidden=256 model.moe.expert_hidden=512 parallel.ep=4 batch.micro=12
  train.steps=3 checkpoint.at_end=false)
# choose RATE: sets $choice to the schedule that auto chooses on two nodes of two ranks with links of RATE.
choose() {
  local four=("${nodes[@]}" --ranks 2 --rate "$1" "$hexad")
  measure "$1" "${four[@]}"
  run 0 auto-$1.log "${four[@]}" train $recipe run.dir="$out/auto-$1" schedule.profile="$out/$1.yaml" "${auto[@]}"
  choice=$(sed -nE 's/.*predicted fastest of [0-9]+ schedules: ([^:]*): .*/\1/p' "$out/auto-$1.log")
  [ -n "$choice" ] || fail "$out/auto-$1.log has no text 'predicted fastest of', expected the choice of auto after it"
  showed "at $1: $choice"
}
choose 800mbit
before=$choice
choose 200mbit
[ "$choice" != "$before" ] ||
  fail "auto chose the same schedule for 800mbit and 200mbit, '$choice'; expected two schedules"

act 'All four acts showed their claims.'
