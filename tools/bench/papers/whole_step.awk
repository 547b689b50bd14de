# The tables of tools/bench/papers/whole_step.sh from the rows of train_schedules; a case is a rate.

{ read_step() }

# Seconds in which anything is under way, class by class, over those in which nobody waits for it; of a schedule whose only
# thread waits.
function balance(c, s,    i, under_way, waited) {
  for (i = 1; i <= class_count; i++) {
    under_way += typical(c, s, classes[i] "_seconds")
    waited += typical(c, s, classes[i] "_waited")
  }
  return under_way / (typical(c, s, "step") - waited)
}

END {
  for (i = 1; i <= case_count; i++) {
    c = cases[i]
    printf "%s between the nodes; communication : computation = %.2f : 1 under %s\n", c, balance(c, schedules[1]), schedules[1]
    printf "%-12s %8s %9s %9s %8s %6s %6s %8s | %7s %7s | %8s %6s %8s %6s\n", "schedule", "step s", "auto x", "tokens/s", "passes s",
      "a2a", "exp.", "peak MB", "ep MB", "tp MB", "layer p.", "error", "step p.", "error"
    best = ""
    for (w = 1; w <= schedule_count; w++) {
      s = schedules[w]
      printf "%-12s %8.3f %9.2f %9.0f %8.3f %6s %6s %8.2f | %7.3f %7.3f | %s\n", s, typical(c, s, "step"),
        speedup(c, "auto", s, "step"), typical(c, s, "tokens"), typical(c, s, "passes"), percent(share(c, s, "a2a")),
        percent(share(c, s, "exposed")), typical(c, s, "peak") / 1e6, typical(c, s, "ep_bytes") / 1e6,
        typical(c, s, "tp_bytes") / 1e6, predictions(c, s)
      if (!((c, s) in chosen) && (best == "" || typical(c, s, "step") < typical(c, best, "step"))) best = s
    }
    for (w = 1; w <= schedule_count; w++)
      if ((c, schedules[w]) in chosen) printf "%s chose %s\n", schedules[w], chosen[c, schedules[w]]
    fixed[c] = best
    print ""
  }
  print "auto x: times as long as under auto; a2a: share of the step in which all-to-alls run or wait; exp.: share in which passes"
  print "communicate and do not compute; ep, tp: bytes that a rank sends; layer p., step p.: predicted seconds of one layer's"
  print "passes and of a step (passes as predicted, the rest as measured under the first schedule)"
  print_errors()
  printf "\n%-12s %-14s %10s %10s %14s\n", "rate", "fastest fixed", "step s", "auto s", "auto/fastest"
  for (i = 1; i <= case_count; i++) {
    c = cases[i]
    printf "%-12s %-14s %10.3f %10.3f %14.2f\n", c, fixed[c], typical(c, fixed[c], "step"), typical(c, "auto", "step"),
      speedup(c, fixed[c], "auto", "step")
  }
}
