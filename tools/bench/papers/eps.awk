# Prints the tables of tools/bench/papers/eps.sh from rows of moe_layer. Lines that begin with "pipeline" are input for
# the formula.

BEGIN { FS = "\t" }
{ read_row() }

function groups(s) { return substr(s, 3) + 0 }
function best_of(c, suffix, foreseen_ones,    w, s, x, best, least) {
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]
    if ((s ~ /fp8$/) != (suffix == "fp8")) continue
    x = foreseen_ones ? foreseen(c, "forward", s) : -speedup(c, "forward", s, "pn1" suffix)
    if (best == "" || x < least) { best = s; least = x }
  }
  return best
}

END {
  print "Forward, seconds of the slowest rank. PN: speedup over PN = 1 (predicted speedup). comm and comp: those of PN = 1."
  printf "%5s %-5s %7s %7s %7s", "m", "wire", "comm s", "comp s", "PN=1 s"
  for (w = 1; w <= schedule_count; w++)
    if (schedules[w] !~ /fp8$/ && groups(schedules[w]) > 1) printf " %12s", "PN=" groups(schedules[w])
  printf " | %5s %9s %6s\n", "found", "simulator", "loses"
  split(" fp8", wires, " ")
  for (i = 1; i <= layer_count; i++)
    for (f = 0; f <= 1; f++) {
      c = layers[i]; suffix = f ? "fp8" : ""; one = "pn1" suffix
      comm = typical_value(communication, c, "forward", one); comp = typical_value(computation, c, "forward", one)
      printf "%5d %-5s %7.3f %7.3f %7.3f", field(c, "B"), f ? "fp8" : "f32", comm, comp, typical(c, "forward", one)
      points = ""
      for (w = 1; w <= schedule_count; w++) {
        s = schedules[w]
        if ((s ~ /fp8$/) != f || groups(s) == 1) continue
        n = groups(s)
        printf " %12s", sprintf("%.2f (%.2f)", speedup(c, "forward", s, one), foreseen_speedup(c, "forward", s, one))
        cost = typical(c, "forward", s) - typical(c, "forward", one) + (comm < comp ? comm : comp) * (n - 1) / n
        if (cost > 0) points = points (points == "" ? "" : ",") sprintf("[%d,%.6f]", n, cost)
      }
      best = best_of(c, suffix, 0); guess = best_of(c, suffix, 1)
      printf " | %5d %9d %5.1f%%\n", groups(best), groups(guess), 100 * (speedup(c, "forward", best, guess) - 1)
      gain[f] = max(gain[f], speedup(c, "forward", best, one)); expected[f] = max(expected[f], foreseen_speedup(c, "forward", guess, one))
      combined = max(combined, f ? speedup(c, "forward", best, "pn1") : 0)
      expected_combined = max(expected_combined, f ? foreseen_speedup(c, "forward", guess, "pn1") : 0)
      pipelines[i, f] = sprintf("pipeline %d %.6f %.6f [%s] %d", field(c, "B"), comm, comp, points, groups(best))
    }
  printf "\n%-52s %10s %10s %10s %7s\n", "", "paper", "measured", "predicted", "error"
  # Values of Table 5 with width 1536, grouped GEMMs, five groups and the best m (256): 1.032/0.683, 1.513/0.607,
  # 1.032/0.607. With m = 3072: 1.18, 1.16, 1.53.
  printf "%-52s %10s %10.2f %10.2f %7s\n", "speedup of best PN over PN = 1, f32, best m", "1.51", gain[0], expected[0], error_of(expected[0], gain[0])
  printf "%-52s %10s %10.2f %10.2f %7s\n", "speedup of best PN over PN = 1, fp8, best m", "2.49", gain[1], expected[1], error_of(expected[1], gain[1])
  printf "%-52s %10s %10.2f %10.2f %7s\n", "speedup of fp8 and best PN over f32 and PN = 1", "1.70", combined, expected_combined, error_of(expected_combined, combined)
  for (i = 1; i <= layer_count; i++) print pipelines[i, 0]
  print_token_ranks()
  print_errors()
}
