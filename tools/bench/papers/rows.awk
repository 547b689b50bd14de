# Functions that read rows of moe_layer and compute values for the tables. Parameters: c is a layer, s is a schedule, r
# is a round. Medians are over rounds. Ratios compare values of the same round.

$1 == "run" { next }  # a line that describes the run of the following rows

function read_row(    c) {
  if ($1 == "ranks") { token_ranks[$2] = $4; random_ranks[$2] = $5; routing_seed[$2] = $3; return }
  c = $1
  if (!(c in seen)) { seen[c] = 1; layers[++layer_count] = c }
  if (!($3 in known)) { known[$3] = 1; schedules[++schedule_count] = $3 }
  if ($2 > rounds) rounds = $2
  seconds[c, $4, $3, $2] = $5; graph[c, $4, $3, $2] = $6
  communication[c, $4, $3, $2] = $7; computation[c, $4, $3, $2] = $8
  predicted[c, $4, $3] = $9 == "-" ? "" : $9 + $10
  predicted_graph[c, $4, $3] = $9 == "-" ? "" : $9 + 0
  ep_bytes[c, $4, $3] = $11; tp_bytes[c, $4, $3] = $12
  if ($13 > peak[c, $3]) peak[c, $3] = $13
}

# Returns the value of a letter in a layer's text: field("M=768,H=3072", "M") is 768. Returns 1 if the letter is
# missing.
function field(c, letter,    parts, i, n, pair) {
  n = split(c, parts, ",")
  for (i = 1; i <= n; i++) {
    split(parts[i], pair, "=")
    if (pair[1] == letter) return pair[2] + 0
  }
  return 1
}

# Returns the seconds of one pass, or the sum of both passes ("step").
function took(c, pass, s, r) {
  return pass == "step" ? seconds[c, "forward", s, r] + seconds[c, "backward", s, r] : seconds[c, pass, s, r]
}
function foreseen(c, pass, s) {
  return pass == "step" ? predicted[c, "forward", s] + predicted[c, "backward", s] : predicted[c, pass, s]
}
function typical(c, pass, s,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = took(c, pass, s, r)
  return median(list, rounds)
}
# Returns the median of `column` for a pass. Columns: communication, computation, graph.
function typical_value(column, c, pass, s,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = column[c, pass, s, r]
  return median(list, rounds)
}
# Returns the time of the schedule `reference` divided by the time of `s`.
function speedup(c, pass, s, reference,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = took(c, pass, reference, r) / took(c, pass, s, r)
  return median(list, rounds)
}
function foreseen_speedup(c, pass, s, reference) {
  return foreseen(c, pass, reference) == "" ? "" : foreseen(c, pass, reference) / foreseen(c, pass, s)
}
function abs(x) { return x < 0 ? -x : x }
function max(a, b) { return a > b ? a : b }
function min(a, b) { return a < b ? a : b }
function average(list, count,    i, sum) {
  for (i = 1; i <= count; i++) sum += list[i]
  return count ? sum / count : 0
}
function error_of(predicted, measured) { return sprintf("%+.0f%%", 100 * (predicted / measured - 1)) }

# Prints g, the mean number of ranks with experts of a token, next to its expectation for random experts.
function print_token_ranks(    i, c) {
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    if (c in token_ranks && field(c, "ep") > 1)
      printf "g = %.3f ranks have experts of a token, formula for random experts %.3f (seed %d): %s\n", token_ranks[c],
        random_ranks[c], routing_seed[c], c
  }
}

# Prints the times of the schedules cutN (N chunks in sequence), as ratios to the time of the schedule `whole` (one
# chunk). Also prints the ratios of the schedules with N overlapping chunks. The names of these schedules are
# `overlapping` followed by N. Prints nothing if no layer has a schedule cutN.
function print_cutting(pass, whole, overlapping,    i, w, c, s, n, count) {
  for (i = 1; i <= layer_count; i++)
    for (w = 1; w <= schedule_count; w++) {
      c = layers[i]; s = schedules[w]
      if (s !~ /^cut[0-9]+$/ || !((c, (pass == "step" ? "forward" : pass), s, 1) in seconds)) continue
      if (!count++) {
        print "\nCost of cutting alone: time of n chunks divided by the time of one chunk, " pass
        printf "%3s %12s %12s %12s  %s\n", "n", "in sequence", "predicted", "overlapping", "layer"
      }
      n = substr(s, 4)
      printf "%3d %12.3f %12s %12.3f  %s\n", n, 1 / speedup(c, pass, s, whole),
        !foreseen(c, pass, s) || !foreseen(c, pass, whole) ? "-" : sprintf("%.3f", 1 / foreseen_speedup(c, pass, s, whole)),
        1 / speedup(c, pass, overlapping n, whole), c
    }
}

# Prints the errors of the simulator relative to the measurements, for task graphs and for whole passes.
function print_errors(    i, w, p, pass, c, s, n, r, list, graphs, passes, x) {
  for (i = 1; i <= layer_count; i++)
    for (w = 1; w <= schedule_count; w++)
      for (p = 1; p <= 2; p++) {
        c = layers[i]; s = schedules[w]; pass = p == 1 ? "forward" : "backward"
        if (predicted[c, pass, s] == "") continue
        for (r = 1; r <= rounds; r++) list[r] = graph[c, pass, s, r]
        n++
        graphs[n] = abs(predicted_graph[c, pass, s] / median(list, rounds) - 1)
        passes[n] = abs(predicted[c, pass, s] / typical(c, pass, s) - 1)
      }
  if (!n) return
  printf "%-52s %10s %9.1f%%\n", "error of the simulator, task graphs: median of " n, "", 100 * quantile(graphs, n, 0.5)
  printf "%-52s %10s %9.1f%%\n", "  95th percentile", "", 100 * quantile(graphs, n, 0.95)
  printf "%-52s %10s %9.1f%%\n", "error, whole passes: median", "", 100 * quantile(passes, n, 0.5)
  printf "%-52s %10s %9.1f%%\n", "  95th percentile", "", 100 * quantile(passes, n, 0.95)
}
