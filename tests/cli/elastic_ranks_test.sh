#!/usr/bin/env bash
# tools/elastic.sh: runs that lose ranks and get them back, and a stale job that returns.
. "$(dirname "$0")/cli.sh"

elastic=$CLI_TESTS/../../tools/elastic.sh

# Writes start.sh, which counts its starts in `starts` and records each start in `log`. Line N of the file `faults`
# defines the fault of start N: HEXAD_FAULT, then the number of ranks that remain while start N runs.
write_launcher() {
  cat >start.sh <<S
#!/usr/bin/env bash
number=\$((\$(cat starts 2>/dev/null || echo 0) + 1))
echo \$number >starts
echo "\$number \$1" >>log
read -r fault left <<<"\$(sed -n "\${number}p" faults)"
[ -z "\$left" ] || echo "\$left" >left
[ -z "\$fault" ] || [ "\$fault" == - ] || export HEXAD_FAULT=\$fault
exec $(printf '%q ' "${launch[@]}") -np "\$@"
S
  chmod +x start.sh
}

test_run_that_loses_ranks_twice_and_regains_them_once_is_the_same_run() {
  local job=(train.steps=40 parallel.ep=4)
  expect 0 "$HEXAD" train tiny.yaml train.steps=40 run.dir=whole
  write_launcher
  # Start 1 loses a rank in step 5. Start 2 has slow steps, so that it is still running when four ranks are back.
  # Start 3 loses a rank in step 36.
  printf '%s\n' "kill@3,5 3" "slow@0,1,500 4" "kill@1,36 2" "- 2" >faults
  echo 4 >left
  expect 0 "$elastic" --available 'cat left' --every 1 2 4 ./start.sh '{ranks}' "$HEXAD" train tiny.yaml "${job[@]}"
  expect_equal "$(tr '\n' ' ' <log)" "1 4 2 2 3 4 4 2 "
  expect_text err "start 1: 4 of 4 ranks" "exit code 137 of start 1; 3 ranks are left: going on from step-00000004" \
    "start 2: 2 of 4 ranks, parallel.ep=2" "4 ranks are available: the run saves a checkpoint, then continues on 4" "exit code 75 of start 2" \
    "exit code 137 of start 3; 2 ranks are left: going on from step-00000034" "resumed from run/checkpoints/step-00000034"
  expect_text out "step 40/40"
  expect_same_losses whole run
  expect 0 "$HEXAD" inspect run --verify
}

# The old job is suspended, and the new job does not see the old job's lock, as after a network partition. The old job
# continues after the end of the new job, so no lock protects the run directory.
test_stale_job_that_returns_writes_nothing() {
  local old=()
  "${launch[@]}" -np 2 "$HEXAD" train tiny.yaml parallel.ep=2 train.steps=1000000 checkpoint.every=0 >old.out 2>old.err &
  launcher=$!
  wait_until has_steps run 3
  old=($(process_of 0) $(process_of 1))
  kill -STOP "${old[@]}"
  rm run/lock
  expect 0 "$elastic" 1 2 "${launch[@]}" -np '{ranks}' "$HEXAD" train tiny.yaml
  files_of_run >before
  kill -CONT "${old[@]}"
  code=0
  wait "$launcher" || code=$?
  expect_equal "$code" 2
  expect_text old.err "run/generation: is 2, expected 1, the number of this job's start" \
    "another job has taken over the run directory"
  files_of_run >after
  cmp -s before after || failed "the stale job changed files: $(diff before after)"
  expect 0 "$HEXAD" inspect run --verify
}
# Prints the digests of the files of the run, except its logs and TensorBoard files.
files_of_run() { find run -type f ! -path 'run/log/*' ! -path 'run/tensorboard/*' -exec sha256sum {} + | sort; }

