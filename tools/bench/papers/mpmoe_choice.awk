# Prints the table of tools/bench/papers/mpmoe_choice.sh (MPMoE, Fig. 15) from rows of train_schedules. Each case is a
# rate of the links and a number of tokens, "100mbit,512". Times are the forward and backward of one layer.

{ read_step() }

# Returns the strategy that the run chose, or "-".
function choice(c,    text) {
  text = chosen[c, "auto"]
  return match(text, /memory_reuse s[1-4]/) ? substr(text, RSTART + RLENGTH - 2, 2) : "-"
}
function ratio(c, s) { return 1 / speedup(c, s, "none", "layer") }
function predicted_ratio(c, s) {
  return is_predicted(c, s) ? sprintf("(%.2f)", value[c, s, 1, "predicted"] / value[c, "none", 1, "predicted"]) : ""
}
# Returns the fastest of S1 to S4; with `foreseen`, by the predictions.
function fastest(c, foreseen,    k, s, x, best, least) {
  for (k = 1; k <= 4; k++) {
    s = "s" k
    x = foreseen ? value[c, s, 1, "predicted"] : ratio(c, s)
    if (best == "" || x < least) { best = s; least = x }
  }
  return best
}
# Returns the extra time of `s`, compared with the fastest of S1 to S4. Zero for the fastest one.
function extra(c, s) { return s == "-" ? "" : 1 / speedup(c, s, fastest(c, 0), "layer") - 1 }
function plus(x) { return x == "" ? "-" : sprintf("%+.1f%%", 100 * x) }

END {
  print "Fig. 15, n = 4: time of a layer divided by its time without restoring, measured (predicted); extra: extra time of the"
  print "choice, compared with the fastest of S1 to S4"
  printf "%-9s %6s", "rate", "tokens"
  for (k = 1; k <= 4; k++) printf " %14s", "S" k
  printf " | %7s %5s %7s | %9s %7s\n", "fastest", "auto", "extra", "simulator", "extra"
  for (i = 1; i <= case_count; i++) {
    c = cases[i]
    split(c, part, ",")
    printf "%-9s %6d", part[1], part[2]
    for (k = 1; k <= 4; k++) {
      printf " %14s", sprintf("%.2f %s", ratio(c, "s" k), predicted_ratio(c, "s" k))
      lost[k] += extra(c, "s" k) / case_count
    }
    guess = is_predicted(c, "s1") ? fastest(c, 1) : "-"
    printf " | %7s %5s %7s | %9s %7s\n", fastest(c, 0), choice(c), plus(extra(c, choice(c))), guess, plus(extra(c, guess))
    if (choice(c) != "-") { by_auto += extra(c, choice(c)); chose++ }
    if (guess != "-") { by_simulator += extra(c, guess); guessed++ }
    for (n = 1; n <= 4; n++) predictions(c, "s" n)
  }
  printf "extra time, mean over %d cases: auto %s, simulator %s", case_count, plus(chose ? by_auto / chose : ""),
    plus(guessed ? by_simulator / guessed : "")
  for (k = 1; k <= 4; k++) printf ", always S%d %s", k, plus(lost[k])
  print ""
  print_errors()
}
