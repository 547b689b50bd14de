#!/usr/bin/env bash
# adding_a_layer_test.sh SOURCE BUILD: follows docs/adding-a-layer.md with the files of that page.
. "$(dirname "$0")/page.sh"
follow_page adding-a-layer.md main.cpp CMakeLists.txt recipe.yaml

expect_refused 'bottleneck) is not a registered layer'
build_page
build/my-hexad train recipe.yaml
build/my-hexad inspect run >inspected
grep -q '^layers.1.mlp.down.weight .*\[32, 16\]' inspected || failed "inspect does not list the weight of the new layer: $(cat inspected)"
build/my-hexad train recipe.yaml train.steps=4 2>&1 | tee resumed
grep -q 'resumed from' resumed
