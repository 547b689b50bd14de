# Prints the tables of tools/bench/papers/monta.sh. Input: predictions ("predicted", links, layer, schedule, pass,
# seconds of the graph, seconds outside the graph), then lines that consist of the links and a row of moe_layer. Links
# are inter:intra for the rates of a rank, or rate:memory for nodes whose ranks share a link. Variable: e (number of
# nodes).
#
# A case is a layer and a part of its pass: dispatch, combine, or forward, the whole task graph.

BEGIN { FS = "\t"; part_count = split("dispatch combine forward", parts, " ") }

$1 == "predicted" { sealed[$2 "|" $3, $5, $4] = $6; outside[$2 "|" $3, $5, $4] = $7; next }
{
  links = $1
  sub(/^[^\t]*\t/, "")
  $1 = links "|" $1
  read_row()
  if (($1, $4, $3) in sealed) {  # uses the predictions that precede the first measurement
    predicted_graph[$1, $4, $3] = sealed[$1, $4, $3]
    predicted[$1, $4, $3] = sealed[$1, $4, $3] + outside[$1, $4, $3]
  }
}

function bits(rate) { return rate * (rate ~ /gbit/ ? 1e9 : rate ~ /mbit/ ? 1e6 : 1e3) }
function links_of(c) { return substr(c, 1, index(c, "|") - 1) }
function of_layer(c, letter) { return field(substr(c, index(c, "|") + 1), letter) }
function ranks_of(c) { return of_layer(c, "tp") }
function bytes_of(c) { return 4 * of_layer(c, "B") * of_layer(c, "M") }
function row_of(c) { return of_layer(c, "etp") == 1 ? 1 : 2 }  # row of Table 1

# Returns the seconds of the task graph in a round.
function spent(c, part, way, r) { return graph[c, part, way, r] }
function spent_typically(c, part, way,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = spent(c, part, way, r)
  return median(list, rounds)
}
# Returns the ratio of a schedule's time to the baseline's in the same round, as a median over the rounds.
function ratio(c, part, way,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = spent(c, part, way, r) / spent(c, part, "baseline", r)
  return median(list, rounds)
}
# Returns the loss of a schedule relative to the best schedule of the case.
function loss(c, part, way, best) { return ratio(c, part, way) / ratio(c, part, best) - 1 }
# Returns the ratio of the measured or predicted time to the baseline's; empty without a prediction.
function share_of(c, part, way, predicts) {
  if (!predicts) return ratio(c, part, way)
  return predicted_graph[c, part, way] == "" ? "" : predicted_graph[c, part, way] / predicted_graph[c, part, "baseline"]
}
# Returns the best schedule whose name begins with `family`, as measured or predicted; empty if there is none. Ignores
# the baseline and the schedule `except` ("": none).
function best_of(c, part, family, except, predicts,    w, best, s) {
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]
    if (s == "baseline" || s == except || index(s, family) != 1 || share_of(c, part, s, predicts) == "") continue
    if (best == "" || share_of(c, part, s, predicts) < share_of(c, part, best, predicts)) best = s
  }
  return best
}

# The next functions return expected times of the exchanges, without computation, in units of the baseline's all-to-all
# between nodes. gathering() returns the time of an all-gather or reduce-scatter inside nodes. This time is 0 in shared
# memory, where the ranks of a node share its link.
function gathering(c,    link) {
  split(links_of(c), link, ":")
  return link[2] == "memory" ? 0 : (ranks_of(c) - 1) / ranks_of(c) * e / (e - 1) * bits(link[1]) / bits(link[2])
}
# Returns the number of gatherings of the baseline. In row 2 of Table 1, the baseline sums results by an all-reduce,
# which counts as two gatherings.
function gatherings_of_baseline(c, part) { return row_of(c) == 2 && part != "dispatch" ? 2 : 0 }
# Returns the number of gatherings of O1. In row 1 of Table 1, O1 gathers results. In row 2, O1 also gathers the tokens
# that arrive, and sums results by a reduce-scatter before they return.
function gatherings_of_o1(c, part) {
  if (row_of(c) == 1) return part == "dispatch" ? 0 : 1
  return part == "dispatch" ? 1 : part == "combine" ? 2 : 3
}
function exchanges(part) { return part == "forward" ? 2 : 1 }
function baseline_units(c, part) { return exchanges(part) + gatherings_of_baseline(c, part) * gathering(c) }
# formula() returns the ratio of O1's time to the baseline's: O1 sends 1/t of the bytes between nodes (t is the number
# of ranks of a node), and gathers. limit() returns the lowest possible ratio of a pipelined schedule, which takes as
# long as the longer of these two operations. Experts wait for all rows, so dispatch and combine do not overlap.
function formula(c, part) {
  return (exchanges(part) / ranks_of(c) + gatherings_of_o1(c, part) * gathering(c)) / baseline_units(c, part)
}
function limit(c, part) {
  return (part == "forward" ? longer(c, "dispatch") + longer(c, "combine") : longer(c, part)) / baseline_units(c, part)
}
function longer(c, part) { return max(1 / ranks_of(c), gatherings_of_o1(c, part) * gathering(c)) }
# Returns the rate at which the baseline's bytes pass the links, as a share of the links' nominal rates.
function wire(c, part,    link, unit) {
  split(links_of(c), link, ":")
  unit = 8 * bytes_of(c) * (e - 1) / e / bits(link[1])
  if (link[2] == "memory") unit *= ranks_of(c)
  return baseline_units(c, part) * unit / spent_typically(c, part, "baseline")
}

