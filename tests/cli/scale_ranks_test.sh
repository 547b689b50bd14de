#!/usr/bin/env bash
# `hexad scale`: points of a small recipe under mpirun, their tables, and continuation after an interruption.
. "$(dirname "$0")/cli.sh"
export OMPI_MCA_hwloc_base_binding_policy=none  # other tests run at the same time

# `make_experiment [LINE...]`: writes an experiment with four points (1 and 2 ranks, each with two learning rates), and
# appends each LINE.
make_experiment() {
  cat >e.yaml <<'Y'
recipe: tiny.yaml
dir: results
set: [checkpoint.every=0, checkpoint.at_end=false]
ranks: [1, 2]
vary:
  - {name: lr, key: optim.lr, values: [0.01, 0.02]}
repeats: 2
steps: 3
warmup_steps: 1
Y
  printf '%s\n' "$@" >>e.yaml
}
has_metrics() { ls results/*/repeat-1/metrics.jsonl; }
# `states STATE`: prints the number of runs in this state.
states() { cat results/*/repeat-*.json | grep -cF "\"state\": \"$1\""; }

test_points_run_and_finished_points_never_run_again() {
  make_experiment
  expect 0 "$HEXAD" scale e.yaml
  expect_text out '8 runs executed, 0 finished before, 0 failed' '| ranks | lr |' results/report.html
  expect_equal "$(states finished)" 8
  expect_file results/ranks-2_lr-0.02/repeat-2/metrics.jsonl
  expect_file results/ranks-2_lr-0.02/repeat-2/recipe.yaml
  expect_equal "$(wc -l <results/scale.csv)" 5
  expect_text results/scale.csv point,ranks,axis_lr, exposed_share_dp
  expect_text results/scale.json '"efficiency"' '"losses"'
  expect_text results/report.html '<!DOCTYPE html>' '<svg '
  expect_text results/table.md '| ranks | lr |'
  cp results/scale.csv before.csv
  expect 0 "$HEXAD" scale e.yaml --compare before.csv
  expect_text out '0 runs executed, 8 finished before' '1.000'
  cmp before.csv results/scale.csv || failed "the table changed although no point ran"
  # A killed run starts again; the results of the other runs are kept.
  sed -i 's/finished/started/' results/ranks-1_lr-0.01/repeat-1.json
  expect 0 "$HEXAD" scale e.yaml
  expect_text out '1 run executed, 7 finished before'
}

test_an_interrupted_experiment_continues() {
  make_experiment
  sed -i 's/^steps: 3/steps: 400/' e.yaml
  "$HEXAD" scale e.yaml ranks=[1] >first 2>&1 &
  local scale=$!
  wait_until has_metrics >ignored 2>&1
  kill -TERM $scale
  wait $scale
  expect_equal $? 143
  expect_equal "$(states started)" 1
  expect 0 "$HEXAD" scale e.yaml ranks=[1]
  expect_equal "$(states finished)" 4
}

test_two_processes_do_not_run_one_experiment() {
  make_experiment
  # Writes a launcher that waits for the file `go`.
  cat >start <<'S'
touch started
while [ ! -e go ]; do sleep 0.05; done
exec "$@"
S
  local arguments=(scale e.yaml ranks=[1] repeats=1 'launcher=sh start')
  "$HEXAD" "${arguments[@]}" >first 2>&1 &
  local scale=$!
  wait_until test -f started
  expect 2 "$HEXAD" "${arguments[@]}"
  expect_text err 'results/scale.lock is locked: another hexad scale runs this experiment'
  expect 0 "$HEXAD" "${arguments[@]}" --report
  touch go
  wait $scale
  expect_equal $? 0
  expect_equal "$(states finished)" 2
}

# Runs the experiment's points of one rank, two at once. If the machine has too few cores for this, expects a refusal
# with this reason and returns false.
two_cores_are_there() {
  "$HEXAD" scale e.yaml ranks=[1] >out 2>err && return 0
  code=$?
  expect_equal "$code" 2
  expect_text err 'at_once (2) cannot be more than 1: the smallest points need 1 and 1 core'
  expect_nothing_at results
  return 1
}

