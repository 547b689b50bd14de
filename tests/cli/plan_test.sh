#!/usr/bin/env bash
# `hexad plan`, `simulate` and `validate` with a described cluster.
. "$(dirname "$0")/cli.sh"

clusters=$(cd "$(dirname "$0")/../../recipes/clusters" && pwd)

# Writes model.yaml, the recipe of a small model with several layers, heads and experts.
write_model() {
  cat >model.yaml <<'EOF'
model: {layers: 8, hidden: 512, heads: 8, kv_heads: 4, context: 512, vocab: 1024,
        moe: {experts: 8, top_k: 2, expert_hidden: 512}}
batch: {global: 64, micro: 1}
train: {steps: 10, precision: bf16}
device: cuda
data: {synthetic: true}
EOF
}

# Prints the number of the first line of file $2 that matches $1.
line_of() { grep -n -- "$1" "$2" | head -n 1 | cut -d : -f 1; }

test_plan_is_a_valid_recipe() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --out best.yaml --explain \
    --svg plan.svg
  expect_text out "16 ranks" "simulated completely: 21 layouts; tried: " " of schedule, cp_kind, order and offload; " \
    " left out" " ms (" "52 published steps" "even " "p99 " "worst " "bound by" \
    "time saved in the step of layout 1 by 10% more of a resource: " " 1 " "10 " "tokens/s" \
    "refused by the rules of:" "combinations left out by limits of the search: batch.micro (" "not modelled: " \
    "from layout 1 to layout 2" "from layout 1 to the unchanged recipe, " \
    "with 25% more memory of each rank (capacity gain): no shorter step found" "with twice the ranks (32): " " efficiency " \
    "one change after another" "  layout 1" "batch.micro: "
  # The first walk (one change after another) begins with layout 1 of the table and ends with layout 2.
  awk '/^ [12] / { time[$1] = $2 " " $3 }
       /one change after another/ && !walks++ { inside = 1; next }
       inside && !NF { exit }
       inside { if (!rows++) first = $1 " " $2; last = $1 " " $2 }
       END { if (rows < 2 || first != time[1] || last != time[2]) print rows " rows from " first " to " last }' out >wrong
  expect_equal "$(cat wrong)" ""
  expect_text err "wrote best.yaml; train with: mpirun -np 16 " "wrote plan.svg"
  expect_text plan.svg "<svg " "model.yaml on 16 ranks of " ">node 1</text>" "<title>rank 15: node 1, " "(class dp): " \
    "</svg>"
  expect 0 "$HEXAD" validate best.yaml --world 16
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --out best.yaml --svg plan.svg \
    --explain --json
  expect_text out '"explain": {' '"to_second": {' '"to_recipe_as_it_is": {' '"changed_seconds": {' '"changed_settings": {' \
    '"walk": [' '"capacity_gain": {' '"twice_ranks": {' '"efficiency": '
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --out best.yaml --context 1024 \
    'model.moe={top_k: 4}' model.vocab=2048 'parallel={ep: 4}'
  expect_text best.yaml "context: 1024" "top_k: 4"
  expect 0 "$HEXAD" validate best.yaml --world 16
  expect_text out "1024 tokens of context"
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --out model.yaml
  expect_text err "model.yaml: exists"
}

test_predictions_are_for_the_device_of_the_cluster() {
  local command
  write_model
  sed -i '/^device:/d' model.yaml
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 2 --layouts 1 --out best.yaml
  expect_no_text err "warning: "
  expect_text best.yaml "device: cuda"
  for command in "plan model.yaml --ranks 2 --layouts 1" "simulate model.yaml --world 2" "validate model.yaml --world 2"; do
    expect 0 "$HEXAD" $command --cluster "$clusters/h100-dgx.yaml" device=cpu
    expect_text err "warning: command line: device=cpu: device is cpu, but the ranks of " \
      "h100-dgx.yaml compute on cuda (machine.device)"
  done
  expect 0 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 2 device=cpu cluster.machine.device=cpu
  expect_no_text err "warning: "
}