function print_case(c, part,    best, guess, w, s, m, off) {
  best = best_of(c, part, "o", "", 0); guess = best_of(c, part, "o", "", 1)
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]
    if (predicted_graph[c, part, s] == "") continue
    off[++m] = abs(predicted_graph[c, part, s] / spent_typically(c, part, s) - 1)
    errors[part, ++points[part]] = off[m]
  }
  printf "%-14s %3d %-8s %2d %9d %10.4f %5.0f%% %7.3f %7.3f %7.3f %7.3f %6s %8s %9s %6s\n", links_of(c), row_of(c), part,
    ranks_of(c), bytes_of(c), spent_typically(c, part, "baseline"), 100 * wire(c, part), ratio(c, part, "o1"), formula(c, part),
    ratio(c, part, best), limit(c, part), best, guess == "" ? "-" : guess,
    guess == "" ? "-" : sprintf("%.4f s", predicted_graph[c, part, guess]), m ? sprintf("%.0f%%", 100 * median(off, m)) : "-"
}
function print_cases(    i, p) {
  printf "%-14s %3s %-8s %2s %9s %10s %6s %7s %7s %7s %7s %6s %8s %9s %6s\n", "links", "row", "part", "t", "bytes", "baseline s",
    "wire", "o1", "formula", "best", "limit", "", "", "predicted", "error"
  for (p = 1; p <= part_count; p++)
    for (i = 1; i <= layer_count; i++) print_case(layers[i], parts[p])
  print "row: of Table 1 (1: whole experts on each rank; 2: experts whose width the ranks of a node share); wire: share of the"
  print "nominal rates at which the baseline's bytes pass the links; best: the fastest schedule; predicted: the fastest schedule"
  print "according to the simulator; error: median over the schedules; formula, limit: without computation"
}

# For each combination of links and a row of Table 1, prints the limits of O1 and of the best schedule. Uses the largest
# volume of the largest t.
function print_limits(    i, p, c, part, key, order, kinds, last, text, paper) {
  for (i = 1; i <= layer_count; i++) {
    key = links_of(layers[i]) SUBSEP row_of(layers[i])
    if (!(key in last)) order[++kinds] = key
    last[key] = layers[i]
  }
  printf "\n%-66s %12s %8s %9s %9s %6s\n", "", "paper", "formula", "measured", "predicted", "error"
  for (i = 1; i <= kinds; i++)
    for (p = 1; p <= part_count; p++) {
      c = last[order[i]]; part = parts[p]
      text = sprintf("%s, row %d, %s, t = %d, %d bytes", links_of(c), row_of(c), part, ranks_of(c), bytes_of(c))
      # The paper's cases are an all-to-all and one all-gather.
      paper = gathering(c) && gatherings_of_o1(c, part) == 1 && part != "forward"
      print_share(text ": O1", paper ? "0.30 - 0.355" : "", formula(c, part), c, part, "o1", "o1")
      print_share(text ": best", paper ? "0.253" : "", limit(c, part), c, part, best_of(c, part, "o", "", 0),
        best_of(c, part, "o", "", 1))
    }
  print "ratios to the baseline's time; the paper's values are for a ratio of rates of 1:8"
}
function print_share(what, paper, closed, c, part, way, guess,    x) {
  x = guess == "" ? "" : share_of(c, part, guess, 1)
  printf "%-66s %12s %8.3f %9.3f %9s %6s\n", what, paper, closed, ratio(c, part, way), x == "" ? "-" : sprintf("%.3f", x),
    x == "" ? "-" : error_of(x, ratio(c, part, way))
}

