#!/usr/bin/env bash
# `hexad profile` with one rank, with two ranks, with ranks that share a core, and on nodes named by HEXAD_NODE.
. "$(dirname "$0")/cli.sh"

profile=(profile --quick --seconds 1 --out c.yaml)

# `on_nodes N M ARGUMENT...`: runs the program on two nodes named by HEXAD_NODE: N ranks on `a`, M ranks on `b`.
on_nodes() {
  "${launch[@]}" -np "$1" env HEXAD_NODE=a "$HEXAD" "${@:3}" : -np "$2" env HEXAD_NODE=b "$HEXAD" "${@:3}"
}

test_two_ranks_measure_their_links_kernels_and_slowdowns() {
  expect 0 ranks 2 "${profile[@]}"
  expect_text out 'profile of 2 ranks on 1 node' 'all_to_all of 2 ranks, intra' 'f32 products' 'bf16 attention' 'optimizer kernels' \
    'us per operation' 'combinations of concurrent work, round 1 of 1' 'speed beside' 'written to c.yaml'
  expect_text c.yaml 'ranks_per_node: 2' 'operation: reduce_scatter' 'element: bf16' 'head_size: 64' 'pass: backward' 'class: optimizer' \
    'kind: restore' 'beside: [intra]'
  expect_no_text c.yaml 'group: inter'
  expect_equal "$(ls c.yaml*)" c.yaml
}

test_ranks_on_two_nodes_form_groups_of_every_kind() {
  expect 0 on_nodes 2 2 "${profile[@]}"
  expect_text out 'profile of 4 ranks on 2 nodes' 'send of 2 ranks, inter' 'all_reduce of 4 ranks, all'
  expect_text c.yaml 'nodes: 2' 'group: intra' 'group: inter' 'group: all' 'beside: [inter, intra, copy]'
}

# `on_one_core N ARGUMENT...`: runs N ranks on the first core that this test may use.
on_one_core() {
  "${launch[@]}" -np "$1" taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" "$HEXAD" "${@:2}"
}

test_ranks_that_share_a_core_measure_how_much_a_waiting_rank_uses() {
  expect 0 on_one_core 2 "${profile[@]}"
  expect_text out 'ranks that wait: each uses' 'the ranks of a node share 1 core; a rank that waits uses'
  expect_text c.yaml 'node_cores: 1' 'by: all_ranks' 'waiting: '
}

test_one_rank_measures_no_links() {
  expect 0 "$HEXAD" "${profile[@]}"
  expect_text c.yaml 'links: []' 'of: compute' 'beside: [copy]'
}

test_products_of_other_shapes_can_be_measured() {
  expect 0 "$HEXAD" "${profile[@]}" --product 1x64x96 --product 3x32x16
  expect_text out '1 experts, 64 x 96' '3 experts, 32 x 16'
  expect_count 6 c.yaml 'outputs: 96'
  expect_no_text c.yaml 'outputs: 1024'
  for shape in 8x512 8x512x 8x512x1024x2 0x1x1 a; do
    expect 2 "$HEXAD" "${profile[@]}" --product $shape
    expect_text err "--product ($shape) must be EXPERTSxINPUTSxOUTPUTS"
  done
}

test_unequal_nodes_are_refused() {
  expect 2 on_nodes 1 2 "${profile[@]}"
  expect_text err 'nodes have 1 to 2 ranks; start the same number of ranks on each node'
  expect_nothing_at c.yaml
}

test_missing_folder_is_reported() {
  expect 4 "$HEXAD" profile --out nowhere/c.yaml
  expect_text err nowhere/c.yaml
  expect 2 "$HEXAD" "${profile[@]}" --offload-folder nowhere
  expect_text err "--offload-folder (nowhere): cannot create an offload file in 'nowhere': No such file or directory"
  expect_no_text out "kernels in"
}

test_wrong_options_are_explained() {
  expect 2 "$HEXAD" profile --seconds 0
  expect_text err "'0' given, expected a number above 0"
  expect 2 "$HEXAD" profile --quik
  expect_text err "did you mean '--quick'?"
}

run_tests "$@"
