# Prints the tables of tools/bench/papers/mesh_step.sh from the rows of train_schedules. A case is a layout on slow
# links or on free links; the links are its last part. A schedule that was not measured on both links has "-" in place
# of values. Variables: rate and free (names of the links), bits (bits per second of a slow link).

{ read_step() }
$2 != "chosen" { measured[$1, $3] = 1 }

function bytes(c, s,    i, sum) {
  for (i = 1; i <= class_count; i++) sum += typical(c, s, classes[i] "_bytes")
  return sum
}
function links_of(c,    parts) { return parts[split(c, parts, ",")] }
function layout_of(c) { return substr(c, 1, length(c) - length(links_of(c)) - 1) }
function free_of(c) { return layout_of(c) "," free }
# Returns true if the schedule was measured in the case and on free links.
function is_compared(c, s) { return (c, s) in measured && (free_of(c), s) in measured }
# Returns a share of the step: the seconds that a rank's thread waits for `class` in the case, minus those on free
# links.
function exposed_of(c, s, class) {
  return (typical(c, s, class "_waited") - typical(free_of(c), s, class "_waited")) / typical(c, s, "step")
}
function fixed(x, digits) { return sprintf("%." digits "f", x) }

function print_step(c, s,    step, alone) {
  if (!is_compared(c, s)) {
    printf steps, layout_of(c), s, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"
    return
  }
  step = typical(c, s, "step"); alone = typical(free_of(c), s, "step")
  printf steps, layout_of(c), s, fixed(step, 3), fixed(alone, 3), percent(1 - alone / step),
    fixed(8 * bytes(c, s) / bits / alone, 2), fixed(typical(c, s, "ep_bytes") / 1e6, 2),
    fixed(typical(c, s, "pp_bytes") / 1e6, 2), fixed(typical(c, s, "dp_bytes") / 1e6, 2),
    fixed(typical(c, s, "peak") / 1e6, 2), fixed(typical(c, s, "ep_waited"), 3), fixed(typical(c, s, "pp_waited"), 3),
    fixed(typical(c, s, "dp_waited"), 3)
}

function print_exposed(c, s,    all, ep, pp, dp) {
  if (!is_compared(c, s)) {
    printf shares, layout_of(c), s, "-", "-", "-", "-", "-"
    return
  }
  all = 1 - typical(free_of(c), s, "step") / typical(c, s, "step")
  ep = exposed_of(c, s, "ep"); pp = exposed_of(c, s, "pp"); dp = exposed_of(c, s, "dp")
  printf shares, layout_of(c), s, percent(all), percent(ep), percent(pp), percent(dp), percent(all - ep - pp - dp)
}

END {
  steps = "%-9s %-12s %8s %8s %8s %9s | %7s %7s %7s %8s | %8s %8s %8s\n"
  printf steps, "", "schedule", "step s", "free s", "exposed", "comm:comp", "ep MB", "pp MB", "dp MB", "peak MB",
    "ep waits", "pp waits", "dp waits"
  for (i = 1; i <= case_count; i++)
    if (links_of(cases[i]) == rate)
      for (w = 1; w <= schedule_count; w++) print_step(cases[i], schedules[w])
  print "free s: step on links that take almost no time; exposed: share of a step by which it is longer on slow links; comm:comp: ratio"
  print "of the time that a rank's bytes need on its link to the step on free links; waits: seconds for which a rank's thread waits for"
  print "this traffic or for its sender, mean over the ranks"

  print "\nExposed communication by class of traffic, as shares of the step. plain is the step before, pairs and s4pairs are after"
  shares = "%-9s %-12s %8s %8s %8s %8s %8s\n"
  printf shares, "", "schedule", "exposed", "ep", "pp", "dp", "other"
  for (i = 1; i <= case_count; i++)
    if (links_of(cases[i]) == rate)
      for (w = 1; w <= schedule_count; w++) print_exposed(cases[i], schedules[w])
  print "ep, pp, dp: share of the step by which a rank's thread waits longer for the class than on free links, mean over the ranks;"
  print "other: exposed minus these shares; negative if other ranks of the node compute faster while a rank waits"
}
