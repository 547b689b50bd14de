# Prints the tables of tools/bench/papers/whole_step.sh from rows of train_schedules. Each case is a rate of the links,
# or "free" for links that take almost no time. On free links, only the first schedule runs. Variables: systems with
# other layouts (layouts) and with another model (models) than the first schedule, separated by spaces.

{ read_step() }

function is_one_of(s, list) { return index(" " list " ", " " s " ") > 0 }

END {
  for (i = 1; i <= case_count; i++) {
    c = cases[i]
    if (c == "free") continue
    first = schedules[1]
    free = typical("free", first, "step"); step = typical(c, first, "step")
    printf "%s between the nodes; on links that take almost no time, a step of %s takes %.3f s: %s is exposed communication\n", c, first, free,
      percent(1 - free / step)
    printf "%-13s %8s %9s %9s %8s %6s %6s %8s | %7s %7s | %8s %6s %8s %6s\n", "schedule", "step s", "auto x", "tokens/s", "passes s",
      "a2a", "exp.", "peak MB", "ep MB", "tp MB", "layer p.", "error", "step p.", "error"
    best = ""
    for (w = 1; w <= schedule_count; w++) {
      s = schedules[w]
      printf "%-13s %8.3f %9s %9.0f %8.3f %6s %6s %8.2f | %7.3f %7.3f | %s\n", s, typical(c, s, "step"),
        is_one_of(s, models) ? "-" : sprintf("%.2f", speedup(c, "auto", s, "step")), typical(c, s, "tokens"),
        typical(c, s, "passes"), percent(share(c, s, "a2a")), percent(share(c, s, "exposed")), typical(c, s, "peak") / 1e6,
        typical(c, s, "ep_bytes") / 1e6, typical(c, s, "tp_bytes") / 1e6, predictions(c, s, is_one_of(s, layouts " " models))
      if (is_one_of(s, models)) continue
      if (!((c, s) in chosen) && (best == "" || typical(c, s, "step") < typical(c, best, "step"))) best = s
    }
    for (w = 1; w <= schedule_count; w++)
      if ((c, schedules[w]) in chosen) printf "%s chose %s\n", schedules[w], chosen[c, schedules[w]]
    if ("shared-after" in known && "shared-beside" in known)
      printf "Megatron Core: a step with shared experts beside the all-to-all is %.2f times as fast as with them after it\n",
        speedup(c, "shared-beside", "shared-after", "step")
    if ("capacity" in known && "deepspeed-padded" in known)
      printf "DeepSpeed-MoE: a step with rows padded to the capacity takes %.2f times as long as without padding\n",
        1 / speedup(c, "deepspeed-padded", "capacity", "step")
    fixed[c] = best
    print ""
  }
  print "auto x: ratio of the time to that of auto; a2a: share of the step in which all-to-alls run or wait; exp.: share in which passes"
  print "communicate and do not compute; ep, tp: bytes that a rank sends; layer p., step p.: predicted seconds of one layer's"
  print "passes and of a step (passes as predicted, the rest as measured under the first schedule; not for other layouts and models)"
  print_errors()
  printf "\n%-12s %-14s %10s %10s %14s\n", "rate", "fastest fixed", "step s", "auto s", "auto/fastest"
  for (i = 1; i <= case_count; i++) {
    c = cases[i]
    if (c == "free") continue
    printf "%-12s %-14s %10.3f %10.3f %14.2f\n", c, fixed[c], typical(c, fixed[c], "step"), typical(c, "auto", "step"),
      speedup(c, fixed[c], "auto", "step")
  }
}
