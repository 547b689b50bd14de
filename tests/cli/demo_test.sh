#!/usr/bin/env bash
# tools/demo.sh exits with 77 (skipped) without root, and refuses options. The demonstration itself is not tested here,
# because it takes minutes on two idle cores.
. "$(dirname "$0")/cli.sh"

demo=$CLI_TESTS/../../tools/demo.sh

test_demo_is_skipped_without_root() {
  local tool
  mkdir tools
  for tool in bash dirname basename sed awk mktemp; do ln -s "$(command -v $tool)" tools; done
  printf '#!/bin/sh\necho 1000\n' >tools/id
  chmod +x tools/id
  expect 77 env PATH="$PWD/tools" "$demo"
  expect_text err 'skipped: network namespaces need root' 'demo.sh: skipped: it needs tools/testbed/two_nodes.sh'
}

test_demo_takes_no_options() {
  expect 2 "$demo" --fast
  expect_text err 'tools/demo.sh' 'Exit code: 0 if all acts succeed'
}

run_tests "$@"
