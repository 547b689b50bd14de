#!/usr/bin/env bash
# Contents of metrics.jsonl: separate lines for steps, evaluations and saves.
. "$(dirname "$0")/cli.sh"

# Prepares documents of one byte. With a context of 1, every second sequence is an end of document, which has no
# next token.
bytes_prepared() {
  printf '{"text": "%s"}\n' {a..z} {A..Z} {0..9} >bytes.jsonl
  expect 0 "$HEXAD" prepare --input bytes.jsonl --output data --tokenizer bytes --heldout 0.3
}
text_prepared() {
  seq -f "line %g of a text about the quick brown fox that jumps over the lazy dog" 500 >text.txt
  expect 0 "$HEXAD" prepare --input text.txt --output data --tokenizer bytes --heldout 0.1 --split-bytes 1024
}
data=(data.synthetic=false data.dataset=data model.vocab=0)

# `tensors RUN STEP`: prints kind, name and digest of each tensor in the checkpoint of the step.
tensors() {
  sed '1,/^  "tensors":/d' "$(printf '%s/checkpoints/step-%08d/manifest.json' "$1" "$2")" |
    grep -E '^ {4,}"(kind|name|digest)": '
}

# `of_kind KIND RUN`: prints the lines of this kind.
of_kind() { grep -F "{\"kind\":\"$1\"," "$2/metrics.jsonl"; }
# `number KEY`: prints the value of the key in each line of standard input.
number() { sed -nE "s/.*\"$1\":([^,}]+)[,}].*/\1/p"; }
# `sent KIND RUN`: prints the bytes by class in each line of this kind.
sent() { of_kind "$1" "$2" | grep -o '"comm_bytes":{[^}]*}'; }

# Expects three bounds in each step of run $1. The time in flight of a class, and the sum of all waits, are at most the
# time of the step. The wait for a class is at most its time in flight.
expect_seconds_within_steps() {
  of_kind step "$1" | awk '
    function sums(name, text, n, parts, i, sum) {
      match($0, "\"" name "\":{[^}]*}"); text = substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5)
      n = split(text, parts, ","); sum = most = 0
      for (i = 1; i <= n; ++i) {
        sub(/.*:/, "", parts[i]); sum += parts[i]; of[name, i] = parts[i] + 0
        if (parts[i] + 0 > most) most = parts[i] + 0
      }
      return sum
    }
    { match($0, /"step_seconds":[^,]*/); step = substr($0, RSTART + 15, RLENGTH - 15) + 0
      sums("comm_seconds"); if (most > step) { print "in flight " most " of " step; bad = 1 }
      exposed = sums("comm_exposed_seconds"); if (exposed > step * (1 + 1e-12)) { print "exposed " exposed " of " step; bad = 1 }
      for (i = 1; ("comm_seconds", i) in of; ++i)
        if (of["comm_exposed_seconds", i] > of["comm_seconds", i] * (1 + 1e-9)) { print "a class exposed longer than in flight"; bad = 1 } }
    END { exit bad || NR == 0 }' >difference || failed "seconds exceed the steps of $1: $(head -3 difference)"
}

# Prints the bytes that each step of run $1 sent in all classes but dp.
others() { sent step "$1" | sed -E 's/"dp":[^,}]*//'; }

