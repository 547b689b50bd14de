# Finds the hosts that answer, and counts the ranks that can be started. elastic.sh sources this file.

# Prints a line NAME SLOTS for each host of the hostfile. Prints an error message for each unreadable line, and then
# returns 2.
read_hostfile() {
  awk -v file="$hostfile" '
    { line = $0; sub(/[#\r].*/, ""); gsub(/[[:space:]]*=[[:space:]]*/, "=") }
    NF == 0 { next }
    {
      parts = split($1, part, ":")
      slots = parts > 1 ? part[2] : 1
      wrong = parts > 2 || part[1] == "" || part[1] ~ /=/
      for (i = 2; i <= NF; i++) {
        if ($i !~ /^[^=]+=[^=]+$/) wrong = 1
        if ($i ~ /^slots=/) slots = substr($i, 7)
      }
      if (!wrong && slots ~ /^[0-9]+$/) { print part[1], slots; next }
      printf "elastic.sh: %s:%d: \"%s\", expected NAME, NAME:SLOTS or NAME slots=SLOTS\n", file, NR, line >"/dev/stderr"
      failed = 2
    }
    END { exit failed }' <"$hostfile"
}

# Prints a line for each host of the hostfile: NAME SLOTS, or NAME 0 lost if the host does not answer. Probes up to 64
# hosts at once, each for up to 15 s.
hosts_of_file() {
  local lines answering
  lines=$(read_hostfile) || return
  # `if` ends with 0 if the command fails. Without `if`, xargs would stop after exit code 255, with which ssh fails.
  # shellcheck disable=SC2086,SC2016
  answering=$(cut -d ' ' -f 1 <<<"$lines" | sort -u |
    xargs -r -P 64 -I '{}' sh -c 'if timeout 15 "$@" true </dev/null >/dev/null 2>&1; then echo "$0"; fi' '{}' $reach '{}')
  awk 'NR == FNR { answers[$1]; next } $1 in answers { print; next } { print $1, 0, "lost" }' \
    <(echo "$answering") - <<<"$lines"
}

# Prints a line NAME SLOTS for each node with which the Slurm job has started. Slurm's list of slots is like 8(x2),4.
slots_of_slurm() {
  local list=${SLURM_TASKS_PER_NODE:-${SLURM_NTASKS_PER_NODE:-1}(x${SLURM_JOB_NUM_NODES:-1})}
  paste -d ' ' <(scontrol show hostnames "$SLURM_JOB_NODELIST") \
    <(tr , '\n' <<<"$list" | awk -F '[(x)]+' '{ for (i = 0; i < ($2 == "" ? 1 : $2); i++) print $1 }')
}
# Prints the nodes of the Slurm job that answer, one per line: NAME SLOTS.
hosts_of_slurm() {
  local nodes
  # Does not use SLURM_JOB_NODELIST, which keeps lost nodes. Slurm does not accept steps on a node that it has removed
  # from the job, even if the node returns.
  nodes=$(squeue --noheader --jobs "$SLURM_JOB_ID" --format %N)
  # A star marks a node that does not answer.
  sinfo --noheader --Node --nodes "${nodes:-$SLURM_JOB_NODELIST}" --format '%N %T' | sort -u |
    awk 'NR == FNR { slots[$1] = $2; next }
      $2 !~ /[*]|^(down|fail|drained|unknown|powered_down|reboot)/ { print $1, slots[$1] }' <(slots_of_slurm) -
}

unreachable=''
# Names all lost hosts if they differ from those of the previous call.
tell_lost_hosts() {
  local lost
  lost=$(awk '$3 == "lost" { printf "%s%s", separator, $1; separator = ", " }' <<<"$hosts")
  [ "$lost" = "$unreachable" ] || [ -z "$lost" ] || say "$lost: '$reach HOST true' fails; continuing on the other hosts"
  unreachable=$lost
}

# Sets $available to the number of ranks that can be started, at most MAX, and $hosts to the hosts. Both are incomplete
# if the script is asked to end.
look() {
  hosts=''
  if [ -n "$probe" ]; then
    attend bash -c "$probe" >"$scratch/ranks"
    [ $asked == no ] || return
    available=$(<"$scratch/ranks")
    [[ $available =~ ^[0-9]+$ ]] || {
      say "--available '$probe' printed '$available', expected a whole number of ranks"
      available=0
    }
  elif [ -n "$hostfile" ] || [ -n "${SLURM_JOB_ID:-}" ]; then
    if [ -n "$hostfile" ]; then attend hosts_of_file; else attend hosts_of_slurm; fi >"$scratch/hosts"
    [ $asked == no ] || return
    hosts=$(<"$scratch/hosts") available=0
    tell_lost_hosts
  else
    available=$max
  fi
  leave_out
  [ -z "$hosts" ] || available=$(slots_of "$hosts")
  [ "$available" -le "$max" ] || available=$max
}
slots_of() { awk '{ n += $2 } END { print n + 0 }' <<<"$1"; } # argument: HOSTS

# Prints the first hosts that have enough slots for the ranks, separated by commas: NAME:SLOTS for mpirun, NAME for
# srun.
hosts_for() { # argument: RANKS
  awk -v ranks="$1" -v slots="${hostfile:+yes}" '
    n < ranks && $2 > 0 { n += $2; list = list (list == "" ? "" : ",") $1 (slots ? ":" $2 : "") }
    END { print list }' <<<"$hosts"
}
