#!/usr/bin/env bash
# profile.steps records how each rank spends the time of a step.
. "$(dirname "$0")/cli.sh"

# `traced RANKS OVERRIDE...`: records nine steps, 2 to 10, of about twenty milliseconds each.
traced() {
  expect 0 ranks "$1" train tiny.yaml model.layers=4 model.hidden=64 model.moe.expert_hidden=64 model.heads=4 model.context=64 \
    batch.global=16 checkpoint.at_end=false checkpoint.every=0 train.steps=10 profile.steps=2..10 "${@:2}"
  gzip -dc run/trace.json.gz >trace.json || failed "run/trace.json.gz is not a gzip file"
}

# Prints lines "RANK STEP SHARE". SHARE is the fraction of a step's time in which the rank's row "host" has only the
# span of the step itself.
uncovered() {
  awk '
    function field(name) { return match($0, "\"" name "\":[^,}]*") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) : "" }
    /"name":"thread_name"/ && /"name":"host"/ { host[field("pid") " " field("tid")] = 1 }
    /"ph":"X"/ && (field("pid") " " field("tid")) in host { print field("pid"), field("ts"), field("ts") + field("dur"), field("name") }
  ' trace.json | sed 's/"//g' | sort -k1,1n -k2,2n -k3,3nr | awk '
    function close_step() { if (step != "") { if (end < last) gaps += last - end; print rank, step, gaps / (last - begin) } step = "" }
    $4 == "step" { close_step(); rank = $1; begin = end = $2; last = $3; step = $5; gaps = 0; next }
    step == "" || $1 != rank || $2 > last { next }
    { if ($2 > end) gaps += $2 - end; if ($3 > end) end = $3 }
    END { close_step() }'
}

# `expect_covered RANKS`: expects the spans of each rank to leave at most 3% of a step uncovered, in the median over the
# rank's steps. In single steps, a rank may lose its core between two spans.
expect_covered() {
  uncovered >shares
  [ "$(wc -l <shares)" -ge $((9 * $1)) ] || failed "steps are missing in the trace: $(cat shares)"
  sort -k1,1n -k3,3g shares | awk -v ranks="$1" '
    { share[$1, n[$1]++] = $3 }
    END { for (r = 0; r < ranks; ++r) { m = share[r, int(n[r] / 2)]; print "rank " r ": " m; if (!(m <= 0.03)) bad = 1 }; exit bad }
  ' >medians || failed "more than 3% of a step is in no span: $(cat medians)"
}

# `expect_rows ROW...`: expects these rows in the trace, and no row for communication between nodes.
expect_rows() {
  local row
  for row in "$@"; do expect_text trace.json "\"name\":\"$row\""; done
  expect_no_text trace.json '"name":"inter' '(inter)"'
}

test_pipeline_and_tensor_ranks_show_their_waits() {
  traced 4 parallel.pp=2 parallel.tp=2
  expect_covered 4
  expect_rows "pp (intra)" "tp (intra)" "control (intra)"
  expect_text trace.json '"name":"wait: pp receive of ' '"name":"wait: tp ' '"name":"wait: control '
}

test_context_and_data_ranks_show_their_waits() {
  traced 4 parallel.cp=2
  expect_covered 4
  expect_rows "cp (intra)" "dp (intra)"
  expect_text trace.json '"name":"wait: cp ' '"name":"wait: dp '
}

test_ranks_of_experts_show_their_waits() {
  traced 2 parallel.ep=2 schedule.trace=3
  expect_covered 2
  expect_rows "ep (intra)" "intra (all-to-all)"
  expect_text trace.json '"name":"wait: ep all_to_all of ' '"name":"intra (all-to-all) (predicted)"'
}

test_ranks_that_gather_weights_show_their_waits() {
  traced 2 parallel.zero=3
  expect_covered 2
  expect_rows "dp (intra)"
  expect_text trace.json '"name":"wait: dp all_gather of '
}

# `long_waits RANK MILLISECONDS`: prints the number of waits of the rank's thread that take at least this long.
long_waits() {
  awk -v rank="$1" -v ms="$2" '
    function field(name) { return match($0, "\"" name "\":[^,}]*") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) : "" }
    /"ph":"X"/ && /"name":"wait: / && field("pid") + 0 == rank + 0 && field("dur") + 0 >= 1000 * ms { ++n }
    END { print n + 0 }' trace.json
}

test_trace_shows_the_wait_for_a_slow_rank() {
  local waits
  HEXAD_FAULT=slow@1,1,60 traced 2 parallel.pp=2
  expect_covered 2
  expect_text trace.json '"name":"injected slowness"'
  # Rank 1 begins each of the nine steps 60 ms late. Rank 0 computes for a part of this time.
  waits=$(long_waits 0 30)
  [ "$waits" -ge 5 ] || failed "rank 0 has $waits waits of at least 30 ms in nine steps, expected at least 5"
}

run_tests "$@"
