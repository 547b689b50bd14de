#!/usr/bin/env bash
# adding_a_schedule_test.sh SOURCE BUILD: follows docs/adding-a-schedule.md with the files of that page.
. "$(dirname "$0")/page.sh"
follow_page adding-a-schedule.md two_ahead.h main.cpp two_ahead_test.cpp CMakeLists.txt recipe.yaml

expect_refused 'two_ahead) is not a registered order; registered: '
build_page
ctest --test-dir build --output-on-failure
build/my-hexad train recipe.yaml
build/my-hexad train recipe.yaml schedule.moe.order=alternating run.dir=usual
losses() { sed -nE 's/.*"loss":([^,]+),.*/\1/p' "$1/metrics.jsonl"; }
[ "$(losses run | wc -l)" -eq 3 ] || failed "the run has $(losses run | wc -l) steps, expected 3"
[ "$(losses run)" == "$(losses usual)" ] ||
  failed "losses of the new and the usual order differ: $(losses run) and $(losses usual)"
cmp run/checkpoints/step-00000003/*.safetensors usual/checkpoints/step-00000003/*.safetensors

# The recorded steps follow the order: the third of four chunks is sent before any chunk returns.
build/my-hexad train recipe.yaml schedule.trace=2 run.dir=traced
gzip -dc traced/trace.json.gz >trace.json
sent=$(grep -oE '"name":"(dispatch|combine)\.a2a\[[0-9]\]"' trace.json | sed -n 1,4p | cut -d'"' -f4 | paste -sd' ')
[ "$sent" == "dispatch.a2a[0] dispatch.a2a[1] dispatch.a2a[2] combine.a2a[0]" ] ||
  failed "the exchanges of the trace do not follow the order: $sent"

build/my-hexad verify recipe.yaml --world 4 --layouts 'ep=2,worker_lanes=true;ep=4;tp=2,ep=2,etp=1' | tee verified
grep -q ': 0 mismatches' verified
