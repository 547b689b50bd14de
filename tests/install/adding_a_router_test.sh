#!/usr/bin/env bash
# adding_a_router_test.sh SOURCE BUILD: follows docs/adding-a-router.md with the files of that page.
. "$(dirname "$0")/page.sh"
follow_page adding-a-router.md main.cpp CMakeLists.txt recipe.yaml

expect_refused 'hash) is not a registered router; registered: top_k'
build_page
build/my-hexad train recipe.yaml
build/my-hexad inspect run >inspected
grep -q '^layers.1.moe.router.weight .*\[4, 32\]' inspected || failed "inspect does not list the weight of the new router: $(cat inspected)"
code=0
build/my-hexad train recipe.yaml 'model.moe.router_options=[{name: sallt, value: 1}]' run.dir=other 2>slip || code=$?
[ $code -eq 2 ] && grep -qF 'is not an option of the router hash; it has: salt' slip ||
  failed "exit code $code, expected 2 and the known options: $(cat slip)"
build/my-hexad verify recipe.yaml --world 4 --layouts 'ep=2;ep=4;tp=2,ep=2,etp=1;tp=2,ep=2,sp=true;pp=2,ep=2;tp=2,duplicates=drop' | tee verified
grep -q ': 0 mismatches' verified
