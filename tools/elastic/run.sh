# Chooses the layout of a start, launches it, and watches it. elastic.sh sources this file.

# Finds the nearest layout on MIN to RANKS ranks. Sets $ranks to the layout's number of ranks, $changes to its changed
# keys, $run to the run directory, and $steps to the number of steps of the run. If RANKS is below MIN, sets $ranks to
# 0. If PROGRAM finds no layout, sets $ranks to 0 and returns PROGRAM's exit code.
choose() { # argument: RANKS
  ranks=0 changes=()
  [ "$1" -ge "$min" ] || return 0
  attend "$program" validate "${recipe[@]}" --world "$1" --nearest --at-least "$min" >"$scratch/layout" || return
  ranks=$(sed -n 's/^ranks //p' "$scratch/layout")
  run=$(sed -n 's/^run_dir //p' "$scratch/layout")
  steps=$(sed -n 's/^steps //p' "$scratch/layout")
  mapfile -t changes < <(sed 1,3d "$scratch/layout")
}

newest_checkpoint() { cat "$run/checkpoints/latest" 2>/dev/null; }
# Prints a text that changes with each checkpoint, even if a step is saved again.
time_of_checkpoint() { stat -c '%y %i' "$run/checkpoints/latest" 2>/dev/null; }
generation() { cat "$run/generation" 2>/dev/null; }
is_finished() { [ "$(newest_checkpoint)" == "$(printf 'step-%08d' "$steps")" ]; }
was_requeued() { [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; }

# True if the last start ended because ranks of an earlier start still held the run directory. These ranks may need a
# moment to end, or may be cut off from the network. A start that gets the lock changes the generation, and removes the
# lock at its end.
is_in_use() {
  [ $code -eq 2 ] && { [ $start -gt 1 ] || was_requeued; } && [ -e "$run/lock" ] &&
    [ "$(generation)" == "$generation_before" ]
}

# True if the last start ended because the launcher cannot start the ranks, such as mpirun with too few slots. The
# script assumes this if the exit code is 1, no start has begun a run, and the available hosts and ranks are known and
# have not changed. Always false in a Slurm job: there, a lost node can be the reason, which Slurm marks only minutes
# later.
cannot_launch() {
  [ $code -eq 1 ] && [ -z "${SLURM_JOB_ID:-}" ] && [ "$(generation)" == "$generation_first" ] || return 1
  local hosts_before=$hosts available_before=$available
  look
  [ $asked == no ] && [ "$hosts" == "$hosts_before" ] && [ "$available" == "$available_before" ]
}

# Starts the launcher. Sets $child, $used_ranks and $used_hosts.
launch() {
  local word words=() hosts_of_ranks nodes
  hosts_of_ranks=$(hosts_for "$ranks")
  used_ranks=$ranks used_hosts=$(tr , '\n' <<<"$hosts_of_ranks" | sed 's/:.*//' | sort -u)
  nodes=$(wc -l <<<"$used_hosts")
  for word in "${command[@]}"; do
    word=${word//\{ranks\}/$ranks}
    word=${word//\{nodes\}/$nodes}
    words+=("${word//\{hosts\}/$hosts_of_ranks}")
  done
  say "start $start: $ranks of $max ranks${changes[*]:+, ${changes[*]}}"
  # Continues from the newest checkpoint if a run of this script has saved, even if checkpoint.resume is not auto.
  [ "$saved_before" == "$saved_first" ] || changes+=(checkpoint.resume=auto)
  # Starts the launcher in its own session, so that Ctrl-C reaches only this script. In the script's session, mpirun
  # would kill the ranks one second after Ctrl-C.
  setsid "${words[@]}" "${changes[@]}" </dev/null &
  child=$!
  [ $asked == no ] || ask_to_save # the signal may have arrived before $child was set
}

# Waits for the run, and sets $code. Asks the run to save if a layout with more ranks has become possible, or if the
# script is asked to end. Repeats this request every 5 seconds until the run has ended.
watch() {
  local next=$((SECONDS + every)) grows=no
  while kill -0 "$child" 2>/dev/null; do
    if [ $grows == yes ] || [ $asked == yes ]; then
      # Launchers drop a signal that arrives before their ranks have started.
      [ $((SECONDS - sent)) -lt 5 ] || ask_to_save
    elif [ "$used_ranks" -lt "$max" ] && [ $SECONDS -ge $next ]; then
      next=$((SECONDS + every))
      look
      if [ $asked == no ] && [ "$available" -gt "$used_ranks" ] && choose "$available" &&
        [ "$ranks" -gt "$used_ranks" ] && [ $asked == no ]; then
        say "$available ranks are available: the run saves a checkpoint, then continues on $ranks"
        grows=yes
        ask_to_save
      fi
    fi
    rest 0.5
  done
  wait "$child"
  code=$?
  child=''
  [ $asked == yes ] || [ $grows == yes ] || return 0
  # Exit code 138: SIGUSR1 arrived before the launcher had a handler for it, so there is nothing to save. Exit code 0:
  # after a signal, MPICH's launcher loses the exit codes of ranks.
  if [ $code -eq 138 ] || { [ $code -eq 0 ] && ! is_finished; }; then code=75; fi
}
