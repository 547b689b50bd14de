#!/usr/bin/env bash
# adding_an_optimizer_test.sh SOURCE BUILD: follows docs/adding-an-optimizer.md with the files of that page.
. "$(dirname "$0")/page.sh"
follow_page adding-an-optimizer.md main.cpp CMakeLists.txt recipe.yaml

expect_refused 'nesterov) is not a registered optimizer; registered: '
build_page
build/my-hexad train recipe.yaml
build/my-hexad inspect run >inspected
grep -q '^layers.1.moe.experts.down.weight/velocity ' inspected || failed "inspect does not list the velocity: $(cat inspected)"
build/my-hexad train recipe.yaml train.steps=6 2>&1 | tee resumed
grep -q 'resumed from' resumed
code=0
build/my-hexad validate recipe.yaml 'optim.options=[{name: momentun, value: 1}]' 2>slip || code=$?
[ $code -eq 2 ] && grep -qF 'is not an option of the optimizer nesterov; it has: momentum' slip ||
  failed "exit code $code, expected 2 and the known options: $(cat slip)"
build/my-hexad verify recipe.yaml --world 4 \
  --layouts 'zero=1;zero=2,ep=2;zero=3,ep=4,offload=file;tp=2,ep=2,start=resumed;pp=2,ep=2,zero=1,start=resumed' | tee verified
grep -q ': 0 mismatches' verified
