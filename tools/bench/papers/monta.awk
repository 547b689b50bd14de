# Prints the tables of tools/bench/papers/monta.sh. Input: links, round, part, t, bytes, schedule, seconds, predicted
# seconds. Links are inter:intra for the rates of a rank, or rate:memory for nodes whose ranks share a link. Variable: e
# (number of nodes).

BEGIN { FS = "\t" }

{
  c = $1 SUBSEP $3 SUBSEP $4 SUBSEP $5
  if (!(c in seen)) { seen[c] = 1; cases[++count] = c }
  if (!($6 in known)) { known[$6] = 1; ways[++n] = $6 }
  if ($2 > rounds[c]) rounds[c] = $2
  seconds[c, $6, $2] = $7
  predicted[c, $6] = $8
}

function bits(rate) { return rate * (rate ~ /gbit/ ? 1e9 : rate ~ /mbit/ ? 1e6 : 1e3) }
function larger(a, b) { return a > b ? a : b }

# Returns the ratio of a schedule's time to the baseline's in the same round, as a median over the rounds.
function ratio(c, way,    r, list) {
  for (r = 1; r <= rounds[c]; r++) list[r] = seconds[c, way, r] / seconds[c, "baseline", r]
  return median(list, rounds[c])
}
function typical(c, way,    r, list) {
  for (r = 1; r <= rounds[c]; r++) list[r] = seconds[c, way, r]
  return median(list, rounds[c])
}
# Returns the loss of a schedule relative to the best schedule of the case.
function loss(c, way, best) { return ratio(c, way) / ratio(c, best) - 1 }
# Returns the ratio of the measured or predicted time to the baseline's; empty without a prediction.
function share_of(c, way, foreseen) {
  if (!foreseen) return ratio(c, way)
  return predicted[c, way] == "-" ? "" : predicted[c, way] / predicted[c, "baseline"]
}
# Returns the best schedule whose name begins with `family`, as measured or predicted; empty if there is none. Ignores
# the schedule `except` ("": none).
function best_of(c, family, except, foreseen,    w, best) {
  for (w = 1; w <= n; w++) {
    if (ways[w] == "baseline" || ways[w] == except || index(ways[w], family) != 1) continue
    if (share_of(c, ways[w], foreseen) == "") continue
    if (best == "" || share_of(c, ways[w], foreseen) < share_of(c, best, foreseen)) best = ways[w]
  }
  return best
}

# gathering(part) returns the expected time of the gathering inside nodes. formula(part) returns that of O1, which sends
# a t-th of the bytes between nodes and then gathers. limit(part) returns the longer of these two parts. All times are
# ratios to the baseline's. In shared memory, gathering takes no time, and the ranks of a node share its link.
function gathering(part, link) {
  split(part[1], link, ":")
  return link[2] == "memory" ? 0 : (part[3] - 1) / part[3] * e / (e - 1) * bits(link[1]) / bits(link[2])
}
function formula(part) { return 1 / part[3] + gathering(part) }
function limit(part) { return larger(1 / part[3], gathering(part)) }
# Returns the share of the nominal rate at which the baseline's bytes pass a link between nodes.
function wire(part, seconds,    link) {
  split(part[1], link, ":")
  return 8 * part[4] * (e - 1) / e / seconds / bits(link[1]) * (link[2] == "memory" ? part[3] : 1)
}

function print_cases(    i, c, part, best, guess, w, m, x, off) {
  printf "%-14s %-8s %2s %9s %10s %6s %7s %7s %7s %7s %6s %8s %9s %6s\n", "links", "part", "t", "bytes", "baseline s", "wire", "o1",
    "formula", "best", "limit", "", "", "predicted", "error"
  for (i = 1; i <= count; i++) {
    c = cases[i]
    split(c, part, SUBSEP)
    best = best_of(c, "o", "", 0); guess = best_of(c, "o", "", 1)
    m = 0
    for (w = 1; w <= n; w++)
      if (predicted[c, ways[w]] != "-") {
        x = predicted[c, ways[w]] / typical(c, ways[w]) - 1
        off[++m] = errors[++points] = x < 0 ? -x : x
      }
    printf "%-14s %-8s %2d %9d %10.4f %5.0f%% %7.3f %7.3f %7.3f %7.3f %6s %8s %9s %6s\n", part[1], part[2], part[3], part[4],
      typical(c, "baseline"), 100 * wire(part, typical(c, "baseline")), ratio(c, "o1"), formula(part), ratio(c, best),
      limit(part), best, guess == "" ? "-" : guess, guess == "" ? "-" : sprintf("%.4f s", predicted[c, guess]),
      m ? sprintf("%.0f%%", 100 * median(off, m)) : "-"
  }
  print "wire: share of the nominal rate at which the baseline's bytes pass a link between nodes"
  print "best: the fastest schedule; predicted: the fastest schedule according to the simulator; error: median over the schedules"
}

