# Prints the tables of tools/bench/papers/mesh_step.sh from the rows of train_schedules. A case is a layout on slow links
# or on free links; the links are its last part. Variables: rate and free (names of the links), bits (bits per second of
# a slow link).

{ read_step() }

function bytes(c, s,    i, sum) {
  for (i = 1; i <= class_count; i++) sum += typical(c, s, classes[i] "_bytes")
  return sum
}
function links_of(c,    parts) { return parts[split(c, parts, ",")] }
function layout_of(c) { return substr(c, 1, length(c) - length(links_of(c)) - 1) }
# Returns the seconds that a rank's thread waits for `class` on slow links, minus those on free links, as a share of the
# step.
function exposed_of(c, s, class) {
  return (typical(c, s, class "_waited") - typical(layout_of(c) "," free, s, class "_waited")) / typical(c, s, "step")
}

END {
  printf "%-9s %-12s %8s %8s %8s %9s | %7s %7s %7s %8s | %8s %8s %8s\n", "", "schedule", "step s", "free s", "exposed",
    "comm:comp", "ep MB", "pp MB", "dp MB", "peak MB", "ep waits", "pp waits", "dp waits"
  for (i = 1; i <= case_count; i++) {
    c = cases[i]; f = layout_of(c) "," free
    if (links_of(c) != rate) continue
    for (w = 1; w <= schedule_count; w++) {
      s = schedules[w]
      step = typical(c, s, "step"); alone = typical(f, s, "step")
      printf "%-9s %-12s %8.3f %8.3f %8s %9s | %7.2f %7.2f %7.2f %8.2f | %8.3f %8.3f %8.3f\n", layout_of(c), s, step, alone,
        percent(1 - alone / step), sprintf("%.2f", 8 * bytes(c, s) / bits / alone), typical(c, s, "ep_bytes") / 1e6,
        typical(c, s, "pp_bytes") / 1e6, typical(c, s, "dp_bytes") / 1e6, typical(c, s, "peak") / 1e6,
        typical(c, s, "ep_waited"), typical(c, s, "pp_waited"), typical(c, s, "dp_waited")
    }
  }
  print "free s: step on links that take almost no time; exposed: share of a step by which it is longer on slow links; comm:comp: ratio"
  print "of the time that a rank's bytes need on its link to the step on free links; waits: seconds for which a rank's thread waits for"
  print "this traffic or for its sender, mean over the ranks"

  print "\nExposed communication by class of traffic, as shares of the step. plain is the step before, pairs and s4pairs are after"
  printf "%-9s %-12s %8s %8s %8s %8s %8s\n", "", "schedule",
    "exposed", "ep", "pp", "dp", "other"
  for (i = 1; i <= case_count; i++) {
    c = cases[i]
    if (links_of(c) != rate) continue
    for (w = 1; w <= schedule_count; w++) {
      s = schedules[w]
      all = 1 - typical(layout_of(c) "," free, s, "step") / typical(c, s, "step")
      ep = exposed_of(c, s, "ep"); pp = exposed_of(c, s, "pp"); dp = exposed_of(c, s, "dp")
      printf "%-9s %-12s %8s %8s %8s %8s %8s\n", layout_of(c), s, percent(all), percent(ep), percent(pp), percent(dp),
        percent(all - ep - pp - dp)
    }
  }
  print "ep, pp, dp: share of the step by which a rank's thread waits longer for the class than on free links, mean over the ranks;"
  print "other: exposed minus these shares; negative if other ranks of the node compute faster while a rank waits"
}
