# Prints the table of tools/bench/papers/mesh_step.sh from the rows of train_schedules. A case is a layout on slow links
# or on free links. Variables: rate and free (names of the links), bits (bits per second of a slow link).

{ read_step() }

function bytes(c, s,    i, sum) {
  for (i = 1; i <= class_count; i++) sum += typical(c, s, classes[i] "_bytes")
  return sum
}

END {
  printf "%-5s %-8s %8s %8s %8s %9s | %7s %7s %7s %8s | %8s %8s %8s\n", "", "schedule", "step s", "free s", "exposed",
    "comm:comp", "ep MB", "pp MB", "dp MB", "peak MB", "ep waits", "pp waits", "dp waits"
  for (i = 1; i <= case_count; i++) {
    split(cases[i], name, ",")
    if (name[2] != rate) continue
    c = cases[i]; f = name[1] "," free
    for (w = 1; w <= schedule_count; w++) {
      s = schedules[w]
      step = typical(c, s, "step"); alone = typical(f, s, "step")
      printf "%-5s %-8s %8.3f %8.3f %8s %9s | %7.2f %7.2f %7.2f %8.2f | %8.3f %8.3f %8.3f\n", name[1], s, step, alone,
        percent(1 - alone / step), sprintf("%.2f", 8 * bytes(c, s) / bits / alone), typical(c, s, "ep_bytes") / 1e6,
        typical(c, s, "pp_bytes") / 1e6, typical(c, s, "dp_bytes") / 1e6, typical(c, s, "peak") / 1e6,
        typical(c, s, "ep_waited"), typical(c, s, "pp_waited"), typical(c, s, "dp_waited")
    }
  }
  print "free s: step on links that take almost no time; exposed: share of a step by which it is longer on slow links; comm:comp: ratio"
  print "of the time that a rank's bytes need on its link to the step on free links; waits: seconds for which a rank's thread waits for"
  print "this traffic or for its sender, mean over the ranks"
}
