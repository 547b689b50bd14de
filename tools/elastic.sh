#!/usr/bin/env bash
# Keeps a training run going while nodes are lost and return. Starts COMMAND, and starts COMMAND again with the
# remaining ranks if the launcher has lost ranks. The run then continues from its last checkpoint in the nearest legal
# layout. The global batch stays the same, so the losses remain the same up to rounding. The run saves and continues on
# more nodes when nodes return.
#
#   tools/elastic.sh [OPTION...] MIN MAX COMMAND...
#
#   tools/elastic.sh --hostfile hosts 8 32 mpirun --host {hosts} -np {ranks} hexad train recipe.yaml
#   tools/elastic.sh 8 32 srun --mpi=pmix --kill-on-bad-exit=1 -N {nodes} --nodelist={hosts} -n {ranks} hexad train recipe.yaml
#
# MIN and MAX: smallest and largest number of ranks. With fewer than MIN ranks, the script waits. In COMMAND, {ranks} is
# replaced by the number of ranks, {hosts} by the hosts to use, and {nodes} by the number of these hosts. COMMAND ends
# with `PROGRAM train RECIPE [key.path=value ...]`. The script appends the layout's keys to COMMAND (`PROGRAM validate
# RECIPE --world RANKS --nearest --at-least MIN` prints them). It also appends checkpoint.resume=auto once the run has
# saved.
#
#   --available COMMAND   command that prints the number of ranks that can be started at the moment
#   --hostfile FILE       lines NAME, NAME:SLOTS or NAME slots=SLOTS; hosts that cannot be reached are named and skipped
#   --reach COMMAND       command prefix; `COMMAND HOST true` must succeed within 15 s if the host can be reached
#                         [default: ssh -o BatchMode=yes -o ConnectTimeout=5]
#   --every SECONDS       time between two checks of the number of ranks, and before a new start if the previous start
#                         wrote no new checkpoint. The time before a new start doubles with each such start in a row,
#                         up to 5 minutes [default: 60]
#   --tries N             number of consecutive starts without a new checkpoint before the script gives up [default: 4:
#                         the waits between 4 starts are together longer than the default distributed.watchdog_seconds]
#
# Without --available and --hostfile, the ranks are those of the Slurm job's nodes that answer (SLURM_TASKS_PER_NODE).
# Outside Slurm, the number of ranks is always MAX. Use `sbatch --no-kill`, because otherwise Slurm ends the job if it
# loses a node. Slurm removes a lost node from the job permanently. With fewer than MIN ranks, the script therefore ends
# with exit code 75 after three checks: if the job is requeued, it gets as many nodes as before.
#
# The script continues after these exit codes of COMMAND:
# - 6, 7 and 75: communication failed, another rank ended, or the run was asked to save and end
# - 137 (MPICH: 9): a rank was killed
# - 1, 205, 233 to 236 and 255: the launcher failed, for example after the loss of a host
# - 2 while ranks of an earlier start still hold the run directory
#
# The script ends with any other code: 0, or an error that a new start would repeat. Outside Slurm, it also ends with 1
# if no run has begun and no rank is lost, as when mpirun has too few slots. If a start on more hosts than have worked
# before fails without a new checkpoint, the script continues after any code. In this case, it leaves out the added
# hosts for twice --every, then for four times, up to 64 times. After SIGUSR1, SIGTERM or SIGINT, the run saves, and the
# script ends with the run's exit code (75). In a job that Slurm has requeued, the script ends with 1 instead of 75 if
# nothing was saved since then. The next start would not save either. After the loss of nodes, the script still ends
# with 75, because the next start has other nodes.
set -uo pipefail