test_stale_job_that_is_asked_to_save_leaves_the_newer_jobs_checkpoints() {
  local old
  "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >old.out 2>old.err &
  old=$!
  wait_until has_steps run 3
  kill -STOP "$old"
  rm run/lock
  expect 0 "$HEXAD" train tiny.yaml
  find run/checkpoints -type f -exec sha256sum {} + | sort >before
  kill -USR1 "$old"
  kill -CONT "$old"
  code=0
  wait "$old" || code=$?
  expect_equal "$code" 2
  find run/checkpoints -type f -exec sha256sum {} + | sort >after
  cmp -s before after || failed "the stale job changed files: $(diff before after)"
}

# `fake CODE`: prints the script of a launcher that only records its arguments and ends with CODE.
fake() {
  echo "echo \"\$*\" >>log; exit $1"
}

test_codes_that_a_new_start_would_repeat_end_the_script() {
  local code_of_run
  for code_of_run in 0 2 3 4 5 139; do
    rm -f log
    expect "$code_of_run" "$elastic" 1 4 bash -c "$(fake "$code_of_run")" - '{ranks}' "$HEXAD" train tiny.yaml
    expect_count 1 log "4 $HEXAD train tiny.yaml"
  done
}

test_starts_without_a_new_checkpoint_end_after_the_allowed_number() {
  local code_of_run
  for code_of_run in 6 7 9 75 137 233 255; do
    rm -f log
    expect "$code_of_run" "$elastic" --tries 2 --every 1 1 4 bash -c "$(fake "$code_of_run")" - '{ranks}' "$HEXAD" train tiny.yaml
    expect_count 2 log "4 $HEXAD train tiny.yaml"
    expect_text err "starts in a row without a new checkpoint: 2"
  done
}

# mpirun also ends with 1 if it has too few slots, which a new start would not change.
test_launcher_that_fails_before_the_run_although_no_rank_is_lost_ends_the_script() {
  expect 1 "$elastic" --every 1 1 4 bash -c "$(fake 1)" - '{ranks}' "$HEXAD" train tiny.yaml
  expect_count 1 log "4 $HEXAD train tiny.yaml"
  expect_text err "exit code 1 of start 1, before the run began, although no rank is lost"
  rm log
  echo a:4 >hosts
  expect 1 "$elastic" --hostfile hosts --reach echo --every 1 1 4 bash -c "$(fake 1)" - '{ranks}' "$HEXAD" train tiny.yaml
  expect_count 1 log "4 $HEXAD train tiny.yaml"
  write_program 'case $start in
    1) mkdir run; echo 1 >run/generation; exit 1 ;;  # a run that loses its launcher
    2) exit 1 ;;
    *) exit 0 ;;
  esac'
  rm log
  expect 0 "$elastic" --every 1 1 2 "${fake_run[@]}"
  expect_equal "$(cut -d' ' -f1 log | xargs)" "2 2 2"
  write_program 'case $start in
    1) echo 2 >left; exit 1 ;;
    *) exit 0 ;;
  esac'
  rm -r log run
  echo 4 >left
  expect 0 "$elastic" --available 'cat left' --every 1 1 4 "${fake_run[@]}"
  expect_equal "$(cut -d' ' -f1 log | xargs)" "4 2"
}

test_unreachable_hosts_are_omitted() {
  printf '%s\n' '# rack 1' 'a slots=2' 'b:2' '' >hosts
  printf 'c max_slots=4 slots=2' >>hosts # this line has no newline at its end
  printf '#!/usr/bin/env bash\ngrep -qx "$1" up\n' >reach.sh
  chmod +x reach.sh
  local host
  for host in "a b c:4 2 a:2,b:2" "b c:4 2 b:2,c:2" "c:2 1 c:2"; do
    tr ' ' '\n' <<<"${host%%:*}" >up
    rm -f log
    expect 0 "$elastic" --hostfile hosts --reach ./reach.sh 1 4 bash -c "$(fake 0)" - '{ranks}' '{nodes}' '{hosts}' \
      "$HEXAD" train tiny.yaml
    expect_text log "${host#*:} $HEXAD train tiny.yaml"
    [ "${host%%:*}" != c ] || expect_count 1 err "elastic.sh: a, b: './reach.sh HOST true' fails"
  done
  echo 'a slots=0' >>hosts # this host answers, but is excluded because it has no slots
  printf '%s\n' a b c >up
  expect 0 "$elastic" --hostfile hosts --reach ./reach.sh 1 4 bash -c "$(fake 0)" - '{ranks}' '{nodes}' '{hosts}' \
    "$HEXAD" train tiny.yaml
  expect_count 0 err "fails; continuing on"
}

