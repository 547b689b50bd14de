#!/usr/bin/env bash
# Slurm on two emulated nodes: signals, time limits, requeued jobs, srun without PMIx, a lost node. Skipped (77) if
# Slurm (tools/install-dependencies.sh --slurm) or network namespaces are missing.
. "$(dirname "$0")/cli.sh"

if [ -z "${SLURM_TESTBED_STATE:-}" ]; then
  exec "$CLI_TESTS/../../tools/testbed/slurm_cluster.sh" --nodes 2 --cpus 8 "$(realpath "$0")" "$@"
fi

srun=(srun --mpi=pmix --kill-on-bad-exit=1)
endless=(train.steps=1000000 train.log_every=100000 checkpoint.every=0)
state_of() { scontrol show job "$1" | grep -oE 'JobState=\w+' | cut -d= -f2; }
# `is JOB STATE`: true if the job has this state.
is() { [ "$(state_of "$1")" == "$2" ]; }
was_requeued() { grep -q 'Restarts=1' <<<"$(scontrol show job "$1")"; }
is_over() { ! grep -qE 'JobState=(PENDING|RUNNING|COMPLETING)' <<<"$(scontrol show job "$1")"; }
# `says FILE TEXT`: true if the file contains the text.
says() { grep -qF -- "$2" "$1" 2>/dev/null; }
says_three_times() { [ "$(grep -cF -- "$2" "$1")" -eq 3 ]; }
# Prints the names of the nodes, which are also the names of their network namespaces.
nodes() { sinfo --noheader --Node --format %N | sort -u; }
# `ranks_on NODE...`: prints the process ids of the ranks on the nodes.
ranks_on() {
  local node pid
  for node in "$@"; do
    for pid in $(ip netns pids "$node"); do
      if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" == "$(basename "$HEXAD")" ]; then echo "$pid"; fi
    done
  done
}
idle_nodes() { [ "$(sinfo --noheader --states idle --format %D)" == "$1" ]; }
# `saves RUN`: prints the number of the run's complete checkpoints.
saves() { compgen -G "$1/checkpoints/step-*" | grep -vc '\.tmp'; }

# `submit RUN OVERRIDE...`: submits a batch script like the script of docs/quickstart.md, on two nodes with two ranks
# each. Its output is in RUN.out. Sets $job to the number of the job.
submit() {
  cat >job.sh <<J
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --requeue --open-mode=append
${srun[*]} $HEXAD train tiny.yaml run.dir=\$1 "\${@:2}"
J
  job=$(sbatch --parsable --output "$1.out" job.sh "$@") || failed "sbatch refused the script"
}
# `submit_mpirun RUN OVERRIDE...`: like submit, with a script in which mpirun replaces the shell. mpirun gives its ranks
# 5 s to save.
submit_mpirun() {
  cat >mpirun.sh <<J
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --requeue --open-mode=append
export OMPI_MCA_odls_base_sigkill_timeout=5
exec mpirun --bind-to none $HEXAD train tiny.yaml run.dir=\$1 "\${@:2}"
J
  job=$(sbatch --parsable --output "$1.out" mpirun.sh "$@") || failed "sbatch refused the script"
}

test_signal_before_the_end_saves_and_the_requeued_job_continues() {
  submit run train.steps=200 batch.global=256 checkpoint.every=0
  wait_until has_steps run 3
  scancel --signal=USR1 "$job"
  wait_until is "$job" PENDING
  expect_text run.out "preempted after step" "saved: start the run again to continue"
  # Without this start time, Slurm would start the job again after two minutes. An immediate start fails, because the
  # old step still has its PMIx socket.
  scontrol update JobId="$job" StartTime=now+6
  wait_until is "$job" RUNNING
  wait_until has_steps run 100
  wait_until is "$job" COMPLETED
  expect_text run.out "resumed from run/checkpoints/step-"
  expect 0 "$HEXAD" inspect run --verify
  expect_file run/checkpoints/step-00000200/manifest.json
}

