# Prints the table of tools/bench/papers/mpmoe_memory.sh (MPMoE, Fig. 2) from rows of moe_layer --memory.

BEGIN { FS = "\t" }
$1 == "memory" {
  # The layer runs without its optimizer. The two moments of Adam would have the type of the parameters.
  held["states", $2] = 3 * $5 + $6; held["activations", $2] = $7; held["buffers", $2] = $8; held["sent", $2] = $9
  next
}
{ read_row() }

# Returns the FLOPs of the experts' products in a step, forward and backward.
function flops(c) { return 12 * field(c, "k") * field(c, "B") * field(c, "M") * field(c, "H") }
function computing(c,    r, list) {
  for (r = 1; r <= rounds; r++) list[r] = computation[c, "forward", "fastmoe", r] + computation[c, "backward", "fastmoe", r]
  return median(list, rounds)
}
function shares(a, b, d,    all) {
  all = a + b + d
  return sprintf("%6.1f %6.1f %6.1f", 100 * a / all, 100 * b / all, 100 * d / all)
}

END {
  for (i = 1; i <= layer_count; i++) most = max(most, flops(layers[i]) / computing(layers[i]))
  print "Fig. 2: peaks of memory in backward by part, MB, and their shares in percent; next to them, those of equations 1 to 3."
  print "states: with the moments of Adam; activ.: with the gradient of the output, which replaces the output; buffers and comm.:"
  print "temporary buffers. computing: share of a step with computation; utilisation: FLOP/s of the experts' products in a step,"
  printf "compared with the highest rate of computation in this table, %.1f GFLOP/s\n", most / 1e9
  printf "%-7s %6s | %8s %8s %8s %8s | %-20s | %-20s | %9s %11s\n", "model", "tokens", "states", "activ.", "buffers", "comm.",
    "states activ. buffers", "equations 1 to 3", "computing", "utilisation"
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    if (!(("states", c) in held)) continue
    printf "%-7s %6d | %8.1f %8.1f %8.1f %8.1f | %s | %s | %8.0f%% %10.0f%%\n", model(c), field(c, "B"), held["states", c] / 1e6,
      held["activations", c] / 1e6, held["buffers", c] / 1e6, held["sent", c] / 1e6,
      shares(held["states", c], held["activations", c], held["buffers", c] + held["sent", c]),
      shares(states(c), activations(c), buffers(c)), 100 * computing(c) / typical(c, "step", "fastmoe"),
      100 * flops(c) / typical(c, "step", "fastmoe") / most
    off = max(off, abs((held["activations", c] + held["buffers", c] + held["sent", c]) / (activations(c) + buffers(c)) - 1))
  }
  printf "activations and buffers: largest deviation from equations 2 and 3 %.0f%%\n", 100 * off
}
