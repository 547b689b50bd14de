# Prints the table of tools/bench/papers/monta_step.sh from rows of train_schedules. Variable: inter, the rate of a
# rank's link between nodes in bits per second.

{ read_step() }

END {
  c = cases[1]
  printf "%-10s %8s %9s %9s %7s %6s %8s %6s %7s %7s | %8s %6s %8s %6s\n", "schedule", "step s", "forward s", "exch. fwd", "a2a s",
    "share", "exch. s", "share", "MB", "Mbit/s", "layer p.", "error", "step p.", "error"
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]
    bytes = typical(c, s, "ep_bytes")
    printf "%-10s %8.3f %9.4f %9.4f %7.3f %6s %8.3f %6s %7.3f %7.1f | %s\n", s, typical(c, s, "step"), typical(c, s, "forward"),
      typical(c, s, "forward_exchange"), typical(c, s, "a2a"), percent(share(c, s, "a2a")), typical(c, s, "exchange"),
      percent(share(c, s, "exchange")), bytes / 1e6, 8e-6 * bytes / typical(c, s, "a2a"), predictions(c, s)
  }
  for (w = 1; w <= schedule_count; w++)
    if ((c, schedules[w]) in chosen) printf "%s chose %s\n", schedules[w], chosen[c, schedules[w]]
  print "forward s, exch. fwd: one layer's forward through the experts, and its all-to-alls and all-gathers (the exchange of tokens,"
  print "without the reduction over the experts' widths); a2a s: all-to-alls of a step; exch. s: all-to-alls and all-gathers; MB: bytes of"
  print "all-to-alls that a rank sends to the other node; Mbit/s: these bytes over a2a s, which includes waiting for peers"
  print_errors()
  printf "\n%-52s %14s %10s\n", "", "paper", "measured"
  printf "%-52s %14s %10s\n", "share of all-to-alls, baseline", "22%", percent(share(c, "baseline", "a2a"))
  printf "%-52s %14s %10s\n", "  O1", "10%", percent(share(c, "o1", "a2a"))
  printf "%-52s %14s %10s\n", "  MoNTA's choice", "10%", percent(share(c, "monta", "a2a"))
  printf "%-52s %14s %10s\n", "share of all-to-alls and all-gathers, baseline", "22%", percent(share(c, "baseline", "exchange"))
  printf "%-52s %14s %10s\n", "  O1", "10%", percent(share(c, "o1", "exchange"))
  printf "%-52s %14s %10s\n", "  MoNTA's choice", "10%", percent(share(c, "monta", "exchange"))
  printf "%-52s %14s %10.3f\n", "all-to-alls and all-gathers, forward, O1/baseline", "0.30 - 0.355", 1 / speedup(c, "o1", "baseline", "forward_exchange")
  printf "%-52s %14s %10.3f\n", "MoE forward, O1/baseline (Fig. 16)", "-", 1 / speedup(c, "o1", "baseline", "forward")
  printf "%-52s %14s %10.3f\n", "  MoNTA's choice", "-", 1 / speedup(c, "monta", "baseline", "forward")
  printf "%-52s %14s %10.3f\n", "step, O1/baseline (Fig. 17)", "0.87", 1 / speedup(c, "o1", "baseline", "step")
  printf "%-52s %14s %10.3f\n", "  MoNTA's choice", "0.87", 1 / speedup(c, "monta", "baseline", "step")
  bandwidth = 8 * typical(c, "baseline", "ep_bytes") / typical(c, "baseline", "a2a") / inter
  printf "%-52s %14s %10s\n", "ratio of bandwidth to nominal, baseline (Fig. 13)", "0.741", sprintf("%.3f", bandwidth)
}