test_simultaneous_runs_have_separate_cores_and_are_counted() {
  make_experiment 'at_once: 2'
  two_cores_are_there || return 0
  expect_text out '4 runs executed, 0 finished before, 0 failed' 'Up to 2 runs executed at the same time'
  expect_equal "$(cat results/*/repeat-1.json | grep -cF '"beside": 1')" 2
  expect_text results/report.html 'runs beside' 'Up to 2 runs executed at the same time'
  expect_text results/scale.csv ',runs_beside,'
  sed -i 's/finished/started/' results/ranks-1_lr-0.01/repeat-1.json
  expect 0 "$HEXAD" scale e.yaml ranks=[1]
  expect_text out '1 run executed, 3 finished before'
  expect_text results/ranks-1_lr-0.01/repeat-1.json '"beside": 0'
  expect 2 "$HEXAD" scale e.yaml ranks=[1] at_once=1
  expect_text err 'belongs to another experiment: at_once: 2 -> 1'
}

test_interrupted_simultaneous_runs_start_again() {
  make_experiment 'at_once: 2'
  two_cores_are_there || return 0
  rm -r results
  sed -i 's/^steps: 3/steps: 400/' e.yaml
  "$HEXAD" scale e.yaml ranks=[1] >first 2>&1 &
  local scale=$!
  wait_until test -f results/ranks-1_lr-0.01/repeat-1/metrics.jsonl
  wait_until test -f results/ranks-1_lr-0.02/repeat-1/metrics.jsonl
  kill -TERM $scale
  wait $scale
  expect_equal $? 143
  expect_equal "$(states started)" 2
  expect 0 "$HEXAD" scale e.yaml ranks=[1]
  expect_equal "$(states finished)" 4
}

test_simultaneous_runs_that_would_share_cores_or_links_are_refused() {
  make_experiment 'at_once: 2'
  expect 2 "$HEXAD" scale e.yaml 'set=[train.threads=auto]'
  expect_text err 'e.yaml:10: at_once (2) needs a number of threads for each rank (train.threads)'
  expect 2 "$HEXAD" scale e.yaml launcher=env
  expect_text err 'at_once (2) cannot be more than 1 with a launcher of the experiment'
  expect 2 "$HEXAD" scale e.yaml 'set=[train.threads=4096]' ranks=[2]
  expect_text err 'at_once (2) cannot be more than 1: point ranks-2_lr-0.01 needs 8192 cores, but there are'
  expect 2 "$HEXAD" scale e.yaml ranks_per_node=1
  expect_text err 'runs would share the links of the 2 nodes of point ranks-2_lr-0.01'
  expect 2 "$HEXAD" scale e.yaml --submit
  expect_text err '--submit is given, but at_once (2) is more than 1'
  expect_nothing_at results
}

test_a_dry_run_lists_points_and_runs_nothing() {
  make_experiment
  expect 0 "$HEXAD" scale e.yaml --dry-run
  expect_text out ranks-1_lr-0.01 ranks-2_lr-0.02 '4 points, 2 runs each' 'no prediction of step times: the experiment has no cluster file'
  expect_nothing_at results
  expect 0 "$HEXAD" scale e.yaml --dry-run "cluster=$CLI_TESTS/../../recipes/clusters/two-nodes-200mbit.yaml"
}

test_problems_of_points_are_reported_together() {
  make_experiment 'max_ranks: 2'
  expect 2 "$HEXAD" scale e.yaml 'ranks=[2, 3, 4]' 'vary=[{name: ep, key: parallel.ep, values: [1, 5]}]'
  expect_text err 'ranks.1 (3) is more than the 2 available ranks' 'ranks.2 (4) is more than' ranks-2_ep-5
  expect_nothing_at results
  make_experiment 'stps: 3'
  expect 2 "$HEXAD" scale e.yaml
  expect_text err 'e.yaml:10: stps is not a key'
}

test_ranks_that_share_cores_are_named_and_marked() {
  make_experiment
  local cpu
  cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
  expect 0 taskset -c "$cpu" "$HEXAD" scale e.yaml repeats=1 'vary=[]'
  expect_text out 'warning: 2 ranks share 1 core' '| 2 (ranks > cores) |'
  expect_no_text out '1 (ranks > cores)'
  expect_text results/scale.csv ',shared_cores,'
  expect_text results/report.html '2 (ranks &gt; cores)'
}

test_points_beyond_the_allocation_are_refused() {
  make_experiment
  expect 2 env SLURM_JOB_ID=7 SLURM_NTASKS=1 "$HEXAD" scale e.yaml
  expect_text err 'e.yaml:4: ranks.1 (2) is more than the 1 available ranks'
  expect_nothing_at results
  expect 0 env SLURM_JOB_ID=7 SLURM_NTASKS=1 "$HEXAD" scale e.yaml --dry-run
}