test_requeued_job_has_saved() {
  submit run "${endless[@]}" batch.global=256
  wait_until has_steps run 3
  scontrol requeue "$job"
  wait_until is "$job" PENDING
  scancel "$job"
  expect_equal "$(saves run)" 1
}

# At the limit, Slurm sends SIGTERM twice, 2 to 30 ms apart. Slurm checks limits every 30 s.
test_job_has_saved_at_its_time_limit() {
  local jobs=()
  submit direct "${endless[@]}" batch.global=1024
  jobs+=("$job")
  submit_mpirun launched "${endless[@]}" batch.global=1024
  jobs+=("$job")
  wait_until has_steps direct 2
  wait_until has_steps launched 2
  for job in "${jobs[@]}"; do scontrol update JobId="$job" EndTime=now+1; done
  sleep 20
  for job in "${jobs[@]}"; do wait_until is_over "$job"; done
  expect_equal "$(saves direct) $(saves launched)" "1 1"
  expect_text direct.out "preempted after step"
}

test_mpirun_in_a_batch_script_saves_on_the_signal_for_the_script() {
  submit_mpirun run "${endless[@]}" batch.global=256
  wait_until has_steps run 3
  scancel --batch --signal=USR1 "$job"
  wait_until is "$job" PENDING
  scancel "$job"
  expect_text run.out "preempted after step"
  expect_equal "$(saves run)" 1
}

test_srun_without_pmix_is_refused_before_mpi_starts() {
  expect 2 srun --mpi=none -N 2 -n 4 "$HEXAD" train tiny.yaml
  expect_text err "srun started 4 tasks without PMIx (PMIX_RANK is not set)" \
    "start with srun --mpi=pmix --kill-on-bad-exit=1"
  expect_no_text err "OMPI was not built with SLURM"
  run srun --mpi=pmi2 -N 2 -n 4 "$HEXAD" train tiny.yaml
  expect_text err "MPI_Init may fail now: srun started 4 tasks without PMIx"
  expect 0 srun -n 1 "$HEXAD" train tiny.yaml
}

test_variables_of_mpirun_in_one_tasks_environment_have_no_effect() {
  local size
  for size in 1 3; do
    expect 0 timeout 60 "${srun[@]}" -N 2 -n 4 bash -c \
      '[ $SLURM_PROCID -ne 2 ] || export OMPI_COMM_WORLD_SIZE=$1; exec "$0" train tiny.yaml run.dir=run$1' "$HEXAD" $size
    expect_text out "4 ranks"
  done
}

test_rank_that_ends_before_mpi_has_started_ends_the_job() {
  # The rank ends only after all tasks have started. If a task starts after another task has ended, Slurm kills the late
  # task without first sending SIGTERM.
  expect 7 timeout 60 "${srun[@]}" -N 2 -n 4 bash -c \
    '[ $SLURM_PROCID -ne 2 ] || { sleep 3; exit 3; }; exec "$0" train tiny.yaml' "$HEXAD"
  expect_text err "task 2: Exited with exit code 3"
}

test_ranks_that_wait_for_a_missing_rank_answer_sigterm() {
  local pid
  srun --mpi=pmix -N 2 -n 4 bash -c '[ $SLURM_PROCID -ne 2 ] || exec sleep 100; exec "$0" train tiny.yaml' "$HEXAD" \
    >out 2>err &
  pid=$!
  sleep 3
  kill -TERM $(ranks_on $(nodes))
  wait_until says_three_times err "this rank was asked to end, but other ranks have not reached MPI_Init"
  scancel --user root
  wait $pid || true
}