# Routing is the same in all steps, so all steps send the same number of bytes.
test_step_counts_only_its_own_traffic() {
  local layout run=0 disturbed=(train.eval_every=1 train.eval_sequences=5 checkpoint.every=1)
  text_prepared
  printf '0 1\n2 3\n' >trace
  for layout in parallel.ep=2 parallel.tp=2 parallel.pp=2 parallel.cp=2 parallel.zero=1 parallel.zero=3; do
    run=$((run + 1))
    fixed=("${data[@]}" model.moe.routing=trace model.moe.trace=trace "$layout")
    expect 0 ranks 2 train tiny.yaml "${fixed[@]}" run.dir=$run.plain checkpoint.every=0 checkpoint.at_end=false
    expect 0 ranks 2 train tiny.yaml "${fixed[@]}" run.dir=$run.disturbed "${disturbed[@]}"
    # Under zero 3, an evaluation leaves weights gathered, so the next step may gather fewer weights.
    if [ $layout == parallel.zero=3 ]; then
      paste <(sent step $run.disturbed | number dp) <(sent step $run.plain | number dp) |
        awk '!($1 > 0 && $1 <= $2) { bad = 1 } END { exit bad || NR != 6 }' || failed "a step has traffic of an evaluation or save"
    elif [ $layout == parallel.zero=1 ]; then
      # Gathers of a step's weights may end in the next step, but no later. The last step waits for its own gathers. At
      # most half of a step's dp bytes are gathers.
      expect_equal "$(others $run.disturbed)" "$(others $run.plain)"
      expect_equal "$(others $run.plain | sort -u | wc -l)" 1
      expect_equal "$(sent step $run.disturbed | number dp | sort -u | wc -l)" 1
      paste <(sent step $run.plain | number dp) <(sent step $run.disturbed | number dp) |
        awk '{ late += $2 - $1; if (late < 0 || 2 * late > $2) bad = 1 } END { exit bad || late != 0 || NR != 6 }' ||
        failed "a step has dp traffic of a step other than itself and the previous step"
    else
      expect_equal "$(sent step $run.disturbed)" "$(sent step $run.plain)"
      expect_equal "$(sent step $run.plain | sort -u | wc -l)" 1
    fi
    expect_seconds_within_steps $run.plain
    expect_seconds_within_steps $run.disturbed
  done
  # Evaluations and saves have separate lines.
  expect_equal "$(of_kind evaluation 1.disturbed | number eval_seconds | awk '$1 > 0' | wc -l)" 7
  expect_equal "$(sent evaluation 1.disturbed | number ep | awk '$1 > 0' | wc -l)" 7
  expect_equal "$(sent save 1.disturbed | number control | awk '$1 > 0' | wc -l)" 6
}

test_every_line_has_a_kind_and_the_time_in_utc() {
  text_prepared
  expect 0 ranks 2 train tiny.yaml "${data[@]}" train.eval_every=2 checkpoint.every=3
  ! grep -vE '^\{"kind":"(step|evaluation|save)","step":[0-9]+,"time":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z",' \
    run/metrics.jsonl >out || failed "lines without a kind or a time in UTC: $(cat out)"
  of_kind step run | number time | tail -n 1 | grep -qF "$(date -u +%Y-%m-%dT%H:)" || failed "the last time is not the current time in UTC"
}

test_lines_without_a_kind_are_read() {
  text_prepared
  expect 0 "$HEXAD" train tiny.yaml "${data[@]}" train.steps=4 optim.schedule=constant
  sed -i -E 's/"kind":"[a-z]+",//; s/"time":"[^"]*",//; s/"(eval_sequences|heldout_sequences|started_after)":[0-9]+,//g' \
    run/metrics.jsonl
  expect_no_text run/metrics.jsonl '"kind"' '"time"'
  expect 0 "$HEXAD" report run
  expect_no_text run/report.html "could not be read"
  expect 0 "$HEXAD" train tiny.yaml "${data[@]}" train.steps=6 optim.schedule=constant checkpoint.resume=2
  expect_equal "$(losses run | cut -d' ' -f1 | xargs)" "1 2 3 4 5 6"
  expect_text run/report.html '"step":[1,2,3,4,5,6]'
}

test_step_without_targets_has_no_loss_and_moves_no_weight() {
  local step some=0 one=("${data[@]}" model.context=1 batch.micro=1 checkpoint.every=1 checkpoint.keep=0 train.steps=12)
  bytes_prepared
  # `run_without_targets RUN RANKS KEY=VALUE...`: trains, and expects the steps without targets to change no tensor.
  run_without_targets() {
    expect 0 ranks "$2" train tiny.yaml "${one[@]}" batch.global="$2" optim.weight_decay=0.5 run.dir="$1" "${@:3}"
    some=0
    for step in $(of_kind step "$1" | grep -F '"loss":null' | number step); do
      [ "$step" -gt 1 ] || continue
      some=$((some + 1))
      expect_text out "step $step/12  no targets  lr "
      tensors "$1" "$step" >now
      grep -qF '"kind": "main"' now ||
        failed "the checkpoint of step $step of $1 has no tensor of kind main, expected at least one tensor"
      tensors "$1" $((step - 1)) | cmp -s - now || failed "step $step of $1 changed a weight, moment or bias, expected no change"
    done
    [ "$some" -gt 0 ] ||
      failed "all steps of $1 after the first have targets, expected at least one step without targets"
    expect_count 1 err "has no targets: every token of the global batch is the last"
    expect_no_text "$1/metrics.jsonl" '"loss":0.0'
    expect_text "$1/report.html" " no targets, so "
  }
  run_without_targets alone 1
  run_without_targets dp 2
  run_without_targets zero 2 parallel.zero=3 parallel.ep=2
  run_without_targets tp 2 parallel.tp=2 parallel.sp=false batch.micro=2
  run_without_targets pp 2 parallel.pp=2 optim.name=sgd
}

