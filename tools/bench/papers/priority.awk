# Prints the tables of tools/bench/papers/priority.sh from rows of comm_priority: round, conflict, order, seconds of the
# operation, seconds until all operations are done. Medians are over rounds. Ratios compare values of the same round.

BEGIN { FS = "\t" }

$1 != "run" {
  if (!($2 in seen)) { seen[$2] = 1; conflicts[++count] = $2 }
  if ($1 > rounds) rounds = $1
  own[$2, $3, $1] = $4
  all[$2, $3, $1] = $5
}

function typical(c, order,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = own[c, order, r]
  return median(list, rounds)
}
function slowdown(c, order,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = own[c, order, r] / own[c, "alone", r]
  return median(list, rounds)
}
# Returns the time until all operations are done with priorities, divided by this time in order of arrival (fifo).
function whole(c,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = all[c, "priority", r] / all[c, "fifo", r]
  return median(list, rounds)
}

END {
  printf "%-26s %9s %9s %9s %9s %9s %9s\n", "", "alone s", "priority", "fifo", "priority", "fifo", "all done"
  for (i = 1; i <= count; i++) {
    c = conflicts[i]
    printf "%-26s %9.4f %9.4f %9.4f %8.2fx %8.2fx %8.2fx\n", c, typical(c, "alone"), typical(c, "priority"), typical(c, "fifo"),
      slowdown(c, "priority"), slowdown(c, "fifo"), whole(c)
  }
  print "priority, fifo: also as multiples of the time alone; all done: ratio of priority to fifo for the time until all operations are done"
}