# ssh ends with 255 if it does not reach a host.
test_an_unreachable_host_does_not_hide_others() {
  printf 'n%s\n' {1..40} >hosts
  printf '#!/usr/bin/env bash\n[ "$1" != n1 ] || exit 255\nsleep 0.2\n' >reach.sh
  chmod +x reach.sh
  expect 0 "$elastic" --hostfile hosts --reach ./reach.sh 1 40 bash -c "$(fake 0)" - '{ranks}' '{nodes}' "$HEXAD" train tiny.yaml
  expect_count 1 err "elastic.sh: n1: './reach.sh HOST true' fails"
  expect_no_text err xargs
  expect_text log "32 32 $HEXAD"  # 39 hosts answer; the nearest legal layout has 32 ranks
}

test_script_waits_for_the_fewest_ranks() {
  local script
  echo 1 >left
  "$elastic" --available 'cat left' --every 1 2 4 bash -c "$(fake 0)" - '{ranks}' "$HEXAD" train tiny.yaml >out 2>err &
  script=$!
  wait_until grep -qsF "1 rank is left; waiting for at least 2 (MIN)" err
  expect_nothing_at log
  echo 4 >left
  wait "$script" || failed "the script ended with exit code $?, expected 0"
  expect_text log "4 $HEXAD train tiny.yaml"
  rm log
  echo 3 >left
  "$elastic" --available 'cat left' --every 1 3 4 bash -c "$(fake 0)" - '{ranks}' "$HEXAD" train tiny.yaml >out 2>err &
  script=$!
  wait_until grep -qsF "3 ranks are left, without a legal layout; waiting for at least 3 (MIN)" err
  echo 4 >left
  wait "$script" || failed "the script ended with exit code $?, expected 0"
  expect_text log "4 $HEXAD train tiny.yaml"
  rm log
  echo 0 >left
  "$elastic" --available 'cat left' --every 1 2 4 bash -c "$(fake 0)" - '{ranks}' "$HEXAD" train tiny.yaml >out 2>err &
  script=$!
  wait_until grep -qsF "0 ranks are left" err
  kill -USR1 "$script"
  code=0
  wait "$script" || code=$?
  expect_equal "$code" 75
  expect_nothing_at log
}

# `expect_end_after_signal SCRIPT`: sends a signal to the script once its launcher has started, and waits until the
# script ends.
expect_end_after_signal() {
  local code=0
  wait_until test -e started
  kill -USR1 "$1"
  wait "$1" || code=$?
  expect_equal "$code" 75
  expect_text err "asked to end: exit code 75"
}

# The launcher of this test is killed by the signal, like mpirun before it has a handler.
test_signal_before_the_launcher_has_started_ends_the_script() {
  "$elastic" 1 2 bash -c 'echo >started; sleep 20; :' - '{ranks}' "$HEXAD" train tiny.yaml >out 2>err &
  expect_end_after_signal $!
}

# Like mpirun before its ranks have started, the launcher of this test drops the first signal.
test_signal_that_the_launcher_drops_is_repeated() {
  "$elastic" 1 2 bash -c 'trap "trap \"exit 75\" USR1" USR1; echo >started; for ((i = 0; i < 250; i++)); do sleep 0.1; done' - \
    '{ranks}' "$HEXAD" train tiny.yaml >out 2>err &
  expect_end_after_signal $!
}