test_the_printed_command_names_the_given_include_root() {
  write_model
  mkdir inside common out_of_it
  mv model.yaml common/
  printf 'include: ../common/model.yaml\n' >inside/model.yaml
  expect 0 "$HEXAD" plan inside/model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 2 --layouts 1 --include-root . \
    --out out_of_it/best.yaml
  expect_text err "hexad train out_of_it/best.yaml --include-root ."
  expect_no_text out "-0.0%"
  expect 0 "$HEXAD" validate out_of_it/best.yaml --world 2 --include-root .
  expect 0 "$HEXAD" plan common/model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 2 --layouts 1 \
    --out out_of_it/best.yaml
  expect_no_text err "--include-root"
  expect 0 "$HEXAD" validate out_of_it/best.yaml --world 2
}

test_the_columns_of_the_table_are_aligned() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 model.layers=2 model.context=64 \
    cluster.machine.network.bandwidth=3e9 cluster.machine.inside.bandwidth=5e9
  awk '/bound by +layout$/ { begin = index($0, "bound by"); next }
       begin && !NF { exit }
       begin { ++rows; if (substr($0, begin - 1, 2) !~ /^ [a-z]/) print "column of row: " $0 }
       END { if (rows != 10) print rows " rows" }' out >misplaced
  expect_equal "$(cat misplaced)" ""
}

test_requested_number_of_layouts_is_listed() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 1 --json
  expect_text out '"legal": 16,' '"too_large": 0,'
  expect_count 10 out '"settings": {'
  for layouts in 3 16; do
    expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 1 --json --layouts $layouts
    expect_count $layouts out '"settings": {'
  done
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 1 --layouts 0
  expect_text err "--layouts"
}

test_explanation_names_the_reason_of_a_missing_step() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --explain parallel.pp=3
  expect_text out "the unchanged recipe has no legal layout of 16 ranks:" "parallel"
}

test_a_layout_for_other_ranks_is_not_compared() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 2 --layouts 1 --out best.yaml
  expect_no_text err "own layout"
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 2 --layouts 1 parallel.tp=4 --out best.yaml
  expect_text err "the recipe's own layout is not compared, because it is illegal on 2 ranks: "
  sed -i '$a parallel: {tp: 3}' model.yaml
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 2 --layouts 1 --out best.yaml --explain
  expect_text err "the recipe's own layout is not compared, because it is illegal on 2 ranks: model.yaml:" "parallel.tp (3)"
  expect_text out "the unchanged recipe has no legal layout:"
  expect 0 "$HEXAD" validate best.yaml --world 2
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 2 parallel.ttp=3
  expect_text err "parallel.ttp is not a key"
}

test_explanation_names_the_reason_of_a_missing_prediction() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 1 --explain --out best.yaml \
    model.layers=2 batch.global=16384 batch.micro=16384
  expect_text out "the step of the unchanged recipe cannot be predicted:" "8388608 tokens"
  expect_file best.yaml
}

test_loads_of_experts_come_from_a_file() {
  write_model
  local step
  for loads in "1 1 1 1 1 1 1 1" "7,7,0,0,0,0,0,0"; do
    echo "$loads" >loads.txt
    expect 0 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 16 parallel.ep=8 --json \
      --routing loads.txt
    step+=" $(sed -n 's/.*"step_seconds": \([^,]*\).*/\1/p' out)"
  done
  awk -v steps="$step" 'BEGIN { split(steps, s, " "); exit !(s[2] > s[1]) }' || failed "loaded experts do not make the step longer: $step"
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 8 --routing loads.txt
  expect_text out "routing loads.txt" " file " "even, p99, worst, file: memory"
  echo "1 2 3" >loads.txt
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --routing loads.txt
  expect_text err "loads.txt:1: 3 loads; expected 8 (model.moe.experts)"
  expect 2 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 16 --routing p98
  expect_text err "'p98'" "expected even, p99, worst, or a file"
  expect 2 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 16 --routing p99 model.moe.experts=0
  expect_text err "--routing: 'p99' given, expected even" "model.moe.experts is 0"
  local choosing="model.kind=encoder model.moe.router=expert_choice model.moe.capacity_factor=1 model.moe.aux_loss.coefficient=0"
  expect 2 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 16 --routing p99 $choosing
  expect_text err "--routing: 'p99' given, expected even" "model.moe.router: expert_choice"
}

