#!/usr/bin/env bash
# `hexad check-cluster` on emulated nodes with a slow link, and with file systems that are stale or not shared; `hexad
# train` with a run directory that is not shared. Skipped (77) if network namespaces cannot be made.
. "$(dirname "$0")/cli.sh"

nodes=$CLI_TESTS/../../tools/testbed/two_nodes.sh

test_slow_link_of_a_node_is_named_within_a_minute() {
  cat >slow_link.sh <<'S'
case $(hostname) in *n2) tc qdisc change dev eth0 root tbf rate 20mbit burst 128kb latency 50ms || exit 9 ;; esac
exec "$@"
S
  local began=$SECONDS
  expect 0 "$nodes" --nodes 4 --ranks 1 --rate 200mbit bash "$PWD/slow_link.sh" "$HEXAD" check-cluster --svg "$PWD/links.svg"
  local took=$((SECONDS - began))
  [ "$took" -lt 60 ] || failed "the check of 4 nodes took $took s, expected less than 60 s"
  expect_text out '4 ranks on 4 nodes'
  grep 'n2 sends slowly to all 3 other nodes' out >slow || failed 'the slow link is not named'
  expect_text slow 'warning, link: node hx' 'times slower than other nodes'
  expect_text links.svg 'bandwidth, from row to column' 'latency, from row to column'
}

# Makes the folder `shared`, and a script that runs a command. On the second node, the script first mounts another
# folder over the folder that its first argument names.
make_folder_of_one_node() {
  cat >not_shared.sh <<'S'
case $(hostname) in *n1) mount -t tmpfs tmpfs "$1" || exit 9 ;; esac
exec "${@:2}"
S
  mkdir shared
}

test_folder_of_one_node_is_a_failure() {
  make_folder_of_one_node
  expect 4 "$nodes" --nodes 2 --ranks 1 bash "$PWD/not_shared.sh" "$PWD/shared" \
    "$HEXAD" check-cluster --seconds 2 --folder "$PWD/shared" --patience 2
  expect_text out 'failure, folder: rank 1 (node hx' 'is not visible after 2 s' 'a run would end with exit code 4'
}

test_run_in_a_folder_of_one_node_ends_at_its_start() {
  make_folder_of_one_node
  expect 4 "$nodes" --nodes 2 --ranks 1 bash "$PWD/not_shared.sh" "$PWD/shared" \
    "$HEXAD" train "$CLI_TESTS/../../recipes/quickstart.yaml" 'data.dataset=""' data.synthetic=true model.vocab=256 train.steps=1 \
    run.heldout_prompts=0 train.eval_every=0 run.dir="$PWD/shared/run"
  expect_text err 'shared/run/generation: does not exist on node hx' 'choose a run.dir on a file system that all nodes share'
}

# The second node has its own folder, which is synchronised with the first node's folder every 3 s.
test_stale_file_system_is_named() {
  cat >stale.sh <<'S'
shared=$1 real=$2
shift 2
case $(hostname) in *n1) ;; *) exec "$@" ;; esac
mount --bind "$shared" "$real" && mount -t tmpfs tmpfs "$shared" || exit 9
copy() { # FROM TO: replaces the file TO in one step if the files differ
  cmp -s "$1" "$2" || { cp "$1" "$2.sync" && mv "$2.sync" "$2"; }
}
synchronise() {
  local folder file
  for folder in "$real"/.hexad-check-*; do
    [ -d "$folder" ] || continue
    local mine=$shared/${folder##*/}
    [ ! -f "$mine/rank-1" ] || copy "$mine/rank-1" "$folder/rank-1"
    for file in "$folder"/rank-0; do [ ! -f "$file" ] || { mkdir -p "$mine"; copy "$file" "$mine/rank-0"; }; done
  done
}
while :; do
  synchronise
  sleep 3
done >"$real.log" 2>&1 </dev/null &
loop=$!
"$@"
code=$?
kill $loop
exit $code
S
  mkdir shared real
  expect 0 "$nodes" --nodes 2 --ranks 1 bash "$PWD/stale.sh" "$PWD/shared" "$PWD/real" \
    "$HEXAD" check-cluster --seconds 2 --folder "$PWD/shared" --patience 20
  expect_text out 'warning, folder: the file system is stale on rank 0 (node hx' 'new files appear after ' \
    'warning, folder: rank 1 (node hx' 'got a lock (flock) that rank 0 (node hx'
}

"$nodes" --ranks 1 true >/dev/null
[ $? -ne 77 ] || exit 77
run_tests "$@"