# Uses a launcher that loses ranks, and a program without a layout for the ranks that remain.
test_script_waits_for_ranks_with_a_layout() {
  cat >program.sh <<'S'
#!/usr/bin/env bash
# Handles `train RECIPE` and `validate RECIPE --world RANKS --nearest --at-least MIN`.
[ "$1" != train ] || exit "$(cat code)"
[ "$4" == "$(cat layout)" ] || { echo "no layout of $7 to $4 ranks is legal" >&2; exit 2; }
printf 'ranks 4\nrun_dir run\nsteps 6\n'
S
  chmod +x program.sh
  echo 5 >layout
  echo 4 >left
  expect 2 "$elastic" --available 'cat left' --every 1 2 4 env RANKS='{ranks}' ./program.sh train tiny.yaml
  expect_text err "no layout of 2 to 4 ranks is legal"
  echo 4 >layout
  echo 7 >code
  local script
  "$elastic" --available 'cat left' --every 1 2 4 bash -c 'echo 3 >left; "$@"' - env RANKS='{ranks}' \
    ./program.sh train tiny.yaml >out 2>err &
  script=$!
  wait_until grep -qsF "3 ranks are left, without a legal layout; waiting for at least 2 (MIN)" err
  expect_count 1 err "no layout of 2 to 3 ranks is legal"
  echo 0 >code
  echo 4 >left
  wait "$script" || failed "the script ended with exit code $?, expected 0"
  expect_text err "exit code 7 of start 1; 4 ranks are left: going on from the beginning"
}

# `write_program BODY`: writes program.sh. Its `validate RECIPE --world RANKS ...` accepts any number of ranks. Its
# `train RECIPE` appends a line to `log`, sets $start to the number of starts so far, and runs BODY. BODY may call `save
# STEP` and `wait_for_signal STEP CODE`. `wait_for_signal` waits for SIGUSR1, then saves and exits with CODE.
# `wait_for_signal` exits with 99 if the signal does not arrive within 30 s.
write_program() {
  cat >program.sh <<S
#!/usr/bin/env bash
[[ \$* =~ ^validate.*\ --world\ ([0-9]+) ]] && { printf 'ranks %s\nrun_dir run\nsteps 100\n' "\${BASH_REMATCH[1]}"; exit; }
save() { mkdir -p run/checkpoints; printf 'step-%08d\n' "\$1" >run/checkpoints/latest; }
wait_for_signal() { trap "save \$1; exit \$2" USR1; for ((i = 0; i < 300; i++)); do sleep 0.1; done; exit 99; }
echo "\$RANKS \${HOSTS:+\$HOSTS }\${*:3}" >>log
start=\$(wc -l <log)
$1
S
  chmod +x program.sh
}
fake_run=(env RANKS='{ranks}' ./program.sh train tiny.yaml)

test_start_is_repeated_while_ranks_of_an_earlier_one_hold_the_run_directory() {
  write_program 'case $start in
    1) save 2; echo 1 >run/generation; echo owner >run/lock; exit 137 ;;
    2) exit 2 ;;
    *) rm run/lock; exit 0 ;;
  esac'
  expect 0 "$elastic" --every 1 1 2 "${fake_run[@]}"
  expect_text err "exit code 2 of start 2: processes of an earlier start still hold run/lock" "start 3"
  rm -r log run
  write_program 'case $start in
    1) save 2; echo 1 >run/generation; echo owner >run/lock; exit 137 ;;
    *) exit 2 ;;
  esac'
  expect 2 "$elastic" --every 1 --tries 2 1 2 "${fake_run[@]}"
  expect_text err "starts in a row without a new checkpoint: 2"
  rm log
  expect 2 "$elastic" 1 2 bash -c 'exit 2' - '{ranks}' ./program.sh train tiny.yaml  # no earlier start can hold the lock
  expect_text err "exit code 2 of start 1, which a new start would not fix"
  write_program 'case $start in
    1) save 2; echo 3 >run/generation; exit 137 ;;
    *) echo 4 >run/generation; exit 2 ;;
  esac'
  expect 2 "$elastic" --every 1 1 2 "${fake_run[@]}"  # start 2 fails after it has taken the lock
  expect_text err "exit code 2 of start 2, which a new start would not fix"
}

