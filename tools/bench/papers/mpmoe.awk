# Prints the tables of tools/bench/papers/mpmoe.sh from the rows of moe_layer.

BEGIN { FS = "\t" }

$1 == "search" && $3 ~ /^s[1-4]n/ { chosen_of[$2, substr($3, 2, 1)] = $3; next }
$1 == "search" { chosen[$2] = $3; trials[$2] = $4; next }
{ read_row() }

# Returns the fastest of the sequential schedule and the schedules of n overlapping parts. `foreseen_ones`: uses the
# simulator's predictions.
function best_of(c, pass, foreseen_ones,    w, s, best, x, least) {
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]
    if (s != "fastmoe" && s !~ /^n[0-9]+$/) continue
    x = foreseen_ones ? foreseen(c, pass, s) : -speedup(c, pass, s, "fastmoe")
    if (best == "" || x < least) { best = s; least = x }
  }
  return best
}
# Returns a ratio for the sequential pass. which = 0: the sum of communication and computation divided by the longer of
# the two. which = 1: the longer of the two divided by the time of `s`.
function overlap(c, pass, s, which,    r, list, a, b) {
  for (r = 1; r <= rounds; r++) {
    a = communication[c, pass, "fastmoe", r]; b = computation[c, pass, "fastmoe", r]
    list[r] = which ? max(a, b) / seconds[c, pass, s, r] : (a + b) / max(a, b)
  }
  return median(list, rounds)
}
# Returns the schedule of strategy `k` with Algorithm 1's n, or with n = 4 if the rows have no search for it.
function restoring(c, k) { return (c, k) in chosen_of ? chosen_of[c, k] : "s" k "n4" }
# Returns the speedup over `reference`, as a mean over the layers. If `reference` is empty, returns the share of
# overlap() in percent instead. With `reuse`, returns values for S1 to S4, each with Algorithm 1's n ("1.15 1.05 1.01
# 1.00"). Otherwise, returns the value without memory reuse for Algorithm 1's n, or for the best n if the rows have no
# search.
function like_for_like(reference, reuse,    k, i, c, s, sum, text) {
  for (k = 1; k <= (reuse ? 4 : 1); k++) {
    sum = 0
    for (i = 1; i <= layer_count; i++) {
      c = layers[i]; s = reuse ? restoring(c, k) : chosen[c] == "" ? best_of(c, "step", 0) : chosen[c]
      if (reference != "") sum += speedup(c, "step", s, reference) / layer_count
      else sum += 50 * (overlap(c, "forward", s, 1) + overlap(c, "backward", s, 1)) / layer_count
    }
    text = text sprintf(reference != "" ? "%5.2f" : "%4.0f%%", sum) (reuse && k < 4 ? " " : "")
  }
  return text
}
function saving(c, n) { return (peak[c, "n" n] - peak[c, "s4n" n]) / (states(c) + peak[c, "n" n]) }
# Returns the saving of S4 with n micro-batches relative to FastMoE, including model states.
function saving_over_fastmoe(c, n) { return (peak[c, "fastmoe"] - peak[c, "s4n" n]) / (states(c) + peak[c, "fastmoe"]) }

