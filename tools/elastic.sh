#!/usr/bin/env bash
# Keeps a training run going while nodes are lost and return. Starts COMMAND, and starts COMMAND again with the remaining
# ranks if the launcher has lost ranks. The run then continues from its last checkpoint in the nearest legal layout, with
# the same global batch, so its losses remain the same up to rounding. The run saves and continues on more nodes when
# nodes return.
#
#   tools/elastic.sh [OPTION...] MIN MAX COMMAND...
#
#   tools/elastic.sh --hostfile hosts 8 32 mpirun --host {hosts} -np {ranks} hexad train recipe.yaml
#   tools/elastic.sh 8 32 srun --mpi=pmix --kill-on-bad-exit=1 -N {nodes} --nodelist={hosts} -n {ranks} hexad train recipe.yaml
#
# MIN and MAX: smallest and largest number of ranks. With fewer than MIN, the script waits. In COMMAND, {ranks} is
# replaced by the number of ranks, {hosts} by the hosts to use, and {nodes} by the number of these hosts. COMMAND ends
# with `PROGRAM train RECIPE [key.path=value ...]`. The script adds the keys of the layout at its end (`PROGRAM validate
# RECIPE --world RANKS --nearest` prints these keys).
#
#   --available COMMAND   command that prints the number of ranks that can be started at the moment
#   --hostfile FILE       lines NAME, NAME:SLOTS or NAME slots=SLOTS; hosts that cannot be reached are named and skipped
#   --reach COMMAND       command prefix; `COMMAND HOST true` must succeed if the host can be reached
#                         [default: ssh -o BatchMode=yes -o ConnectTimeout=5]
#   --every SECONDS       time between two checks of the number of ranks, and before a new start if the previous
#                         start wrote no new checkpoint [default: 60]
#   --tries N             number of consecutive starts without a new checkpoint before the script gives up [default: 3]
#
# Without --available and --hostfile, the ranks are those of the Slurm job's nodes that answer (SLURM_NTASKS_PER_NODE
# ranks on each). Outside Slurm, the number of ranks is always MAX. Use `sbatch --no-kill`, because otherwise Slurm ends
# the job if it loses a node. Slurm removes a lost node from the job permanently: to get the same number of nodes again,
# requeue the job.
#
# The script continues after these exit codes of COMMAND: 6, 7, 75, 137 (a rank was killed; MPICH: 9), and 1, 233 to 236
# and 255 (the launcher failed, for example after the loss of a host). It ends with any other code: 0, or an error that
# a new start would repeat. After SIGUSR1, SIGTERM or SIGINT, the run saves, and the script ends with the run's exit
# code (75).
set -uo pipefail