test_fewest_ranks_are_found() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --objective ranks
  expect_text out "model.yaml on 1 rank of " "fewest ranks that suffice: 1"
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 3 --objective ranks \
    model.hidden=65536 model.layers=4
  expect_text err "does not fit 3 ranks of " "in any layout and with any context: " \
    "weights and gradients, divided evenly among the ranks, take " \
    "nearest number of ranks whose memory holds them: "
}

test_plan_names_its_assumptions() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/mpmoe-adira.yaml" --ranks 8 --json
  expect_text out '"layouts": [' '"step_seconds": ' '"step_seconds_interval": [' '"memory_bytes": ' '"memory_bytes_by_routing": {' \
    '"bound_by": "' '"gain_seconds": {' '"gain_factor": 1.1' '"routing": "even"' '"refused": {' \
    '"left_out": {' '"changes_left_out": ' '"assumed": [' "as measured on one H100"
}

test_unknown_host_memory_is_named_once() {
  write_model
  sed '/^  host_memory:/d' "$clusters/h100-dgx.yaml" >no_host.yaml
  expect 0 "$HEXAD" plan model.yaml --cluster no_host.yaml --ranks 1 --objective memory --layouts 1
  expect_text out "host_memory: none for offloading, so plans offload no more than the recipe" \
    "refused, because the tensors that a rank offloads exceed the host memory of a rank (none, because "
  expect_equal "$(grep -c 'host_memory: none' out)" 1
  expect 0 "$HEXAD" plan model.yaml --cluster no_host.yaml --ranks 1 --objective memory --layouts 1 --json
  expect_no_text out '"too_large_for_host": 0,'
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 1 --objective memory --layouts 1 --json
  expect_text out '"too_large_for_host": 0,'
  expect 2 "$HEXAD" plan model.yaml --cluster no_host.yaml --ranks 1 cluster.machine.memory=2MiB
  expect_text err "no layout offloads more than the recipe, because no_host.yaml has no machine.host_memory"
}

test_expansion_is_a_changed_key() {
  write_model
  local vertical="model.context=8192 parallel.cp=2 parallel.ep=4 parallel.cp_expansion=vertical"
  expect 0 "$HEXAD" plan model.yaml $vertical --cluster "$clusters/h100-dgx.yaml" --ranks 8 --layouts 1 --explain \
    --out best.yaml
  expect_text out "from layout 1 to the unchanged recipe" "parallel.cp_expansion: " " -> vertical"
  expect_text best.yaml "cp_expansion: auto"
  expect 0 "$HEXAD" validate best.yaml --world 8
  expect 0 "$HEXAD" plan model.yaml $vertical --cluster "$clusters/h100-dgx.yaml" --ranks 8 --layouts 1 --explain --json
  expect_text out '"parallel.cp_expansion": ['
}

test_validate_judges_the_order_of_axes() {
  write_model
  expect 0 "$HEXAD" validate model.yaml --world 16 --cluster "$clusters/h100-dgx.yaml" parallel.tp=2 parallel.sp=true
  expect_text out "groups across nodes: dp 2"
  expect_no_text out "span several nodes"
  expect 0 "$HEXAD" validate model.yaml --world 16 --cluster "$clusters/h100-dgx.yaml" parallel.tp=2 parallel.sp=true \
    parallel.order=dp-tp-cp-ep-pp
  expect_text out "groups across nodes: tp 2" "warning: the groups of parallel.tp (2)" \
    " span several nodes, because of parallel.order (dp-tp-cp-ep-pp); parallel.order: tp-dp-cp-ep-pp keeps them inside nodes"
  expect 0 "$HEXAD" validate model.yaml --world 16 --cluster "$clusters/h100-dgx.yaml" parallel.tp=2 parallel.sp=true \
    parallel.order=dp-tp-cp-ep-pp --json
  expect_text out '"places": "nodes"' '"places_of_groups": {' '"tp": 2' "span several nodes, because of parallel.order"
  expect 0 "$HEXAD" validate model.yaml --world 16 --cluster "$clusters/gb200-nvl72.yaml" parallel.tp=2 parallel.sp=true \
    parallel.order=dp-tp-cp-ep-pp
  expect_text out "groups across domains: none"
  expect_no_text out "span several"
}