test_held_out_samples_use_the_same_texts() {
  local sample whole
  text_prepared
  expect 0 "$HEXAD" train tiny.yaml "${data[@]}" train.eval_every=2 train.eval_sequences=5
  whole=$(of_kind evaluation run | number heldout_sequences | head -n 1)
  expect_equal "$(of_kind evaluation run | number eval_sequences | xargs)" "5 5 5 $whole"
  expect_equal "$(of_kind evaluation run | number eval_tokens | head -n 3 | uniq | wc -l)" 1
  losses_at_end() { sed -n 's/^step 6: held-out loss \([0-9.]*\) .*/\1/p'; }
  sample=$(grep -F ' of ' out | losses_at_end)
  whole=$(grep -vF ' of ' out | losses_at_end)
  expect 0 "$HEXAD" eval run --sequences 5
  expect_text out "step 6: held-out loss $sample nats per token" "(5 of "
  expect 0 "$HEXAD" eval run
  expect_text out "step 6: held-out loss $whole nats per token"
  expect_no_text out " of "
  expect_text run/report.html '"name":"held-out, 5 of ' '"name":"held-out, whole set"'
}

test_loads_of_experts_are_recorded_at_an_interval() {
  local steps
  steps() { grep -F '"expert_load":' "$1/metrics.jsonl" | number step | xargs; }
  expect 0 "$HEXAD" train tiny.yaml train.router_every=4
  expect_equal "$(steps run)" "1 4 6"
  expect 0 "$HEXAD" train tiny.yaml train.router_every=0 run.dir=never
  expect_equal "$(steps never)" ""
  expect_equal "$(of_kind step never | number router_max_load | wc -l)" 6
}

# Every second layer is dense, and each stage of the pipeline has one layer with experts.
test_loads_of_experts_have_an_empty_row_for_each_dense_layer() {
  local shape=(model.layers=4 model.moe.every=2)
  rows() { of_kind step "$1" | sed -nE 's/.*"expert_load":\[([^"]*)\][,}].*/\1/p' | sed -E 's/[0-9.]+(e-[0-9]+)?/n/g' | sort -u; }
  expect 0 "$HEXAD" train tiny.yaml "${shape[@]}" run.dir=alone
  expect_equal "$(rows alone)" "[],[n,n,n,n],[],[n,n,n,n]"
  expect_text alone/report.html '"layers":[1,3]'
  expect 0 ranks 2 train tiny.yaml "${shape[@]}" parallel.pp=2 run.dir=stages
  expect_equal "$(rows stages)" "[],[n,n,n,n],[],[n,n,n,n]"
  expect_text stages/report.html '"layers":[1,3]'
}

# All tokens choose experts 0 and 1 of rank 0, which have twice the mean load.
test_shadowed_experts_are_counted() {
  local fixed=(parallel.ep=2 model.moe.routing=trace model.moe.trace=trace)
  printf '0 1\n' >trace
  expect 0 ranks 2 train tiny.yaml "${fixed[@]}" run.dir=stay
  expect 0 ranks 2 train tiny.yaml "${fixed[@]}" run.dir=shadow schedule.moe.hot_experts=shadow schedule.moe.hot_load=2
  expect_equal "$(of_kind step shadow | number shadowed_experts | sort -u)" 2.0
  expect_no_text stay/metrics.jsonl shadowed_experts
  expect_equal "$(of_kind step shadow | number loss | head -n 1)" "$(of_kind step stay | number loss | head -n 1)"
}

test_nan_has_no_sign() {
  HEXAD_FAULT=nan@0,3 run "$HEXAD" train tiny.yaml train.max_skipped=2 train.precision=f32 optim.lr=1e30
  expect_text out "grad norm NaN"
  expect_text err "gradient norm NaN"
  expect_no_text out "-nan" "-NaN"
  expect_no_text err "-nan" "-NaN"
}

run_tests "$@"
