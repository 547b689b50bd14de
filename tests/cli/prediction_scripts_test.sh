#!/usr/bin/env bash
# Tests tools/bench/predicted_steps.sh and exhaustive_plans.sh: their predictions, and their tables of made-up
# measurements. Tests the seconds and peaks that they read from a run, and their refusals of wrong options. Also tests
# that papers/parm.sh and papers/parm_placements.sh refuse to measure more layers than the paper's Table III has.
. "$(dirname "$0")/cli.sh"
export HEXAD

scripts=$(cd "$(dirname "$0")/../../tools/bench" && pwd)
cluster=$(cd "$(dirname "$0")/../../recipes/clusters" && pwd)/two-nodes-200mbit.yaml

predict() { "$scripts/predicted_steps.sh" --predict-only --cluster "$cluster" --cases 2 --places '1 2' --output "$PWD/steps" "$@"; }
plan() { "$scripts/exhaustive_plans.sh" --predict-only --cluster "$cluster" --cases 1 --place 2 --output "$PWD/plans" "$@"; }

test_predictions_are_hashed_and_kept() {
  expect 0 predict
  local hash
  hash=$(sha256sum <steps/predictions.tsv | cut -d' ' -f1)
  expect_text out "before the first step was measured: $hash" "2 cases to measure" "0 of 2 cases are measured"
  expect_equal "$(grep -v '^#' steps/predictions.tsv | cut -f1,2 | tr '\t\n' '  ')" "1.01 1 2.01 2 "
  cp steps/predictions.tsv first.tsv
  expect 0 predict
  expect_text out "$hash"
  expect 2 predict --seed 2
  expect_text err "was made with other settings" "seed 2, 2 cases" "choose another --output"
  rm -r steps
  expect 0 predict
  cmp first.tsv steps/predictions.tsv || failed "the same seed gave different predictions"
}

test_parm_refuses_more_layers_than_table_iii_has() {
  local script
  for script in parm.sh parm_placements.sh; do
    expect 2 "$scripts/papers/$script" --layers 1297
    expect_text err "$script: --layers is '1297', expected at most 1296, the number of layers of Table III"
  done
}

test_errors_of_predicted_steps_are_summarised() {
  mkdir steps
  printf '# predictions\n1.01\t1\t0.2\t0.1\t0.3\t1000\ta=1\n1.02\t1\t0.2\t0.1\t0.3\t1020\tmodel.moe.routing=model\n' >steps/predictions.tsv
  printf '1.01\t1000\t0.1 0.4 0.16 \n1.02\t1000\t0.4 0.4 0.4 \n' >steps/measured.tsv
  expect 0 awk -f "$scripts/median.awk" -f "$scripts/predicted_steps.awk" steps/measured.tsv steps/predictions.tsv
  expect_text out $'1.01\t1\t0.2\t0.16\t0.13\t0.28\t1.250\t-\t1000\t1000\t1.0000\ta=1'
  grep -qE '^all +2 +37.5% +48.8% +50.0% +50% +1.00% +2.00%$' out ||
    failed "the line of all cases is missing or wrong: $(cat out)"
  grep -qE '^learned router +1 +50.0% .* 0% +2.00% +2.00%$' out ||
    failed "the line of the learned router is missing or wrong: $(cat out)"
}

test_errors_at_the_speed_of_the_profile_are_summarised() {
  mkdir steps
  printf '# predictions\n# cluster.1.yaml 0123 reference 0.02 s\n1.01\t1\t0.2\t0.1\t0.3\t1000\ta=1\nnodes.01\tnodes\t0.2\t0.1\t0.3\t1000\ta=1\n' \
    >steps/predictions.tsv
  printf '1.01\t1000\t0.4 0.4 0.4 \t0.03\nnodes.01\t1000\t0.4 0.4 0.4 \t-\n' >steps/measured.tsv
  expect 0 awk -f "$scripts/median.awk" -f "$scripts/predicted_steps.awk" steps/measured.tsv steps/predictions.tsv
  expect_text out $'\t0.500\t1.500\t1000' $'\t0.500\t-\t1000' "at the speed that the machine had during its profile"
  grep -qE '^ranks: 1 +1 +50.0% .* 0% +0.00% +0.00%$' out || failed "the error as measured is wrong: $(cat out)"
  grep -qE '^ranks: 1 +1 +25.0% .* 100% +0.00% +0.00%$' out || failed "the error at equal speed is wrong: $(cat out)"
  [ "$(grep -cE '^emulated nodes +1 +50.0%' out)" -eq 2 ] || failed "the error of emulated nodes has changed: $(cat out)"
}

test_all_layouts_of_a_plan_are_listed() {
  expect 0 plan
  local layouts
  layouts=$(grep -c '^01/' plans/layouts.tsv)
  [ "$layouts" -ge 5 ] && [ "$layouts" -le 20 ] || failed "$layouts layouts are listed, expected 5 to 20"
  expect_text out "1 cases, $layouts layouts; $((2 * layouts)) runs to measure" "0 of 1 cases are measured"
  sort -c -g -k3,3 -t$'\t' <(grep -v '^#' plans/layouts.tsv) || failed "layouts are not listed best first"
}

test_regret_is_that_of_the_first_choice() {
  mkdir plans
  printf '# layouts\n01/1\t2\t0.2\ta=1\tb=1\n01/2\t2\t0.3\ta=1\tb=2\n02/1\t2\t0.2\ta=2\tb=1\n' >plans/layouts.tsv
  printf '01/1\t1\t0.4 0.5 0.6 \n01/2\t1\t0.4 0.4 0.4 \n' >plans/measured.tsv
  expect 0 awk -v rounds=1 -f "$scripts/median.awk" -f "$scripts/exhaustive_plans.awk" plans/measured.tsv plans/layouts.tsv
  expect_text out $'01\t2\t2\t0.2\t0.5\t2\t0.3\t0.4\t25.0\ta=1\tb=1\tb=2' "1 of 2 cases are measured" \
    "1 cases: median 25.0%, worst 25.0%"
}

test_seconds_and_peak_of_a_run_on_two_ranks_are_found() {
  expect 0 ranks 2 train tiny.yaml parallel.ep=2 train.steps=4
  bash -c '. "$1/common.sh" && . "$1/predictions.sh" && at() { cp -r run "$scratch"; } && train 2 4 &&
    echo $step_seconds $peak' bash "$scripts" >found 2>err || failed "the scripts did not train on two ranks: $(cat err)"
  grep -qE '^[0-9.e-]+ [0-9.e-]+ [1-9][0-9]*$' found || failed "expected seconds and peak bytes of a step, found: $(cat found)"
}

test_reference_recipe_is_legal_on_each_number_of_ranks() {
  local ranks
  for ranks in 1 2 4 8; do
    bash -c '. "$1/common.sh" && . "$1/predictions.sh" && cd "$1/../.." &&
      "$HEXAD" validate $recipe --world $2 run.dir="$3/run" "${run_settings[@]}" "${reference_settings[@]}"' \
      bash "$scripts" "$ranks" "$PWD" >out 2>err || failed "the reference is illegal on $ranks ranks: $(cat err)"
  done
}

test_wrong_options_are_refused() {
  expect 2 predict --steps 3
  expect_text err "--steps is '3', expected a whole number from 4 to 999"
  expect 2 predict --places 3
  expect_text err "--places has '3', expected 1, 2, 4, 8 or nodes"
  expect 2 predict --places '1 2 1'
  expect_text err "--places has '1' twice"
  expect 2 plan --rounds 0
  expect_text err "--rounds is '0'"
}

run_tests "$@"