test_validate_in_an_allocation_prints_srun() {
  expect 0 salloc --quiet --nodes 2 --ntasks-per-node=2 --cpus-per-task=2 "$HEXAD" validate tiny.yaml --world 4
  expect_text out "start it here with: srun --mpi=pmix --kill-on-bad-exit=1 -n 4 --cpus-per-task=2 hexad train tiny.yaml"
  expect 0 salloc --quiet --nodes 2 --ntasks-per-node=1 "$HEXAD" validate tiny.yaml --world 4
  expect_text out "start it here with: srun --mpi=pmix --kill-on-bad-exit=1 -n 4 --overcommit hexad train"
  expect 2 salloc --quiet --nodes 1 "$HEXAD" train tiny.yaml parallel.tp=2
  expect_text err "the layout needs 2 ranks or more: srun --mpi=pmix --kill-on-bad-exit=1 -n 2"
  # Runs the suggested command.
  expect 0 salloc --quiet --nodes 2 --ntasks-per-node=2 bash -c \
    '$("$0" validate tiny.yaml --world 4 | sed -n "s/^start it here with: //p" | sed "s,hexad train,$0 train,")' "$HEXAD"
  expect_text out "step 6/6"
}

test_points_of_an_experiment_run_simultaneously_on_separate_nodes() {
  cat >e.yaml <<'Y'
recipe: tiny.yaml
dir: results
set: [checkpoint.every=0, checkpoint.at_end=false]
ranks: [2]
vary:
  - {name: lr, key: optim.lr, values: [0.01, 0.02]}
repeats: 2
steps: 3
warmup_steps: 1
at_once: 2
Y
  expect 2 salloc --quiet --nodes 2 --ntasks-per-node=2 "$HEXAD" scale e.yaml
  expect_text err "at_once (2) needs ranks_per_node or a cluster file"
  expect 2 salloc --quiet --nodes 1 --ntasks-per-node=2 "$HEXAD" scale e.yaml ranks_per_node=2
  expect_text err "the smallest points need 1 and 1 node, but there are only 1"
  expect 0 salloc --quiet --nodes 2 --ntasks-per-node=2 "$HEXAD" scale e.yaml ranks_per_node=2
  expect_text out "4 runs executed, 0 finished before, 0 failed" "Up to 2 runs executed at the same time"
  expect_equal "$(cat results/*/repeat-1.json | grep -cF '"beside": 1')" 2
  expect_equal "$(sed -n 's/.* host \([^,]*\), pid.*/\1/p' results/*/repeat-1/log/rank-0000.log | sort -u | wc -l)" 2
}

scripts=$CLI_TESTS/../../recipes/slurm
# `submit_script SCRIPT SBATCH_OPTION... -- ARGUMENT...`: submits a script of recipes/slurm with two ranks per node. Its
# output is in SCRIPT.out. Sets $job to the number of the job.
submit_script() {
  local script=$1 options=()
  shift
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  job=$(sbatch --parsable --output "$script.out" --ntasks-per-node=2 --cpus-per-task=1 "${options[@]}" \
    "$scripts/$script.sbatch" "${@:2}") || failed "sbatch refused $script.sbatch"
}

test_scripts_for_one_and_for_many_nodes_train() {
  submit_script one-node -- tiny.yaml run.dir=one
  wait_until is "$job" COMPLETED
  expect_text one-node.out "step 6/6"
  submit_script many-nodes --nodes=2 -- tiny.yaml run.dir=many parallel.ep=4
  wait_until is "$job" COMPLETED
  expect_text many-nodes.out "step 6/6" "4 ranks"
  expect_same_losses one many
}

test_script_for_many_nodes_is_requeued_after_the_signal() {
  submit_script many-nodes --nodes=2 -- tiny.yaml run.dir=run "${endless[@]}" batch.global=256
  wait_until has_steps run 3
  scancel --signal=USR1 "$job"
  wait_until is "$job" PENDING
  scancel "$job"
  expect_equal "$(saves run)" 1
}

test_tasks_of_an_array_train_their_variants() {
  printf '%s\n' 'optim.lr=0.01' 'optim.lr=0.02 train.steps=4' >variants.txt
  submit_script array --wait --array=1-2 -- variants.txt tiny.yaml
  expect_count 6 runs/variant-1/metrics.jsonl '"kind":"step"'
  expect_count 4 runs/variant-2/metrics.jsonl '"kind":"step"'
}