usage() {
  [ $# -eq 0 ] || echo "elastic.sh: $1" >&2
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
say() { echo "elastic.sh: $*" >&2; }
check_count() { [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || usage "$1 is '$2', expected a whole number from 1"; }

probe='' hostfile='' reach='ssh -o BatchMode=yes -o ConnectTimeout=5' every=60 tries=3
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

# Finds the program and the recipe with its overrides in COMMAND.
program='' recipe=() run=''
for ((i = 1; i < ${#command[@]}; i++)); do
  [ "${command[i]}" == train ] || continue
  program=${command[i - 1]} recipe=("${command[@]:i + 1}")
  break
done
[ ${#recipe[@]} -gt 0 ] || usage "COMMAND does not end with: PROGRAM train RECIPE"

# These functions print the hosts that answer, one per line: NAME SLOTS. hosts_of_file also prints hosts that do not answer:
# NAME 0 lost.
hosts_of_file() {
  local name rest slots lost
  while read -r name rest || [ -n "$name" ]; do
    [[ -n $name && $name != \#* ]] || continue
    slots=1 lost=''
    [[ $name != *:* ]] || slots=${name#*:}
    [[ " $rest" =~ [[:space:]]slots=([0-9]+) ]] && slots=${BASH_REMATCH[1]}
    # shellcheck disable=SC2086
    $reach "${name%%:*}" true </dev/null >/dev/null 2>&1 || slots=0 lost=lost
    echo "${name%%:*} $slots $lost"
  done <"$hostfile"
}
hosts_of_slurm() {
  local name state slots=${SLURM_NTASKS_PER_NODE:-1} nodes
  # Does not use SLURM_JOB_NODELIST, which keeps lost nodes. Slurm does not accept steps on a node that it has removed
  # from the job, even if the node returns.
  nodes=$(squeue --noheader --jobs "$SLURM_JOB_ID" --format %N)
  sinfo --noheader --Node --nodes "${nodes:-$SLURM_JOB_NODELIST}" --format '%N %T' | sort -u | while read -r name state; do
    # A star marks a node that does not answer.
    case $state in
    *\** | down* | fail* | drained* | unknown* | powered_down* | reboot*) ;;
    *) echo "$name $slots" ;;
    esac
  done
}

unreachable=''
# Sets $available to the number of ranks that can be started, at most MAX, and $hosts to the hosts.
look() {
  hosts=''
  if [ -n "$probe" ]; then
    available=$(bash -c "$probe")
    [[ $available =~ ^[0-9]+$ ]] || { say "'$probe' printed '$available', expected a number of ranks"; available=0; }
  elif [ -n "$hostfile" ] || [ -n "${SLURM_JOB_ID:-}" ]; then
    if [ -n "$hostfile" ]; then hosts=$(hosts_of_file); else hosts=$(hosts_of_slurm); fi
    available=$(awk '{ n += $2 } END { print n + 0 }' <<<"$hosts")
    local lost
    lost=$(awk '$3 == "lost" { printf "%s%s", separator, $1; separator = ", " }' <<<"$hosts")
    [ "$lost" = "$unreachable" ] || [ -z "$lost" ] || say "$lost: '$reach HOST true' fails; goes on without"
    unreachable=$lost
  else
    available=$max
  fi
  [ "$available" -le "$max" ] || available=$max
}

# Prints the first hosts that have enough slots for the ranks, separated by commas: NAME:SLOTS for mpirun, NAME for
# srun.
hosts_for() { # RANKS
  awk -v ranks="$1" -v slots="${hostfile:+yes}" '
    n < ranks && $2 > 0 { n += $2; list = list (list == "" ? "" : ",") $1 (slots ? ":" $2 : "") }
    END { print list }' <<<"$hosts"
}

# Sets $ranks and $changes to the number of ranks and the keys of the nearest layout of at most RANKS ranks, and $run to
# the run directory. Sets $ranks to 0 if RANKS is below MIN, or if PROGRAM finds no layout. Returns PROGRAM's exit code
# in the second case.
choose() { # RANKS
  local text
  ranks=0 changes=()
  [ "$1" -ge "$min" ] || return 0
  text=$("$program" validate "${recipe[@]}" --world "$1" --nearest) || return
  ranks=$(sed -n 's/^ranks //p' <<<"$text")
  run=$(sed -n 's/^run_dir //p' <<<"$text")
  mapfile -t changes < <(sed '1,2d' <<<"$text")
}

newest_checkpoint() { cat "$run/checkpoints/latest" 2>/dev/null; }

asked=no child=''
ask_to_save() { [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null; }
trap 'asked=yes; ask_to_save' USR1 TERM INT
# Sleeps, but returns early on a signal.
rest() {
  sleep "$1" >/dev/null 2>&1 & # does not keep the script's output open, because sleep may outlive the script
  wait $!
}

# Waits until at least MIN ranks have a layout. Ends the script if it is asked to end.
wait_for_ranks() {
  local told='' layout refusal
  for (( ; ; )); do
    layout=''
    [ $asked == no ] || exit 75
    look
    # If these ranks have no layout, another number of ranks may have one. If $run is not set yet, the recipe itself is
    # wrong.
    choose "$available" || { refusal=$?; [ -n "$run" ] || exit $refusal; }
    [ "$ranks" -lt "$min" ] || return 0
    if [ "$told" != "$available" ]; then
      [ "$ranks" -eq 0 ] || layout=", with a layout of $ranks"
      say "$available ranks are left$layout; waiting for at least $min (MIN)"
    fi
    told=$available
    rest "$every"
  done
}

launch() {
  local word words=() hosts_of_ranks nodes
  hosts_of_ranks=$(hosts_for "$ranks")
  nodes=$(tr , '\n' <<<"$hosts_of_ranks" | sed 's/:.*//' | sort -u | wc -l)
  for word in "${command[@]}"; do
    word=${word//\{ranks\}/$ranks}
    word=${word//\{nodes\}/$nodes}
    words+=("${word//\{hosts\}/$hosts_of_ranks}")
  done
  say "start $start: $ranks of $max ranks${changes[*]:+, ${changes[*]}}"
  # Starts the launcher in its own session, so that Ctrl-C reaches only this script. Otherwise, mpirun would kill the
  # ranks a second later.
  setsid "${words[@]}" "${changes[@]}" </dev/null &
  child=$!
  [ $asked == no ] || ask_to_save # the signal may have arrived before $child was set
}

# Waits for the run, and sets $code. Asks the run once to save if a layout with more ranks has become possible.
watch() {
  local next=$((SECONDS + every)) now=$ranks grows=no
  while kill -0 "$child" 2>/dev/null; do
    if [ "$now" -lt "$max" ] && [ $grows == no ] && [ $asked == no ] && [ $SECONDS -ge $next ]; then
      next=$((SECONDS + every))
      look
      if [ "$available" -gt "$now" ] && choose "$available" && [ "$ranks" -gt "$now" ]; then
        say "$available ranks are available: the run saves, to continue on $ranks"
        grows=yes
        ask_to_save
      fi
    fi
    rest 0.5
  done
  wait "$child"
  code=$?
  child=''
  # Exit code 138: SIGUSR1 arrived before the launcher had a handler for it, so there is nothing to save.
  if [ $code -eq 138 ] && { [ $asked == yes ] || [ $grows == yes ]; }; then code=75; fi
}

start=0 failures=0
wait_for_ranks
for (( ; ; )); do
  start=$((start + 1))
  before=$(newest_checkpoint)
  launch
  watch
  [ $asked == no ] || { say "asked to end: exit code $code"; exit $code; }
  case $code in
  1 | 6 | 7 | 9 | 75 | 137 | 23[3-6] | 255) ;;
  *)
    [ $code -eq 0 ] || say "exit code $code of start $start, which a new start would not fix"
    exit $code
    ;;
  esac
  failures=$((failures + 1))
  [ "$(newest_checkpoint)" == "$before" ] || failures=0
  if [ $failures -ge "$tries" ]; then
    say "exit code $code; $failures starts in a row without a new checkpoint (--tries)"
    exit $code
  fi
  [ $failures -eq 0 ] || rest "$every" # gives the launcher time to notice a lost node
  wait_for_ranks
  say "exit code $code of start $start; $available ranks are left: going on from $(newest_checkpoint || echo the beginning)"
done
