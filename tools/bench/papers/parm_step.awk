# Prints the table of tools/bench/papers/parm_step.sh from rows of train_schedules. Each case is a model.

{ read_step() }

END {
  printf "%-10s %-9s %8s %8s %8s %7s %7s | %8s %6s %8s %6s\n", "model", "schedule", "step s", "passes s", "share", "ep MB", "tp MB",
    "layer p.", "error", "step p.", "error"
  for (i = 1; i <= case_count; i++)
    for (w = 1; w <= schedule_count; w++) {
      c = cases[i]; s = schedules[w]
      printf "%-10s %-9s %8.3f %8.3f %8s %7.2f %7.2f | %s\n", c, s, typical(c, s, "step"), typical(c, s, "passes"),
        percent(share(c, s, "passes")), typical(c, s, "ep_bytes") / 1e6, typical(c, s, "tp_bytes") / 1e6, predictions(c, s)
    }
  print "passes s, share: passes through the experts; ep, tp: bytes that a rank sends"
  print_errors()

  printf "\n%-10s %13s %13s | %8s %8s %8s | %s\n", "speedup", "paper, 8 GPUs", "paper, 32", "S1", "S2", "Parm", "Parm: the predicted faster schedule"
  paper["bert-base", 8] = "3.06"; paper["bert-base", 32] = "2.98"
  paper["gpt2", 8] = "3.08"; paper["gpt2", 32] = "3.15"
  for (i = 1; i <= case_count; i++) {
    c = cases[i]
    guess = !is_predicted(c, "s1") || value[c, "s1", 1, "predicted"] <= value[c, "s2", 1, "predicted"] ? "s1" : "s2"
    printf "%-10s %13s %13s | %8.2f %8.2f %8.2f | %s\n", c, paper[c, 8], paper[c, 32], speedup(c, "s1", "baseline", "step"),
      speedup(c, "s2", "baseline", "step"), speedup(c, guess, "baseline", "step"), guess
  }
}
