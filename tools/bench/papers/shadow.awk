# Prints the table of tools/bench/papers/shadow.sh. Input: rows of moe_layer.

BEGIN { FS = "\t" }

{ read_row() }

END {
  print "Step: forward and backward. MB: bytes that a rank sends in a step, mean over the ranks. Speedup of shadow over stay;"
  print "predicted by the simulator"
  printf "%-8s %6s %-6s | %9s %9s | %7s %9s %6s | %8s %8s\n", "exponent", "tokens", "chunks", "stay s", "shadow s", "speedup",
    "predicted", "error", "stay MB", "shadow MB"
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    for (n = 1; n <= 2; n++) {
      a = n == 1 ? "stay" : "stay_chunks"; b = n == 1 ? "shadow" : "shadow_chunks"
      if (!((c, "forward", a, 1) in seconds) || !((c, "forward", b, 1) in seconds)) continue
      x = speedup(c, "step", b, a); y = foreseen_speedup(c, "step", b, a)
      printf "%-8s %6d %-6s | %9.4f %9.4f | %7.2f %9s %6s | %8.2f %8.2f\n", field(c, "model.moe.zipf_exponent"), field(c, "B"),
        n == 1 ? "-" : "4", typical(c, "step", a), typical(c, "step", b), x, y == "" ? "-" : sprintf("%.2f", y),
        y == "" ? "-" : error_of(y, x), sent(c, a), sent(c, b)
    }
  }
  print_errors()
}

function sent(c, s) { return (ep_bytes[c, "forward", s] + ep_bytes[c, "backward", s]) / 1e6 }
