#!/usr/bin/env bash
# tools/elastic.sh on three emulated nodes, one of which is killed twice. Skipped (77) if network namespaces cannot be
# made.
. "$(dirname "$0")/cli.sh"

testbed=$(realpath "$CLI_TESTS/../../tools/testbed/mortal_nodes.sh")
if [ -z "${HEXAD_TESTBED_NAMES:-}" ]; then exec "$testbed" --nodes 3 "$(realpath "$0")" "$@"; fi
elastic=$CLI_TESTS/../../tools/elastic.sh

# `passes STEP`: true once the run has passed the step.
passes() { [ -f run/metrics.jsonl ] && [ "$(losses run | tail -1 | cut -d' ' -f1)" -gt "$1" ] 2>/dev/null; }
# `starts TEXT`: true once the script has printed TEXT and the run has then resumed.
starts() { grep -qF -- "$1" err && grep -qF "resumed from run/checkpoints" <(sed -n "/$1/,\$p" err); }
last_step() { losses run | tail -1 | cut -d' ' -f1; }

test_run_survives_the_loss_of_a_node_twice_and_uses_it_when_it_returns() {
  local nodes script job=(tiny.yaml batch.global=12 train.steps=120)
  read -ra nodes <<<"$HEXAD_TESTBED_NAMES"
  expect 0 "$HEXAD" train "${job[@]}" run.dir=whole
  printf '%s slots=1\n' "${nodes[@]}" >hosts
  # A step takes at least 100 ms, so that the run has not ended when a node is lost again.
  HEXAD_FAULT=slow@0,1,100 "$elastic" --hostfile hosts --reach "$testbed reach" --every 1 1 3 \
    mpirun --bind-to none --host '{hosts}' -np '{ranks}' "$HEXAD" train "${job[@]}" >out 2>err &
  script=$!
  wait_until passes 5
  "$testbed" kill "${nodes[2]}"
  wait_until starts "start 2: 2 of 3 ranks"
  wait_until passes $(($(last_step) + 3))
  "$testbed" revive "${nodes[2]}"
  wait_until starts "start 3: 3 of 3 ranks"
  wait_until passes $(($(last_step) + 3))
  "$testbed" kill "${nodes[2]}"
  wait_until starts "start 4: 2 of 3 ranks"
  code=0
  wait "$script" || code=$?
  expect_equal "$code" 0
  expect_text err "start 1: 3 of 3 ranks" "${nodes[2]}: '$testbed reach HOST true' fails; continuing on the other hosts" \
    "3 ranks are available: the run saves a checkpoint, then continues on 3" "exit code 75 of start 2"
  expect_text out "step 120/120"
  expect_same_losses whole run
  expect 0 "$HEXAD" inspect run --verify
}

run_tests "$@"