END {
  print "Speed. Seconds of the slowest rank; communication and computation are those of the sequential schedule (FastMoE)."
  print "x FastMoE: speedup. bound: (communication + computation)/max of the two. share: max of the two/time of the best n."
  printf "%-7s %5s %-9s %7s %7s %8s | %9s", "model", "B", "pass", "comm s", "comp s", "FastMoE", "FasterMoE"
  for (w = 1; w <= schedule_count; w++) if (schedules[w] ~ /^n[0-9]+$/) printf " %7s", schedules[w]
  printf " | %6s %6s | %9s %9s %6s\n", "bound", "share", "predicted", "x FastMoE", "error"
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    for (p = 1; p <= 3; p++) {
      pass = p == 1 ? "forward" : p == 2 ? "backward" : "step"
      best = best_of(c, pass, 0); guess = best_of(c, pass, 1)
      gain = speedup(c, pass, best, "fastmoe")
      printf "%-7s %5d %-9s", model(c), field(c, "B"), pass
      if (p < 3)
        printf " %7.3f %7.3f", typical_value(communication, c, pass, "fastmoe"), typical_value(computation, c, pass, "fastmoe")
      else printf " %7s %7s", "", ""
      printf " %8.3f | %9.2f", typical(c, pass, "fastmoe"), speedup(c, pass, "fastermoe", "fastmoe")
      for (w = 1; w <= schedule_count; w++)
        if (schedules[w] ~ /^n[0-9]+$/) printf " %7.2f", speedup(c, pass, schedules[w], "fastmoe")
      if (p < 3) {
        share = overlap(c, pass, best, 1)
        shares[++share_count] = share
        limit = overlap(c, pass, best, 0)
        if (gain > limit) above++
        printf " | %6.2f %5.0f%%", limit, 100 * share
      } else printf " | %6s %6s", "", ""
      x = foreseen_speedup(c, pass, guess, "fastmoe")
      printf " | %9s %9.2f %6s\n", guess, x, error_of(x, gain)
      if (p == 3) {
        over_fast[i] = gain; predicted_fast[i] = x
        over_faster[i] = speedup(c, pass, best, "fastermoe")
        predicted_faster[i] = foreseen_speedup(c, pass, guess, "fastermoe")
        regret[i] = 1 / speedup(c, pass, chosen[c] == "" ? best : chosen[c], best) - 1
        regret_pm[i] = 1 / speedup(c, pass, guess, best) - 1
      }
    }
  }
  printf "overlap above its bound: %d of %d passes\n", above, 2 * layer_count

  print "\nAdaptive granularity (Algorithm 1; pb by measurement, pm by the simulator): extra time compared with the best n, whole step"
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    printf "%-7s %5d  best %-8s pb %-8s %+5.1f%% (%d measurements)   pm %-8s %+5.1f%%\n", model(c), field(c, "B"),
      best_of(c, "step", 0), chosen[c], 100 * regret[i], trials[c], best_of(c, "step", 1), 100 * regret_pm[i]
  }

  print "\nMemory. Peak of activations, temporaries and communication, MB; bound: 2 (2 B M + k (4 B M + B H)/n) elements;"
  print "saving: share of model states (by the formula) and peak that is saved compared with the same n without sharing."
  printf "%-7s %5s %3s %10s %10s %10s %7s | %7s %10s %7s\n", "model", "B", "n", "not shared", "S4", "bound", "S4/bnd", "saving",
    "equation 6", "share"
  for (i = 1; i <= layer_count; i++)
    for (n = 2; n <= 8; n *= 2) {
      c = layers[i]
      if (!((c, "s4n" n) in peak)) continue
      printf "%-7s %5d %3d %10.2f %10.2f %10.2f %7.3f | %6.1f%% %9.1f%% %6.0f%%\n", model(c), field(c, "B"), n,
        peak[c, "n" n] / 1e6, peak[c, "s4n" n] / 1e6, bound(c, n) / 1e6, peak[c, "s4n" n] / bound(c, n),
        100 * saving(c, n), 100 * equation_6(c, n), 100 * saving(c, n) / equation_6(c, n)
      saved[n] += saving(c, n) / layer_count; expected[n] += equation_6(c, n) / layer_count
      worst = max(worst, peak[c, "s4n" n] / bound(c, n))
    }

  print "\nRestoring, n = 4: ratio of the whole step to that of n = 4 without restoring, measured (predicted); peak MB"
  printf "%-7s %5s", "model", "B"
  for (k = 1; k <= 4; k++) printf "   %-22s", "S" k
  print ""
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    printf "%-7s %5d", model(c), field(c, "B")
    for (k = 1; k <= 4; k++) {
      s = "s" k "n4"
      printf "   %-22s", sprintf("%.2f (%.2f) %6.1f MB", 1 / speedup(c, "step", s, "n4"),
        1 / foreseen_speedup(c, "step", s, "n4"), peak[c, s] / 1e6)
    }
    print ""
  }

  print_cutting("step", "fastmoe", "n")  # Fig. 16

  printf "\n%-52s %10s %10s %10s %7s\n", "", "paper", "measured", "predicted", "error"
  a = average(over_fast, layer_count); b = average(predicted_fast, layer_count)
  printf "%-52s %10s %10.2f %10.2f %7s\n", "speedup over FastMoE, step, mean, best n", "-", a, b, error_of(b, a)
  a = average(over_faster, layer_count); b = average(predicted_faster, layer_count)
  printf "%-52s %10s %10.2f %10.2f %7s\n", "speedup over FasterMoE without shadowing, best n", "-", a, b, error_of(b, a)
  printf "%-52s %10s %9.0f%%\n", "share of max(communication, computation), best n", "-", 100 * average(shares, share_count)
  print "MPMoE-pb: Algorithm 1's n without memory reuse; with it, S1 S2 S3 S4, each with its n (the paper's reuses memory)"
  for (i = 1; i <= layer_count; i++) {
    printf "  %-7s %5d ", model(layers[i]), field(layers[i], "B")
    for (k = 1; k <= 4; k++) printf " %s", restoring(layers[i], k)
    print ((layers[i], 1) in chosen_of ? "" : " (not searched)")
  }
  printf "%-52s %10s %10s   %s\n", "  speedup over FastMoE, step, mean", "2.34 pb", like_for_like("fastmoe", 0), like_for_like("fastmoe", 1)
  printf "%-52s %10s %10s   %s\n", "  speedup over FasterMoE without shadowing, mean", "1.66 pb", like_for_like("fastermoe", 0),
    like_for_like("fastermoe", 1)
  printf "%-52s %10s %10s   %s\n", "  share of max(communication, computation), mean", "70%", like_for_like("", 0), like_for_like("", 1)
  split("2 4 8", ns, " ")
  split("23 34 38", of_paper, " ")
  for (j = 1; j <= 3; j++) {
    n = ns[j]
    printf "%-52s %9d%% %9.1f%% %9.1f%% %7s\n", "memory saved, n = " n " (predicted: equation 6)", of_paper[j], 100 * saved[n],
      100 * expected[n], error_of(expected[n], saved[n])
  }
  for (j = 1; j <= 3; j++) {
    least = most = saving_over_fastmoe(layers[1], ns[j])
    for (i = 2; i <= layer_count; i++) {
      x = saving_over_fastmoe(layers[i], ns[j])
      least = x < least ? x : least; most = max(most, x)
    }
    printf "%-52s %10s %10s\n", "memory of S4 against FastMoE, n = " ns[j], "-53%", sprintf("-%.0f to -%.0f%%", 100 * least, 100 * most)
  }
  printf "%-52s %10s %10.3f\n", "peak over its bound, worst", "-", worst
  print_errors()
}