test_points_beyond_the_memory_are_refused_unless_they_have_results() {
  make_experiment
  local huge='set=[model.hidden=65536, model.layers=8, model.heads=64]'
  expect 2 "$HEXAD" scale e.yaml 'vary=[]' "$huge"
  expect_text err 'e.yaml:4: ranks-1: ' 'e.yaml:4: ranks-2: '
  expect_nothing_at results
  # Points that are illegal or do not fit are listed together.
  expect 2 "$HEXAD" scale e.yaml 'vary=[{name: ep, key: parallel.ep, values: [1, 3]}]' "$huge"
  expect_text err 'e.yaml:4: ranks-1_ep-1: ' 'ranks-1_ep-3: parallel.ep (3)'
  expect 0 "$HEXAD" scale e.yaml 'vary=[]' "$huge" --dry-run
  expect_text out '2 points, 2 runs each' TiB
  expect 0 "$HEXAD" scale e.yaml 'vary=[]' "$huge" --report
  expect_file results/scale.csv
}

test_a_folder_that_cannot_be_made_is_named() {
  make_experiment
  touch file
  expect 4 "$HEXAD" scale e.yaml dir=file/results
  expect_text err 'file/results: cannot be created'
}

test_foreign_and_half_written_folders_are_refused_by_name() {
  make_experiment
  mkdir results
  touch results/mine
  expect 2 "$HEXAD" scale e.yaml
  expect_text err 'results has files, but no experiment.json'
  expect_file results/mine
  rm -r results
  expect 0 "$HEXAD" scale e.yaml --report
  expect 2 "$HEXAD" scale e.yaml --report seed=2
  expect_text err 'results/experiment.json belongs to another experiment: seed: 1 -> 2'
  printf 'point,step_seconds\na,1' >half.csv
  expect 2 "$HEXAD" scale e.yaml --compare half.csv
  expect_text err 'half.csv:2: the line does not end with a newline; the file is incomplete'
  expect 2 "$HEXAD" scale e.yaml --dry-run --compare results/scale.csv
  expect_text err '--compare is given with --dry-run'
  expect 2 "$HEXAD" scale e.yaml --dry-run --report
  expect_text err '--dry-run and --report are given; expected at most one of them'
}

test_a_failed_point_is_named() {
  make_experiment
  expect 2 "$HEXAD" scale e.yaml repeats=1 ranks=[1] 'launcher=sh -c'
  expect_text out 'ranks-1_lr-0.01' 'failed: exit code' results/ranks-1_lr-0.01/repeat-1.txt
}

test_other_runs_follow_a_failed_run_which_alone_runs_again() {
  make_experiment
  # Writes a launcher whose first run fails.
  cat >start <<'S'
if mkdir started 2>/dev/null; then echo "the first run fails"; exit 3; fi
exec "$@"
S
  expect 3 "$HEXAD" scale e.yaml ranks=[1] 'launcher=sh start'
  expect_text out '4 runs executed, 0 finished before, 1 failed' 'failed: exit code 3: the first run fails'
  expect_text results/table.md 'failed: exit code 3: the first run fails'
  expect_text results/scale.csv ',failed_runs,'
  expect_equal "$(states failed)" 1
  expect_equal "$(states finished)" 3
  expect 0 "$HEXAD" scale e.yaml ranks=[1] 'launcher=sh start'
  expect_text out '1 run executed, 3 finished before, 0 failed'
}

test_runs_of_another_program_are_named() {
  make_experiment
  expect 0 "$HEXAD" scale e.yaml ranks=[1]
  expect_no_text out 'another program' 'different programs'
  expect_text results/ranks-1_lr-0.01/repeat-1.json '"program": "hexad '
  sed -i 's/"program": "hexad .*"/"program": "hexad 0.0.1"/' results/ranks-1_lr-0.01/repeat-1.json
  expect 0 "$HEXAD" scale e.yaml ranks=[1]
  expect_text out 'warning: the results of 1 finished run are from another program: hexad 0.0.1; this program is hexad '
  expect_text results/table.md 'The runs are from different programs:' '- hexad 0.0.1: 1 run'
}

test_a_run_that_finishes_after_a_signal_is_recorded() {
  make_experiment
  # Writes a launcher that starts the run after the signal, so that the run finishes.
  cat >start <<'S'
trap 'touch signalled' TERM
touch started
while [ ! -e go ]; do sleep 0.05; done
exec "$@"
S
  "$HEXAD" scale e.yaml ranks=[1] 'launcher=sh start' >first 2>&1 &
  local scale=$!
  wait_until test -f started
  kill -TERM $scale
  wait_until test -f signalled
  touch go
  wait $scale
  expect_equal $? 143
  expect_equal "$(states finished)" 1
  expect_equal "$(states started)" 0
}

