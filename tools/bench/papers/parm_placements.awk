# Prints the table of tools/bench/papers/parm_placements.sh. Input: lines that consist of a case, the node of each rank,
# and a row of moe_layer.

BEGIN { FS = "\t" }

{
  number = $1; nodes = $2
  sub(/^[^\t]*\t[^\t]*\t/, "")
  $1 = number "|" nodes "|" $1
  read_row()
}

# Returns the share of the traffic inside groups that leaves the node, averaged over the ranks. Each group has `size`
# ranks, which are `stride` ranks apart.
function leaving(nodes, size, stride,    of, i, j, n, out, all, first) {
  n = split(nodes, of, ",")
  for (i = 0; i < n; i++) {
    first = i - int(i / stride) % size * stride
    for (j = 0; j < size; j++) {
      if (first + j * stride == i) continue
      all++
      if (of[first + j * stride + 1] != of[i + 1]) out++
    }
  }
  return all ? sprintf("%.0f%%", 100 * out / all) : "-"
}

END {
  print "Collectives: share of a rank's bytes that leaves the node. S1, S2: speedup over the baseline, whole step; predictions by the simulator"
  printf "%-4s %-16s %4s | %9s %7s %8s %7s | %10s | %5s %9s %6s | %5s %9s %6s\n", "case", "node of a rank", "N_MP", "ESP gath.",
    "EP A2A", "EP&ESP", "MP gath", "baseline s", "S1", "predicted", "error", "S2", "predicted", "error"
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    split(c, part, "|")
    etp = field(part[3], "etp"); ep = field(part[3], "ep"); tp = field(part[3], "tp")
    printf "%-4s %-16s %4d | %9s %7s %8s %7s | %10.4f", part[1], part[2], tp, leaving(part[2], etp, 1), leaving(part[2], ep, etp),
      leaving(part[2], ep * etp, 1), leaving(part[2], tp, 1), typical(c, "step", "baseline")
    split("s1 s2", pair, " ")
    for (s = 1; s <= 2; s++) {
      x = speedup(c, "step", pair[s], "baseline"); y = foreseen_speedup(c, "step", pair[s], "baseline")
      printf " | %5.2f %9.2f %6s", x, y, error_of(y, x)
    }
    print ""
  }
  print_errors()
}