# Returns the smallest volume from which on `later` wins; an empty text if there is none. `later` wins at a volume if
# its best schedule is at least 2% faster than the best schedule of `earlier`.
function crossover(list, m, part, earlier, later, predicts,    i, c, a, b, from) {
  for (i = m; i >= 1; i--) {
    c = list[i]
    a = best_of(c, part, earlier, "", predicts); b = best_of(c, part, later, "", predicts)
    if (a == "" || b == "" || share_of(c, part, b, predicts) > 0.98 * share_of(c, part, a, predicts)) break
    from = bytes_of(c)
  }
  return from
}
function print_crossovers(    i, j, p, c, key, kinds, order, of, list, volumes, m) {
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    key = links_of(c) SUBSEP row_of(c) SUBSEP ranks_of(c)
    if (!(key in of)) order[++kinds] = key
    list[key, ++of[key]] = c
  }
  printf "\nBytes from which on a strategy is at least 2%% faster than the previous strategy, each with its best number of chunks\n"
  printf "%-14s %3s %-8s %2s | %9s %9s %7s | %9s %9s %7s\n", "links", "row", "part", "t", "O1 -> O2", "predicted", "octaves",
    "O2 -> O3", "predicted", "octaves"
  for (p = 1; p <= part_count; p++)
    for (i = 1; i <= kinds; i++) {
      key = order[i]
      m = of[key]
      for (j = 1; j <= m; j++) volumes[j] = list[key, j]
      printf "%-14s %3d %-8s %2d |%s |%s\n", links_of(volumes[1]), row_of(volumes[1]), parts[p], ranks_of(volumes[1]),
        crossing(crossover(volumes, m, parts[p], "o1", "o2", 0), crossover(volumes, m, parts[p], "o1", "o2", 1)),
        crossing(crossover(volumes, m, parts[p], "o2", "o3", 0), crossover(volumes, m, parts[p], "o2", "o3", 1))
    }
  if (met + missed) printf "predicted within an octave: %d of %d crossovers that were measured or predicted\n", met, met + missed
}
function crossing(measured, expected,    off) {
  off = measured == "" || expected == "" ? "" : log(expected / measured) / log(2)
  if (measured != "" || expected != "") { if (off != "" && off <= 1 && off >= -1) met++; else missed++ }
  return sprintf(" %9s %9s %7s", measured == "" ? "-" : measured, expected == "" ? "-" : expected,
    off == "" ? "" : sprintf("%+.0f", off))
}

# Prints the losses of the simulator's choice and of the best fixed choice for whole layers, both relative to the best
# schedule. Uses only layers of at least `bytes` bytes in which the second best schedule takes at least `margin` longer.
function print_regret(margin, bytes, what,    i, w, c, s, best, guess, chosen, regret, fixed, m) {
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    best = best_of(c, "forward", "o", "", 0); guess = best_of(c, "forward", "o", "", 1)
    if (guess == "" || bytes_of(c) < bytes) continue
    if (loss(c, "forward", best_of(c, "forward", "o", best, 0), best) < margin) continue
    m++
    chosen += loss(c, "forward", guess, best)
    for (w = 1; w <= schedule_count; w++) regret[schedules[w]] += loss(c, "forward", schedules[w], best)
  }
  if (!m) return
  for (w = 1; w <= schedule_count; w++) {
    s = schedules[w]
    if (s != "baseline" && (fixed == "" || regret[s] < regret[fixed])) fixed = s
  }
  printf "%s (%d layers): the simulator's choice loses %.1f%% on average, the best fixed schedule (%s) %.1f%%\n", what, m,
    100 * chosen / m, fixed, 100 * regret[fixed] / m
}

function print_errors_of(part,    i, list) {
  if (!points[part]) return
  for (i = 1; i <= points[part]; i++) list[i] = errors[part, i]
  printf "error of the simulator, %s: median %.1f%%, 95th percentile %.1f%% over %d medians\n", part,
    100 * median(list, points[part]), 100 * quantile(list, points[part], 0.95), points[part]
}

END {
  print_cases()
  print_limits()
  for (p = 1; p <= part_count; p++) print_errors_of(parts[p])
  print_crossovers()
  print ""
  print_regret(0.1, 0, "layers in which the second best takes at least 10% longer")
  print_regret(0, 524288, "layers from 512 KB up")
  print_regret(0, 0, "all layers")
}