test_elastic_script_trains_and_saves_on_the_signal_for_the_script() {
  export ELASTIC=$CLI_TESTS/../../tools/elastic.sh
  submit_script elastic --nodes=2 -- tiny.yaml run.dir=run "${endless[@]}" batch.global=256
  wait_until has_steps run 3
  scancel --batch --signal=USR1 "$job"
  wait_until is "$job" PENDING
  scancel "$job"
  expect_text elastic.out "start 1: 4 of 4 ranks" "asked to end: exit code 75"
  expect_equal "$(saves run)" 1
}

test_cancelled_elastic_job_saves_and_ends() {
  export ELASTIC=$CLI_TESTS/../../tools/elastic.sh
  submit_script elastic --nodes=2 -- tiny.yaml run.dir=run "${endless[@]}" batch.global=256
  wait_until has_steps run 3
  scancel "$job"
  wait_until says elastic.out "asked to end: exit code 75"
  wait_until is "$job" CANCELLED
  expect_equal "$(saves run)" 1
}

# `bring_back NODE`: returns the node to service, because other tests need it.
bring_back() {
  scancel "$job"
  "$CLI_TESTS/../../tools/testbed/enter_node.sh" "$1" slurmd -D >/dev/null 2>&1 &
  wait_until idle_nodes 2
}

# `set_slurmd_timeout SECONDS`: sets the time after which a node that does not answer counts as down.
set_slurmd_timeout() {
  sed -i "s/^SlurmdTimeout=.*/SlurmdTimeout=$1/" "$SLURM_CONF"
  scontrol reconfigure
}

# Slurm removes the lost node from the job. The run continues on the other node, in a layout of two ranks.
test_elastic_script_continues_without_a_lost_node() {
  all=($(nodes))  # not local: the trap runs after the function
  trap 'set_slurmd_timeout 60; bring_back "${all[1]}"' EXIT
  set_slurmd_timeout 6
  export ELASTIC=$CLI_TESTS/../../tools/elastic.sh
  submit_script elastic --nodes=2 -- tiny.yaml run.dir=run parallel.ep=4 batch.global=64 train.steps=1000000 \
    train.log_every=100000 checkpoint.every=5
  wait_until has_steps run 6
  kill -9 $(ip netns pids "${all[1]}")
  sleep 20  # Slurm removes the lost node after about 30 s
  wait_until says elastic.out "2 ranks are left: going on from step-"
  wait_until says elastic.out "resumed from run/checkpoints/step-"
  expect_text elastic.out "start 1: 4 of 4 ranks" "start 2: 2 of 4 ranks, parallel.ep=2"
  scancel --batch --signal=USR1 "$job"
  wait_until is "$job" PENDING
  scancel "$job"
  expect 0 "$HEXAD" inspect run --verify
}

# The ranks that are left notice the lost node after 10 s. Slurm notices the lost node after 60 s.
test_script_for_many_nodes_is_requeued_before_slurm_notices_a_lost_node() {
  all=($(nodes))  # not local: the trap runs after the function
  trap 'bring_back "${all[1]}"' EXIT
  submit_script many-nodes --nodes=2 -- tiny.yaml run.dir=run "${endless[@]}" batch.global=256 parallel.ep=4 \
    distributed.watchdog_seconds=10
  wait_until has_steps run 3
  kill -9 $(ip netns pids "${all[1]}")
  sleep 15
  wait_until was_requeued "$job"  # the job becomes pending when Slurm notices the lost node
  expect_text many-nodes.out "hang: 10 s in operation" "does not answer"
}

# The test ends before Slurm itself notices the missing node.
test_survivors_of_a_lost_node_answer_sigterm_while_they_wait() {
  all=($(nodes))  # not local: the trap runs after the function
  trap 'bring_back "${all[1]}"' EXIT
  submit run "${endless[@]}" batch.global=256 parallel.ep=4
  wait_until has_steps run 3
  kill -9 $(ip netns pids "${all[1]}")
  sleep 1
  kill -TERM $(ranks_on "${all[0]}")
  wait_until says run.out "this rank was asked to end, but a rank is lost in operation"
  expect_text run.out "does not answer: it is stopped, has ended or cannot be reached"
}

run_tests "$@"