test_restarts_continue_from_the_newest_checkpoint_of_the_script() {
  write_program 'case $start in
    1) exit 7 ;;
    2) save 2; exit 7 ;;
    *) exit 0 ;;
  esac'
  expect 0 "$elastic" --every 1 1 2 "${fake_run[@]}" checkpoint.resume=none
  expect_equal "$(cat log)" "2 checkpoint.resume=none
2 checkpoint.resume=none
2 checkpoint.resume=none checkpoint.resume=auto"
}

test_ranks_on_which_a_start_fails_are_left_out_for_a_time() {
  write_program 'case $start in
    1) echo 4 >left; wait_for_signal 2 75 ;;
    2) exit 4 ;;
    *) exit 0 ;;
  esac'
  echo 2 >left
  expect 0 "$elastic" --available 'cat left' --every 1 1 4 "${fake_run[@]}"
  expect_text err "exit code 4 of start 2, before it saved a checkpoint; leaving out more than 2 ranks for 2 s"
  expect_equal "$(cut -d' ' -f1 log | xargs)" "2 4 2"
}

test_hosts_on_which_a_start_fails_are_left_out_for_a_time() {
  printf '%s\n' a:1 b:2 c:1 >hosts
  printf '#!/usr/bin/env bash\ngrep -qx "$1" up\n' >reach.sh
  chmod +x reach.sh
  printf '%s\n' a c >up
  write_program 'case $start in
    1) echo b >>up; wait_for_signal 2 75 ;;
    2) exit 4 ;;
    3) wait_for_signal 4 75 ;;
    *) exit 0 ;;
  esac'
  expect 0 "$elastic" --hostfile hosts --reach ./reach.sh --every 1 1 4 env HOSTS='{hosts}' "${fake_run[@]}"
  expect_equal "$(cut -d' ' -f1-2 log)" "2 a:1,c:1
4 a:1,b:2,c:1
2 a:1,c:1
4 a:1,b:2,c:1"
  expect_text err "exit code 4 of start 2, before it saved a checkpoint; leaving out b for 2 s" "going on from step-00000002"
}

# MPICH's launcher returns 0 after a run that has saved because of a signal.
test_exit_code_0_of_a_run_that_was_asked_to_save_is_not_its_end() {
  write_program '[ $start -gt 1 ] || { echo 4 >left; wait_for_signal 2 0; }'
  echo 2 >left
  expect 0 "$elastic" --available 'cat left' --every 1 1 4 "${fake_run[@]}"
  expect_equal "$(cut -d' ' -f1 log | xargs)" "2 4"
  rm log
  write_program 'echo 4 >left; wait_for_signal 100 0'  # step 100 is the last step
  echo 2 >left
  expect 0 "$elastic" --available 'cat left' --every 1 1 4 "${fake_run[@]}"
  expect_equal "$(cut -d' ' -f1 log | xargs)" "2"
}