test_a_run_without_complete_metrics_fails_and_runs_again() {
  make_experiment
  # Writes a launcher whose first run does nothing and succeeds.
  cat >start <<'S'
mkdir started 2>/dev/null && exit 0
exec "$@"
S
  expect 3 "$HEXAD" scale e.yaml ranks=[1] 'launcher=sh start'
  expect_text out '4 runs executed, 0 finished before, 1 failed' 'failed: exit code 0, but the metrics are incomplete'
  expect_file results/scale.csv
  expect 0 "$HEXAD" scale e.yaml ranks=[1] 'launcher=sh start'
  expect_text out '1 run executed, 3 finished before, 0 failed'
  # A finished run whose metrics were damaged later is left out.
  sed -i '2s/.*/{/' results/ranks-1_lr-0.01/repeat-1/metrics.jsonl
  expect 3 "$HEXAD" scale e.yaml ranks=[1] 'launcher=sh start'
  expect_text out '0 runs executed, 4 finished before' 'Left out a damaged run' 'metrics.jsonl:2: the line cannot be read'
  expect_text results/scale.csv 'ranks-1_lr-0.01,1,'
  rm -r results/ranks-1_lr-0.01/repeat-1 results/ranks-1_lr-0.01/repeat-1.json
  expect 0 "$HEXAD" scale e.yaml ranks=[1] 'launcher=sh start'
  expect_text out '1 run executed, 3 finished before, 0 failed'
}

# `tasks_of SCRIPT...`: prints the task numbers of the array scripts, sorted.
tasks_of() {
  sed -n 's/^#SBATCH --array=//p' "$@" | tr , '\n' | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }' | sort -n | xargs
}

test_submit_writes_array_scripts_within_the_node_hours() {
  make_experiment 'ranks_per_node: 1' 'minutes: 5'
  expect 0 "$HEXAD" scale e.yaml --submit
  # All points run once before any point runs again.
  expect_equal "$(sed -n 's/^sbatch \(.*\)/\1/p' out)" 'results/submit-repeat-1-nodes-1.sh   # 2 runs
results/submit-repeat-1-nodes-2.sh   # 2 runs
results/submit-repeat-2-nodes-1.sh   # 2 runs
results/submit-repeat-2-nodes-2.sh   # 2 runs'
  expect_text results/submit-repeat-1-nodes-2.sh '#SBATCH --nodes=2' '#SBATCH --time=9' 'scale e.yaml --run "$((SLURM_ARRAY_TASK_ID + 0))"'
  expect_text results/submit-repeat-2-nodes-2.sh 'scale e.yaml --run "$((SLURM_ARRAY_TASK_ID + 4))"'
  expect_equal "$(tasks_of results/submit-repeat-1-*.sh)" '0 1 2 3'
  expect_equal "$(tasks_of results/submit-repeat-2-*.sh)" '0 1 2 3'
  expect 0 "$HEXAD" scale e.yaml --submit minutes=6
  expect_text out 'afterwards, run: hexad scale e.yaml minutes=6 --report'
  local script=results/submit-repeat-2-nodes-1.sh tasks
  expect_text $script '#SBATCH --time=10' 'scale e.yaml minutes=6 --run'
  bash -n $script || failed "the script has a syntax error"
  read -ra tasks <<<"$(tasks_of $script)"
  expect 0 env SLURM_ARRAY_TASK_ID="${tasks[0]}" bash $script
  expect_text out "$((tasks[0] + 5)) of 8: ranks-1_" ', repeat 2: ' '1 run executed'
  expect_equal "$(states finished)" 1
  expect 0 "$HEXAD" scale e.yaml --submit
  expect_equal "$(tasks_of $script)" "${tasks[1]}"
  expect_text out "sbatch $script   # 1 run" 'sbatch results/submit-repeat-1-nodes-1.sh   # 2 runs'
  expect 2 "$HEXAD" scale e.yaml --run 8
  expect_text err '--run (8) must be at most 7, because the experiment has 8 runs'
  expect 0 "$HEXAD" scale e.yaml
  expect 0 "$HEXAD" scale e.yaml --submit
  expect_text out 'nothing to submit'
  expect_no_text out sbatch
  expect 0 "$HEXAD" scale e.yaml --submit 'dir=other folder'
  expect_text out "sbatch 'other folder/submit-repeat-1-nodes-1.sh'"
  expect 2 "$HEXAD" scale e.yaml --submit max_node_hours=0.5 dir=other
  expect_text err 'max_node_hours (0.5) is less than the'
  expect_nothing_at other
}

run_tests "$@"