test_validate_overrides_keys_of_the_cluster() {
  write_model
  expect 2 "$HEXAD" validate model.yaml --world 16 --cluster "$clusters/h100-dgx.yaml" cluster.machine.nodes=1
  expect_text err "command line: cluster.machine.nodes=1: the cluster has 8 ranks (1 node of 8)"
  expect 0 "$HEXAD" validate model.yaml --world 8 --cluster "$clusters/h100-dgx.yaml" cluster.machine.nodes=1
  expect_text out "start it here with: "
  expect_no_text out "cluster.machine.nodes"
  expect 2 "$HEXAD" validate model.yaml --world 8 cluster.machine.nodes=1
  expect_text err "command line: cluster.machine.nodes=1: the override is given without --cluster"
  expect 2 "$HEXAD" validate model.yaml --world 8 cluster.machine.nodes=1 --json
  expect_text out '"valid": false' '"exit_code": 2' '"file": null' '"override": "cluster.machine.nodes=1"' \
    '"message": "the override is given without --cluster'
}

test_uneven_groups_are_named() {
  write_model
  for command in "simulate model.yaml --world 12" "validate model.yaml --world 12" "plan model.yaml --ranks 12"; do
    expect 0 "$HEXAD" $command --cluster "$clusters/h100-dgx.yaml" batch.global=48
    expect_text out "groups with different numbers of ranks on their nodes, " " (12 ranks on 2 nodes)" \
      ": as if each rank were alone on a node"
  done
}

test_illegal_number_of_ranks_is_refused_with_the_nearest_legal_ones() {
  write_model
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 24
  expect_text err "no layout of 24 ranks is legal" "refused by the rules of:" "  batch.global " " model.yaml:3" \
    "nearest numbers of ranks with a legal layout: 16, 32"
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" cluster.machine.nodes=3
  expect_text err "nearest numbers of ranks with a legal layout: 16, 32 (" " has 24 ranks)"
}

test_more_ranks_than_the_cluster_has_are_refused() {
  write_model
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/monta-a800.yaml" --ranks 32
  expect_text err "--ranks (32) is more than " "2 nodes of 8 ranks, 16 in all"
  expect 2 "$HEXAD" simulate model.yaml --cluster "$clusters/monta-a800.yaml" --world 32
  expect_text err "monta-a800.yaml:$(line_of '^  nodes:' "$clusters/monta-a800.yaml"): the cluster has 16 ranks (2 nodes of 8)" \
    "32 of the layout" "at most 16"
  expect 2 "$HEXAD" simulate model.yaml --cluster "$clusters/monta-a800.yaml" --world 32 cluster.machine.nodes=1
  expect_text err "command line: cluster.machine.nodes=1: the cluster has 8 ranks (1 node of 8)"
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/one-h100.yaml" --ranks 2
  expect_text err "1 node of 1 rank, 1 in all"
}

test_layouts_stay_within_the_limit_of_the_recipe() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 1 --layouts 1 --out best.yaml \
    memory.limit_bytes=1200MiB
  expect 0 "$HEXAD" validate best.yaml --world 1
  expect_text out "memory limit"
  expect 2 "$HEXAD" plan tiny.yaml --cluster "$clusters/two-nodes-200mbit.yaml" --ranks 2 train.precision=f32 \
    memory.limit_bytes=20000
  expect_text err "command line: memory.limit_bytes=20000: tiny.yaml with a context of " "does not fit 2 ranks of " \
    " within memory.limit_bytes: the least memory found is " \
    "no number of ranks that was tried would suffice"
}