# On a signal, asks the run to save, and ends the command of attend(). The trap is set first, because a signal without a
# handler would end the script without saving.
asked=no child='' sent=0 attended=''
ask_to_save() { # called again if the run may have missed the signal
  sent=$SECONDS
  [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null
}
# Uses SIGKILL, because a process that bash has just started may miss other signals.
end_attended() { [ -z "$attended" ] || kill -KILL "$attended" 2>/dev/null; }
trap 'asked=yes; ask_to_save; end_attended' USR1 TERM INT

usage() {
  [ $# -eq 0 ] || echo "elastic.sh: $1" >&2
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
say() { echo "elastic.sh: $*" >&2; }
check_count() { [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || usage "$1 is '$2', expected a whole number from 1 to 9999999"; }

probe='' hostfile='' reach='ssh -o BatchMode=yes -o ConnectTimeout=5' every=60 tries=4
while [[ ${1-} == -* ]]; do
  [ $# -ge 2 ] || usage "$1 needs a value"
  case $1 in
  --available) probe=$2 ;;
  --hostfile) hostfile=$2 ;;
  --reach) reach=$2 ;;
  --every) every=$2 ;;
  --tries) tries=$2 ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
[ $# -ge 3 ] || usage
min=$1 max=$2 command=("${@:3}")
check_count MIN "$min"
check_count MAX "$max"
check_count --every "$every"
check_count --tries "$tries"
[ "$min" -le "$max" ] || usage "MIN is $min, expected at most MAX ($max)"
[ -z "$probe" ] || [ -z "$hostfile" ] || usage "--available and --hostfile are both given, expected only one of them"
[ -z "$hostfile" ] || [ -r "$hostfile" ] || usage "--hostfile is '$hostfile', expected a readable file"
[[ ${command[*]} == *"{ranks}"* ]] || usage "COMMAND contains no {ranks}, expected it in place of the number of ranks"
for place in '{hosts}' '{nodes}'; do
  [[ ${command[*]} == *"$place"* ]] || continue
  [ -z "$probe" ] || usage "COMMAND contains $place, but --available prints only a number; expected --hostfile"
  [ -n "$hostfile" ] || [ -n "${SLURM_JOB_ID:-}" ] || usage "COMMAND contains $place, expected --hostfile or a Slurm job"
done

# Finds the program and the recipe with its overrides in COMMAND. Searches from the end, because `train` may also be the
# name of a job.
program='' recipe=()
for ((i = ${#command[@]} - 2; i > 0; i--)); do
  [ "${command[i]}" == train ] && [[ ${command[i + 1]} != *=* ]] || continue
  program=${command[i - 1]} recipe=("${command[@]:i + 1}")
  break
done
[ ${#recipe[@]} -gt 0 ] ||
  usage "COMMAND is '${command[*]}', expected a command that ends with PROGRAM train RECIPE [key.path=value ...]"

scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
# Waits for a command, but ends the command and returns early if the script is asked to end.
attend() { # arguments: COMMAND...
  local code
  "$@" </dev/null &
  attended=$!
  [ $asked == no ] || end_attended # the signal may have arrived before $attended was set
  wait "$attended" 2>/dev/null
  code=$?
  [ $asked == no ] || wait "$attended" 2>/dev/null # so that bash does not report a killed command
  attended=''
  return $code
}
# `sleep` does not inherit the output of the script. If the script is killed, `sleep` outlives it, and would keep the
# output open.
rest() { attend sleep "$1" >/dev/null 2>&1; }

parts=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/elastic
for part in hosts left_out run; do . "$parts/$part.sh" || exit 4; done

# Ends the script with exit code CODE. Ends with 1 instead of 75 if Slurm has requeued the job and nothing was saved
# since then.
end() { # argument: CODE
  if [ "$1" -eq 75 ] && was_requeued && [ "$(time_of_checkpoint)" == "$saved_first" ]; then
    local reason="is the time limit too short for a start and a step?"
    [ "$failures" -eq 0 ] || reason="starts without a new checkpoint: $failures; their messages are above."
    say "nothing was saved since Slurm requeued the job; $reason" \
      "Exit code 1 instead of 75, so that the job is not requeued again"
    exit 1
  fi
  exit "$1"
}

# Prints the number of ranks that are left, with its verb.
ranks_left() {
  if [ "$available" -eq 1 ]; then echo "1 rank is left"; else echo "$available ranks are left"; fi
}

# Waits until the ranks that are left have a layout of MIN ranks or more. Ends the script if it is asked to end. Also
# ends the script if a Slurm job has lost too many nodes, because Slurm does not return them.
wait_for_ranks() {
  local told='' looks=0 layout
  for (( ; ; )); do
    [ $asked == no ] || end 75
    look
    [ $asked == no ] || end 75
    layout=''
    # If these ranks have no layout, another number of ranks has one, because MAX has been checked.
    choose "$available" 2>"$scratch/refusal" || layout=', without a legal layout'
    [ $asked == no ] || end 75
    [ "$ranks" -eq 0 ] || return 0
    if [ "$told" != "$available" ]; then
      [ -z "$layout" ] || cat "$scratch/refusal" >&2
      say "$(ranks_left)$layout; waiting for at least $min (MIN)"
      told=$available looks=0
    fi
    looks=$((looks + 1))
    if [ $looks -eq 3 ] && [ -n "${SLURM_JOB_ID:-}" ] && [ -z "$probe$hostfile" ]; then
      say "Slurm does not return lost nodes to a job; exit code 75, so that a requeued job gets as many nodes as before"
      exit 75 # even if nothing was saved, because the next start has other nodes
    fi
    rest "$every"
  done
}

# Waits a few seconds before the next start. In this time, the launcher can notice a lost node, and the ranks of the
# previous start can end. The wait grows with the number of starts in a row that wrote no checkpoint. Does not wait if
# the previous start saved as asked (exit code 75).
rest_before_start() {
  local seconds=$((every < 5 ? every : 5)) most=$((every < 300 ? 300 : every)) i
  [ $code -ne 75 ] || [ $failures -gt 0 ] || return 0
  for ((i = 0; i < failures; i++)); do seconds=$((i == 0 ? every : 2 * seconds < most ? 2 * seconds : most)); done
  rest $seconds
}

[ -z "$hostfile" ] || read_hostfile >/dev/null || exit
choose "$max" || { refusal=$?; [ $asked == no ] || exit 75; exit $refusal; }
saved_first=$(time_of_checkpoint) generation_first=$(generation)
start=0 failures=0
wait_for_ranks
for (( ; ; )); do
  start=$((start + 1))
  saved_before=$(time_of_checkpoint) generation_before=$(generation)
  launch
  watch
  [ $asked == no ] || { say "asked to end: exit code $code"; end $code; }
  [ $code -ne 0 ] || exit 0
  if cannot_launch; then
    say "exit code 1 of start $start, before the run began, although no rank is lost; does the launcher have too few" \
      "slots for $used_ranks ranks (mpirun: --oversubscribe, or slots in a hostfile)?"
    exit 1
  fi
  repeats=yes # yes: only the exit codes listed below allow a new start; no: all exit codes do
  if is_in_use; then
    say "exit code 2 of start $start: processes of an earlier start still hold $run/lock"
    repeats=no failures=$((failures + 1))
  elif [ "$(time_of_checkpoint)" != "$saved_before" ]; then
    failures=0
    remember_start
  elif [ $code -ne 75 ] && leave_out_added; then
    repeats=no
  else
    failures=$((failures + 1))
  fi
  case $code in
  1 | 6 | 7 | 9 | 75 | 137 | 205 | 23[3-6] | 255) ;;
  *) [ $repeats == no ] || { say "exit code $code of start $start, which a new start would not fix"; exit $code; } ;;
  esac
  if [ $failures -ge "$tries" ]; then
    say "exit code $code; starts in a row without a new checkpoint: $failures (--tries $tries)"
    end $code
  fi
  rest_before_start
  wait_for_ranks
  say "exit code $code of start $start; $(ranks_left): going on from $(newest_checkpoint || echo the beginning)"
done