# Prints the limits of O1 and of the best schedule, from the largest volume of the largest t of each combination of
# links.
function print_limits(    i, c, part, key, order, kinds, last) {
  for (i = 1; i <= count; i++) {
    split(cases[i], part, SUBSEP)
    key = part[1] SUBSEP part[2]
    if (!(key in last)) order[++kinds] = key
    last[key] = cases[i]
  }
  printf "\n%-58s %12s %8s %9s %9s %6s\n", "", "paper", "formula", "measured", "predicted", "error"
  for (i = 1; i <= kinds; i++) {
    c = last[order[i]]
    split(c, part, SUBSEP)
    key = sprintf("%s, %s, t = %d, %d bytes", part[1], part[2], part[3], part[4])
    print_share(key ": O1", gathering(part) ? "0.30 - 0.355" : "", formula(part), c, "o1", "o1")
    print_share(key ": best", gathering(part) ? "0.253" : "", limit(part), c, best_of(c, "o", "", 0), best_of(c, "o", "", 1))
  }
  print "ratios to the baseline's time; the paper's values are for a ratio of rates of 1:8"
}
function print_share(what, paper, closed, c, way, guess,    x) {
  x = guess == "" ? "" : share_of(c, guess, 1)
  printf "%-58s %12s %8.3f %9.3f %9s %6s\n", what, paper, closed, ratio(c, way), x == "" ? "-" : sprintf("%.3f", x),
    x == "" ? "-" : sprintf("%+.0f%%", 100 * (x / ratio(c, way) - 1))
}

# Returns the smallest volume from which on the best schedule of `later` is at least 2% faster than the best of
# `earlier`; empty if there is none.
function crossover(list, m, earlier, later, foreseen,    i, c, a, b, part, from) {
  for (i = m; i >= 1; i--) {
    c = list[i]
    a = best_of(c, earlier, "", foreseen); b = best_of(c, later, "", foreseen)
    if (a == "" || b == "" || share_of(c, b, foreseen) > 0.98 * share_of(c, a, foreseen)) break
    split(c, part, SUBSEP)
    from = part[4]
  }
  return from
}
function print_crossovers(    i, j, part, key, kinds, order, of, list, m) {
  for (i = 1; i <= count; i++) {
    split(cases[i], part, SUBSEP)
    key = part[1] SUBSEP part[2] SUBSEP part[3]
    if (!(key in of)) order[++kinds] = key
    of[key]++
    list[key, of[key]] = cases[i]
  }
  printf "\nBytes from which on a strategy is at least 2%% faster than the previous strategy, each with its best number of chunks\n"
  printf "%-14s %-8s %2s | %9s %9s %7s | %9s %9s %7s\n", "links", "part", "t", "O1 -> O2", "predicted", "octaves", "O2 -> O3",
    "predicted", "octaves"
  for (i = 1; i <= kinds; i++) {
    key = order[i]
    split(key, part, SUBSEP)
    m = of[key]
    for (j = 1; j <= m; j++) volumes[j] = list[key, j]
    printf "%-14s %-8s %2d |%s |%s\n", part[1], part[2], part[3],
      crossing(crossover(volumes, m, "o1", "o2", 0), crossover(volumes, m, "o1", "o2", 1)),
      crossing(crossover(volumes, m, "o2", "o3", 0), crossover(volumes, m, "o2", "o3", 1))
  }
  if (met + missed) printf "predicted within an octave: %d of %d crossovers that were measured or predicted\n", met, met + missed
}
function crossing(measured, foreseen,    off) {
  off = measured == "" || foreseen == "" ? "" : log(foreseen / measured) / log(2)
  if (measured != "" || foreseen != "") { if (off != "" && off <= 1 && off >= -1) met++; else missed++ }
  return sprintf(" %9s %9s %7s", measured == "" ? "-" : measured, foreseen == "" ? "-" : foreseen,
    off == "" ? "" : sprintf("%+.0f", off))
}

# Prints the loss of the simulator's choice and that of the best fixed choice, both relative to the best schedule. Uses
# only cases in which the second best schedule takes at least `margin` longer.
function print_regret(margin, what,    i, w, c, best, guess, contested, chosen, regret, fixed, m) {
  for (i = 1; i <= count; i++) {
    c = cases[i]
    best = best_of(c, "o", "", 0); guess = best_of(c, "o", "", 1)
    if (guess == "" || loss(c, best_of(c, "o", best, 0), best) < margin) continue
    m++
    chosen += loss(c, guess, best)
    for (w = 1; w <= n; w++) regret[ways[w]] += loss(c, ways[w], best)
  }
  if (!m) return
  for (w = 1; w <= n; w++)
    if (ways[w] != "baseline" && (fixed == "" || regret[ways[w]] < regret[fixed])) fixed = ways[w]
  printf "%s (%d cases): the simulator's choice loses %.1f%% on average, the best fixed schedule (%s) %.1f%%\n", what, m,
    100 * chosen / m, fixed, 100 * regret[fixed] / m
}

END {
  print_cases()
  print_limits()
  if (points) {
    x = median(errors, points)
    printf "error of the simulator over %d medians: median %.1f%%, 95th percentile %.1f%%\n", points, 100 * x,
      100 * errors[int(0.95 * points + 0.999999)]
  }
  print_crossovers()
  print ""
  print_regret(0.1, "cases in which the second best takes at least 10% longer")
  print_regret(0, "all cases")
}
