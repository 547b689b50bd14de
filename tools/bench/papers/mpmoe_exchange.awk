# Prints the table of tools/bench/papers/mpmoe_exchange.sh from rows of moe_layer (MPMoE, Fig. 13).

BEGIN { FS = "\t" }
{ read_row() }

# Returns the ratio of FasterMoE's seconds of communication to the seconds of `s`.
function over_fastermoe(c, s,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = communication[c, "forward", "fastermoe", r] / communication[c, "forward", s, r]
  return median(list, rounds)
}
# Returns the ratio of FasterMoE's predicted seconds of the task graph to the predicted seconds of `s`. Most of the
# seconds are communication.
function predicted_over_fastermoe(c, s) {
  return predicted_graph[c, "forward", s] ? predicted_graph[c, "forward", "fastermoe"] / predicted_graph[c, "forward", s] : ""
}

END {
  print "Fig. 13: dispatch and recovery alone, seconds, and speed of the bytes that a rank sends; ratio: FasterMoE's seconds"
  print "divided by those of n micro-batches (paper: above 1); predicted: the same ratio of the simulator's task graphs"
  printf "%9s %-10s %9s %9s %7s %9s %6s\n", "bytes", "schedule", "seconds", "MB/s", "ratio", "predicted", "error"
  for (i = 1; i <= layer_count; i++)
    for (w = 1; w <= schedule_count; w++) {
      c = layers[i]; s = schedules[w]
      if (!((c, "forward", s, 1) in communication)) continue
      exchange = typical_value(communication, c, "forward", s)
      x = over_fastermoe(c, s); y = predicted_over_fastermoe(c, s)
      printf "%9d %-10s %9.4f %9.2f %7.3f %9s %6s\n", 4 * field(c, "B") * field(c, "M"), s, exchange,
        ep_bytes[c, "forward", s] / exchange / 1e6, x, y == "" ? "-" : sprintf("%.3f", y), y == "" ? "-" : error_of(y, x)
      if (s != "fastermoe") ratios[++ratio_count] = x
      others = max(others, 1 - exchange / typical_value(graph, c, "forward", s))
    }
  if (!ratio_count) exit
  printf "FasterMoE's seconds over MPMoE's: median %.3f, %.3f to %.3f\n", median(ratios, ratio_count),
    quantile(ratios, ratio_count, 0), quantile(ratios, ratio_count, 1)
  printf "largest share of a task graph that is not communication: %.0f%%\n", 100 * others
  print_errors()
}