test_missing_rates_are_named_with_the_file() {
  write_model
  sed '/^    f64:/d' "$clusters/h100-dgx.yaml" >no_f64.yaml
  for command in "plan model.yaml --ranks 8" "simulate model.yaml --world 8" "validate model.yaml --world 8"; do
    expect 2 "$HEXAD" $command train.precision=f64 --cluster no_f64.yaml
    expect_text err "no_f64.yaml:$(line_of '^  peak:' no_f64.yaml): the cluster has no machine.peak.f64"
  done
}

test_layouts_without_enough_memory_are_marked() {
  write_model
  sed 's/^  memory: .*/  memory: 500MiB/' "$clusters/h100-dgx.yaml" >small.yaml
  for command in "simulate model.yaml --world 8" "validate model.yaml --world 8"; do
    expect 0 "$HEXAD" $command --cluster small.yaml
    expect_text out "warning: the layout does not fit 8 ranks of small.yaml: a rank needs " \
      " more than the 470 MiB that its tensors may take"
    expect 0 "$HEXAD" $command --cluster small.yaml --json
    expect_text out '"warnings": [' "does not fit 8 ranks of small.yaml"
    expect 0 "$HEXAD" $command --cluster "$clusters/h100-dgx.yaml"
    expect_no_text out "does not fit 8 ranks"
  done
}

test_model_whose_state_is_too_large_is_refused_at_once() {
  write_model
  for context in 512 512..2K; do
    expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/monta-a800.yaml" model.hidden=131072 --context $context
    expect_text err "monta-a800.yaml:$(line_of '^  memory:' "$clusters/monta-a800.yaml"): model.yaml does not fit 16 ranks of " \
      " in any layout and with any context: " \
      "weights, gradients and the optimizer's state, divided evenly among the ranks, take " " a rank, " " more than the " \
      "nearest number of ranks whose memory holds them: " " nodes)"
  done
}

test_too_large_steps_are_refused_with_the_nearest_fit() {
  write_model
  local least
  find_least_memory 32K
  # Tensors may use 94% of a rank's memory. With the memory below, tensors may use 90% of $least bytes.
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 8 --context 32K \
    "cluster.machine.memory=$((least * 90 / 94))"
  expect_text err "with a context of 32K does not fit 8 ranks" "the least memory found is " " per rank with dp " \
    " more than the " " nodes) would suffice: " "; a context of "
}

test_path_names_the_axes_that_grow() {
  write_model
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --context 4K..16K
  expect_text out "context 4K..16K, routing even" " 4K      16 " " 8K " " 16K " "expansion" "inside" "network" "by: number of ranks by which the job can grow" \
    "not modelled: "
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --context 4K..8K --json
  expect_text out '"objective": "time"' '"path": [' '"context": 4096' '"context": 8192' '"fits": true' \
    '"expansion": ' '"switched_ranks": ' '"layout": "dp ' '"smallest_step": ' '"sent_inside_bytes": ' '"sent_network_bytes": ' '"changed": {' '"assumed": ['
}

# Sets $least to the least memory per rank, in bytes, with which model.yaml fits on one node at the context $1.
find_least_memory() {
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 8 --context "$1" --objective memory --json
  least=$(sed -nE '0,/memory_bytes/ s/.*"memory_bytes": ([0-9]+).*/\1/p' out)
  [ -n "$least" ] || failed "the plan has no memory_bytes, expected those of each layout"
}

test_path_ends_with_the_shortfall_of_its_last_length() {
  write_model
  local least short
  find_least_memory 4K
  short=$least
  find_least_memory 32K
  # Tensors may use 94% of a rank's memory. With the memory below, tensors may use the mean of $short and $least bytes.
  expect 0 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --context 4K..32K cluster.machine.nodes=1 \
    "cluster.machine.memory=$(((short + least) * 50 / 94))"
  expect_text out " 32K       8 does not fit: the least memory found is " "longest context that fits: "
}

