# Leaves out hosts that answer but on which the run cannot start. elastic.sh sources this file. If a start fails on more
# hosts than have worked before (with --available: on more ranks), the added hosts are left out for a time. This time
# doubles with each such failure.

# Number of ranks and list of hosts of the latest start that wrote a checkpoint. Hosts that were lost later are removed
# from the list.
good_ranks=0 good_hosts=''
# $left_out has the left-out hosts. If hosts are not known, $most_ranks is the allowed number of ranks. Hosts or ranks
# are left out for $left_out_for seconds, until $SECONDS reaches $out_until.
left_out='' most_ranks='' left_out_for=0
out_until=0

lines_without() { grep -vxFf <(echo "$2") <<<"$1"; } # arguments: LINES OTHERS
lines_with() { grep -xFf <(echo "$2") <<<"$1"; }     # arguments: LINES OTHERS

# Records that the last start, on $used_ranks ranks of $used_hosts, wrote a checkpoint. If this start used more ranks or
# other hosts than the recorded start, resets the time for which hosts are left out.
remember_start() {
  [ "$used_ranks" -le "$good_ranks" ] && [ -z "$(lines_without "$used_hosts" "$good_hosts")" ] || left_out_for=0
  good_ranks=$used_ranks good_hosts=$used_hosts
}

# Sets the slots of left-out hosts in $hosts to 0, or limits $available if hosts are not known. Called by look().
leave_out() {
  [ $SECONDS -lt $out_until ] || left_out='' most_ranks=''
  if [ -n "$hosts" ]; then
    good_hosts=$(lines_with "$good_hosts" "$(awk '$3 != "lost" { print $1 }' <<<"$hosts")")
    hosts=$(awk 'NR == FNR { out[$1]; next } $1 in out { $2 = 0 } { print }' <(echo "$left_out") - <<<"$hosts")
  else
    [ "$available" -ge "$good_ranks" ] || good_ranks=$available
    [ -z "$most_ranks" ] || [ "$available" -le "$most_ranks" ] || available=$most_ranks
  fi
}

# Leaves out the hosts or ranks that the last start added to the hosts or ranks that have worked before. Returns 1 if
# the last start added none, or if fewer than MIN ranks would remain.
leave_out_added() {
  local added good
  if [ -n "$used_hosts" ]; then
    added=$(lines_without "$used_hosts" "$good_hosts")
    good=$(awk 'NR == FNR { good[$1]; next } $1 in good' <(echo "$good_hosts") - <<<"$hosts")
    [ -n "$added" ] && [ "$(slots_of "$good")" -ge "$min" ] || return 1
    left_out+=$'\n'$added
  else
    [ "$used_ranks" -gt "$good_ranks" ] && [ "$good_ranks" -ge "$min" ] || return 1
    most_ranks=$good_ranks added="more than $good_ranks ranks"
  fi
  left_out_for=$((left_out_for == 0 ? 2 * every : left_out_for > 32 * every ? left_out_for : 2 * left_out_for))
  out_until=$((SECONDS + left_out_for))
  say "exit code $code of start $start, before it saved a checkpoint;" \
    "leaving out ${added//$'\n'/, } for $left_out_for s"
}
