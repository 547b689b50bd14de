#!/usr/bin/env bash
# Recipes of `hexad plan --out` train on the planned ranks.
. "$(dirname "$0")/cli.sh"

clusters=$(cd "$(dirname "$0")/../../recipes/clusters" && pwd)

test_planned_recipe_trains_on_the_planned_ranks() {
  local ranks key
  sed -i 's/precision: f64/precision: f32/' tiny.yaml # the cluster has measured products of f32
  for ranks in 1 2; do
    rm -rf run
    expect 0 "$HEXAD" plan tiny.yaml --cluster "$clusters/two-nodes-200mbit.yaml" --ranks $ranks --out best-$ranks.yaml
    expect_text err "wrote best-$ranks.yaml; train with: "
    expect 0 "$HEXAD" validate best-$ranks.yaml --world $ranks
    expect 0 ranks $ranks train best-$ranks.yaml train.steps=2
    expect_text out "step 2/2"
    for key in pp tp ep; do
      grep -E "^  $key: [0-9]+$" best-$ranks.yaml >planned || failed "best-$ranks.yaml has no parallel.$key"
      grep -qxF -- "$(cat planned)" run/recipe.yaml || failed "run/recipe.yaml does not contain $(cat planned)"
    done
  done
}

run_tests "$@"