test_range_of_contexts_refuses_options_for_one_context() {
  write_model
  for option in --explain "--out best.yaml" "--svg plan.svg" "--layouts 3" "--objective ranks"; do
    expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --context 4K..8K $option
    expect_text err "$option and --context 4K..8K are given" "--context 4K"
  done
  expect 2 "$HEXAD" plan model.yaml --cluster "$clusters/h100-dgx.yaml" --ranks 16 --context 3K..20K
  expect_text err "--context: '3K..20K' given" "nearest: 3K..12K, 3K..24K"
}

test_step_is_simulated_with_its_timeline() {
  write_model
  expect 0 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 16 parallel.ep=8 parallel.zero=1 \
    --trace step.json.gz
  expect_text out "step time" " to " "52 published steps" "tokens/s" "MFU" "Shares of a step"
  expect_file step.json.gz
  if command -v python3 >/dev/null; then
    gunzip -c step.json.gz | python3 -m json.tool >/dev/null || failed "step.json.gz is not JSON"
  fi
  expect 0 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 16 parallel.ep=8 --json \
    cluster.machine.network.bandwidth=5e9
  expect_text out '"routing": "even"' '"step_seconds": ' '"step_seconds_interval": [' '"exposed_seconds": {' \
    '"peak_flops_per_second": ' '"mfu": '
}

test_trace_of_a_step_shows_traffic_inside_a_domain_as_intra() {
  write_model
  expect 0 "$HEXAD" simulate model.yaml --cluster "$clusters/gb200-nvl72.yaml" --world 8 parallel.ep=8 \
    --trace joined.json.gz
  gzip -dc joined.json.gz >joined.json || failed "joined.json.gz is not a gzip file"
  expect_text joined.json '"cat":"ep (intra)' '"name":"rank 0 on node 0"'
  expect_no_text joined.json '(inter)'
  expect 0 "$HEXAD" simulate model.yaml --cluster "$clusters/gb200-nvl72.yaml" --world 8 parallel.ep=8 \
    cluster.machine.domain=4 --trace divided.json.gz
  gzip -dc divided.json.gz >divided.json || failed "divided.json.gz is not a gzip file"
  expect_text divided.json '"cat":"ep (inter)'
}

test_slower_network_makes_a_slower_step() {
  write_model
  local fast slow
  for rate in 50e9 1e9; do
    expect 0 "$HEXAD" simulate model.yaml --cluster "$clusters/h100-dgx.yaml" --world 16 parallel.ep=8 --json \
      "cluster.machine.network.bandwidth=$rate"
    slow=$(sed -n 's/.*"step_seconds": \([^,]*\).*/\1/p' out)
    [ -n "${fast:-}" ] || fast=$slow
  done
  awk -v fast="$fast" -v slow="$slow" 'BEGIN { exit !(slow > fast) }' || failed "a step takes $slow s on the slow network, expected more than the $fast s on the fast network"
}

test_validate_estimates_a_step_on_a_cluster() {
  write_model
  expect 0 "$HEXAD" validate model.yaml --world 16 --cluster "$clusters/h100-dgx.yaml"
  expect_text out "a step on " "latency" "52 published steps" "throughput" "MFU"
  expect 0 "$HEXAD" validate model.yaml --world 16 --cluster "$clusters/h100-dgx.yaml" --json
  expect_text out '"step": {' '"seconds_interval": [' '"tokens_per_second": '
}

test_cluster_and_paper_exclude_each_other() {
  expect 2 "$HEXAD" simulate tiny.yaml
  expect_text err "neither --cluster nor --paper is given"
  expect 2 "$HEXAD" simulate tiny.yaml --paper monta --cluster "$clusters/h100-dgx.yaml"
  expect_text err "--cluster and --paper are given"
}

run_tests "$@"
