# The table of tools/bench/papers/monta.sh from its rows: round, part, t, bytes, schedule, seconds, predicted.
# Variables: e (nodes), inter and intra (bits a second of a rank's link).

BEGIN { FS = "\t" }

{
  c = $2 SUBSEP $3 SUBSEP $4
  if (!(c in seen)) { seen[c] = 1; cases[++count] = c }
  if (!($5 in known)) { known[$5] = 1; ways[++n] = $5 }
  if ($1 > rounds) rounds = $1
  seconds[c, $5, $1] = $6
  predicted[c, $5] = $7
}

# How much longer than the best way of the case.
function loss(c, way, best) { return ratio(c, way) / ratio(c, best) - 1 }

# Median over the rounds of a schedule's time over the baseline's in the same round.
function ratio(c, way,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = seconds[c, way, r] / seconds[c, "baseline", r]
  return median(list, rounds)
}
function typical(c, way,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = seconds[c, way, r]
  return median(list, rounds)
}

END {
  printf "%-9s %3s %10s %10s %6s %8s %8s %8s %8s %9s %9s %7s\n", "part", "t", "bytes", "baseline s", "wire", "o1", "formula", "best",
    "", "predicted", "", "error"
  for (i = 1; i <= count; i++) {
    c = cases[i]
    split(c, part, SUBSEP)
    t = part[2]
    base = typical(c, "baseline")
    wire = 8 * part[3] * (e - 1) / e / base / inter
    formula = 1 / t + (t - 1) / t * e / (e - 1) * inter / intra
    best = ""; guess = ""; all = 0
    for (w = 1; w <= n; w++) {
      if (ways[w] == "baseline") continue
      if (best == "" || ratio(c, ways[w]) < ratio(c, best)) best = ways[w]
      if (predicted[c, ways[w]] != "-" && (guess == "" || predicted[c, ways[w]] + 0 < predicted[c, guess] + 0)) guess = ways[w]
    }
    # Over all schedules of the case: how far the prediction is off.
    m = 0
    for (w = 1; w <= n; w++)
      if (predicted[c, ways[w]] != "-") {
        x = predicted[c, ways[w]] / typical(c, ways[w]) - 1
        off[++m] = errors[++points] = x < 0 ? -x : x
      }
    printf "%-9s %3d %10d %10.4f %5.0f%% %8.3f %8.3f %8.3f %8s %9s %9s %6s\n", part[1], t, part[3], base, 100 * wire,
      ratio(c, "o1"), formula, ratio(c, best), best, guess == "" ? "-" : guess,
      guess == "" ? "-" : sprintf("%.4f s", predicted[c, guess]), m ? sprintf("%.0f%%", 100 * median(off, m)) : "-"

    # Cases in which it matters what is chosen: the second best takes a tenth longer.
    second = ""
    for (w = 1; w <= n; w++)
      if (ways[w] != "baseline" && ways[w] != best && (second == "" || ratio(c, ways[w]) < ratio(c, second))) second = ways[w]
    if (guess != "" && loss(c, second, best) > 0.1) {
      contested++
      regret[""] += loss(c, guess, best)
      for (w = 1; w <= n; w++) regret[ways[w]] += loss(c, ways[w], best)
    }
    # The largest volume of the largest t stands for the limit.
    last[part[1]] = c
    best_of[c] = best
    guess_of[c] = guess
    formula_of[c] = formula
    limit_of[c] = (t - 1) / t * inter * e / (e - 1) / intra
    if (limit_of[c] < 1 / t) limit_of[c] = 1 / t
  }
  print "wire: rate at which the baseline's bytes pass a rank's link between nodes, of its nominal rate"
  print "best: the fastest schedule; predicted: the fastest one by the simulator; error: median over the schedules"

  printf "\n%-46s %12s %8s %9s %9s %6s\n", "", "paper", "formula", "measured", "predicted", "error"
  split("dispatch combine", parts, " ")
  for (i = 1; i <= 2; i++) {
    c = last[parts[i]]
    split(c, part, SUBSEP)
    at = sprintf("%s, t = %d, %d bytes", parts[i], part[2], part[3])
    print_share(at ": O1/baseline", "0.30 - 0.355", formula_of[c], c, "o1", "o1")
    print_share(at ": best/baseline", "0.253", limit_of[c], c, best_of[c], guess_of[c])
  }
  if (points) {
    x = median(errors, points)
    printf "error of the simulator over %d medians: median %.1f%%, 95th percentile %.1f%%\n", points, 100 * x,
      100 * errors[int(0.95 * points + 0.999999)]
  }
  if (contested) {
    for (w = 1; w <= n; w++)
      if (ways[w] != "baseline" && (fixed == "" || regret[ways[w]] < regret[fixed])) fixed = ways[w]
    printf "where the second best takes over 10%% longer (%d cases): the simulator's choice loses %.1f%% on average, the best fixed\n",
      contested, 100 * regret[""] / contested
    printf "schedule (%s) %.1f%%\n", fixed, 100 * regret[fixed] / contested
  }
}

function print_share(what, paper, formula, c, way, guess,    x) {
  x = guess == "" ? "" : predicted[c, guess] / predicted[c, "baseline"]
  printf "%-46s %12s %8.3f %9.3f %9s %6s\n", what, paper, formula, ratio(c, way), x == "" ? "-" : sprintf("%.3f", x),
    x == "" ? "-" : sprintf("%+.0f%%", 100 * (x / ratio(c, way) - 1))
}