# `fake_slurm NODE_STATE...`: writes fake versions of squeue, sinfo and scontrol for a job whose nodes n1, n2, ... have
# these states.
fake_slurm() {
  local i=0 state
  mkdir -p slurm
  rm -f slurm/nodes
  for state in "$@"; do echo "n$((++i)) $state" >>slurm/nodes; done
  printf '#!/bin/sh\necho nodes\n' >slurm/squeue
  printf '#!/bin/sh\ncat %q\n' "$PWD/slurm/nodes" >slurm/sinfo
  printf '#!/bin/sh\ncut -d" " -f1 %q\n' "$PWD/slurm/nodes" >slurm/scontrol
  chmod +x slurm/*
  export PATH=$PWD/slurm:$PATH SLURM_JOB_ID=1 SLURM_JOB_NODELIST=nodes
}

test_ranks_of_a_slurm_job_are_those_of_its_list() {
  fake_slurm mixed allocated mixed
  local case
  for case in '8(x3) 24' '2,1,4 7' '3(x2),1 7'; do
    export SLURM_TASKS_PER_NODE=${case% *}
    expect 0 "$elastic" 1 64 bash -c "$(fake 0)" - '{ranks}' '{nodes}' '{hosts}' "$HEXAD" train tiny.yaml \
      batch.global=$((2 * ${case#* }))
    expect_text log "${case#* } 3 n1,n2,n3 $HEXAD train tiny.yaml"
  done
}

test_slurm_job_with_too_few_ranks_ends_so_that_it_can_be_requeued() {
  fake_slurm mixed 'down*'
  export SLURM_TASKS_PER_NODE='2(x2)'
  expect 75 "$elastic" --every 1 3 4 bash -c "$(fake 0)" - '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err "2 ranks are left; waiting for at least 3 (MIN)" "Slurm does not return lost nodes to a job"
  expect_nothing_at log
  # A job that was requeued before is requeued again, even if it has saved nothing since.
  SLURM_RESTART_COUNT=1 expect 75 "$elastic" --every 1 3 4 bash -c "$(fake 0)" - '{ranks}' "$HEXAD" train tiny.yaml
}

test_requeued_job_that_saves_nothing_again_ends() {
  write_program 'exit 75'
  expect 75 "$elastic" --tries 1 1 2 "${fake_run[@]}"
  SLURM_RESTART_COUNT=1 expect 1 "$elastic" --tries 1 1 2 "${fake_run[@]}"
  expect_text err "nothing was saved since Slurm requeued the job; starts without a new checkpoint: 1"
  write_program 'wait_for_signal 2 75'
  SLURM_RESTART_COUNT=1 "$elastic" 1 2 "${fake_run[@]}" >out 2>err &
  local script=$!
  wait_until has_lines log 3
  sleep 0.3
  kill -USR1 "$script"
  code=0
  wait "$script" || code=$?
  expect_equal "$code" 75
}

test_signal_is_answered_while_hosts_are_probed() {
  printf '%s\n' a b c >hosts
  printf '#!/usr/bin/env bash\necho >>probes\nsleep 14\n' >reach.sh
  chmod +x reach.sh
  "$elastic" --hostfile hosts --reach ./reach.sh 1 3 bash -c "$(fake 0)" - '{ranks}' "$HEXAD" train tiny.yaml >out 2>err &
  local script=$! began=$SECONDS
  wait_until has_lines probes 3  # the script probes all hosts at once
  kill -USR1 "$script"
  code=0
  wait "$script" || code=$?
  expect_equal "$code" 75
  [ $((SECONDS - began)) -lt 10 ] || failed "the script ended after $((SECONDS - began)) s, expected less than 10 s"
  expect_nothing_at log
}

test_lines_of_the_hostfile_are_checked() {
  printf '%s\n' 'a slots = 2 # rack 1' 'b:x' 'c slots=' 'd 4' 'e max_slots=4' 'f:2:3' >hosts
  expect 2 "$elastic" --hostfile hosts --reach echo 1 4 bash -c "$(fake 0)" - '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err 'hosts:2: "b:x", expected NAME, NAME:SLOTS or NAME slots=SLOTS' 'hosts:3:' 'hosts:4:' 'hosts:6:'
  expect_no_text err 'hosts:1:'
  expect_no_text err 'hosts:5:'
  expect_nothing_at log
  printf '%s\n' 'a slots = 2' >hosts
  expect 0 "$elastic" --hostfile hosts --reach echo 1 4 bash -c "$(fake 0)" - '{ranks}' '{hosts}' "$HEXAD" train tiny.yaml
  expect_text log "2 a:2 $HEXAD train tiny.yaml"
}

test_job_may_be_called_train() {
  expect 0 "$elastic" 1 2 bash -c "$(fake 0)" --job-name train '{ranks}' "$HEXAD" train tiny.yaml train.seed=1
  expect_text log "train 2 $HEXAD train tiny.yaml train.seed=1"
}

test_signal_saves_the_run_and_ends_the_script() {
  local script
  "$elastic" 1 2 "${launch[@]}" -np '{ranks}' "$HEXAD" train tiny.yaml train.steps=1000000 checkpoint.every=0 >out 2>err &
  script=$!
  wait_until has_steps run 3
  kill -TERM "$script"
  code=0
  wait "$script" || code=$?
  expect_equal "$code" 75
  expect_text err "asked to end: exit code 75" "saved: start the run again to continue"
  expect 0 "$HEXAD" inspect run --verify
}

test_nearest_layout_is_printed_for_scripts() {
  expect 0 "$HEXAD" validate tiny.yaml parallel.ep=4 --world 4 --nearest
  expect_equal "$(cat out)" $'ranks 4\nrun_dir run\nsteps 6'
  expect 0 "$HEXAD" validate tiny.yaml parallel.ep=4 --world 3 --nearest
  expect_equal "$(cat out)" $'ranks 2\nrun_dir run\nsteps 6\nparallel.ep=2'
  local six=(model.heads=8 parallel.tp=4 batch.global=6 --world 6 --nearest)
  expect 0 "$HEXAD" validate tiny.yaml "${six[@]}"
  expect_equal "$(cat out)" $'ranks 4\nrun_dir run\nsteps 6'
  expect 0 "$HEXAD" validate tiny.yaml "${six[@]}" --at-least 5
  expect_equal "$(cat out)" $'ranks 6\nrun_dir run\nsteps 6\nparallel.tp=2'
  expect 2 "$HEXAD" validate tiny.yaml "${six[@]}" --at-least 7
  expect_text err "--at-least is 7, expected at most --world (6)"
  expect 2 "$HEXAD" validate tiny.yaml parallel.ep=4 --world 3 --nearest --at-least 3
  expect_text err "no layout of 3 ranks is legal"
  expect 2 "$HEXAD" validate tiny.yaml --world 2 --at-least 2
  expect 2 "$HEXAD" validate tiny.yaml --nearest
  expect 2 "$HEXAD" validate tiny.yaml --world 0 --nearest
  expect_text err "--world is 0, expected at least 1 with --nearest"
  expect 2 "$HEXAD" validate tiny.yaml --world 2 --nearest --mesh
  expect_text err "--nearest and --mesh are given"
  expect 2 "$HEXAD" validate tiny.yaml --world 2 --nearest model.heads=3
  expect_text err "model.heads"
}

test_run_directory_is_printed_for_scripts() {
  expect 0 "$HEXAD" validate tiny.yaml run.dir=runs/here --run-dir
  expect_equal "$(cat out)" runs/here
}

test_wrong_arguments_are_explained() {
  expect 2 "$elastic"
  expect_text err "tools/elastic.sh [OPTION...] MIN MAX COMMAND..."
  expect 2 "$elastic" 4 2 mpirun -np '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err "MIN is 4, expected at most MAX (2)"
  expect 2 "$elastic" few 2 mpirun -np '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err "MIN is 'few', expected a whole number from 1"
  expect 2 "$elastic" 1 2 mpirun -np 2 "$HEXAD" train tiny.yaml
  expect_text err "COMMAND contains no {ranks}"
  expect 2 "$elastic" 1 2 mpirun -np '{ranks}' "$HEXAD" eval run
  expect_text err "expected a command that ends with PROGRAM train RECIPE [key.path=value ...]"
  expect 2 "$elastic" 1 2 mpirun --host '{hosts}' -np '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err "COMMAND contains {hosts}, expected --hostfile or a Slurm job"
  expect 2 "$elastic" --available 'echo 2' 1 2 mpirun -N '{nodes}' -np '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err "COMMAND contains {nodes}, but --available prints only a number"
  expect 2 "$elastic" --every soon 1 2 mpirun -np '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err "--every is 'soon'"
  expect 2 "$elastic" --evry 2 1 2 mpirun -np '{ranks}' "$HEXAD" train tiny.yaml
  expect_text err "unknown option '--evry'"
  expect 2 "$elastic" 1 2 mpirun -np '{ranks}' "$HEXAD" train tiny.yaml model.hiden=3
  expect_text err "hiden"
}

run_tests "$@"
