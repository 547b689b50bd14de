# The table of tools/bench/papers/monta.sh from its rows: round, part, t, bytes, schedule, seconds, predicted.
# Variables: e (nodes), inter and intra (bits a second of a rank's link).

BEGIN { FS = "\t" }

{
  c = $2 SUBSEP $3 SUBSEP $4
  if (!(c in seen)) seen[c] = 1, cases[++count] = c
  if (!($5 in known)) known[$5] = 1, ways[++n] = $5
  if ($1 > rounds) rounds = $1
  seconds[c, $5, $1] = $6
  predicted[c, $5] = $7
}

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
    best = "", guess = "", all = 0
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
        off[++m] = x < 0 ? -x : x
      }
    printf "%-9s %3d %10d %10.4f %5.0f%% %8.3f %8.3f %8.3f %8s %9s %9s %6s\n", part[1], t, part[3], base, 100 * wire,
      ratio(c, "o1"), formula, ratio(c, best), best, guess == "" ? "-" : guess,
      guess == "" ? "-" : sprintf("%.4f s", predicted[c, guess]), m ? sprintf("%.0f%%", 100 * median(off, m)) : "-"
  }
  print "wire: rate at which the baseline's bytes pass a rank's link between nodes, of its nominal rate"
  print "best: the fastest schedule; predicted: the fastest one by the simulator; error: median over the schedules"
}
