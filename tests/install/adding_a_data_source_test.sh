#!/usr/bin/env bash
# adding_a_data_source_test.sh SOURCE BUILD: follows docs/adding-a-data-source.md with the files of that page.
. "$(dirname "$0")/page.sh"
follow_page adding-a-data-source.md main.cpp CMakeLists.txt recipe.yaml

expect_refused 'copy) is not a registered data source; registered: synthetic'
build_page
build/my-hexad train recipe.yaml
build/my-hexad eval run | tee evaluated
grep -q 'held-out loss [0-9.]* nats per token (576 tokens)' evaluated || failed "eval does not print the loss of 576 tokens: $(cat evaluated)"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
losses() { sed -nE 's/.*"loss":([^,]+),.*/\1/p' "$1/metrics.jsonl"; }
mpirun -np 2 build/my-hexad train recipe.yaml parallel.ep=2 run.dir=two
[ "$(losses two | wc -l)" -eq 6 ] || failed "run two has $(losses two | wc -l) steps, expected 6"
# The values agree up to rounding in f32.
paste <(losses run) <(losses two) | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $1) exit 1 }' ||
  failed "losses of one and two ranks differ: $(losses run) and $(losses two)"
build/my-hexad train recipe.yaml train.steps=3 optim.schedule=constant run.dir=again
build/my-hexad train recipe.yaml optim.schedule=constant run.dir=again
build/my-hexad train recipe.yaml optim.schedule=constant run.dir=whole
[ "$(losses again)" == "$(losses whole)" ] ||
  failed "losses of the resumed and the whole run differ: $(losses again) and $(losses whole)"
